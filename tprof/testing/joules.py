"""The joules of a call of a function, measured for a while."""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError
from tprof.session.recording import record
from tprof.task import region

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.analysis import Profile

MEASURED = "measured block"
LEAST_S = 0.5


@dataclass(frozen=True)
class Joules:
    """What a call took.

    Attributes
    ----------
    energy_j, low_j, high_j : mean of the calls with its 95 % interval, nested tasks included; NaN without a sensor
    seconds : mean of the calls
    calls : how many were measured
    quality : whether the joules were measured or estimated
    """

    energy_j: float
    low_j: float
    high_j: float
    seconds: float
    calls: int
    quality: str


def joules(
    function: Callable[..., Any],
    *arguments: Any,
    seconds: float = LEAST_S,
    energy: str | Sequence[str] = "auto",
    **options: Any,
) -> Joules:
    """Call a function for a while and return the joules of a call.

    Parameters
    ----------
    function, *arguments, **options : what is called
    seconds : for how long; it is called twice at least, and once before, which is not measured
    energy : as for `tprof.record`

    Raises
    ------
    UsageError
        If a recording runs already, or the seconds are not a positive number.
    SensorError
        If the sensor cannot be read.

    Examples
    --------
    >>> from tprof.testing import joules
    >>> taken = joules(sorted, range(1000), seconds=0.05, energy="estimate")
    >>> taken.quality, taken.calls >= 2
    ('estimated', True)
    """
    if not 0 < seconds < math.inf:
        raise UsageError(f"seconds must be a positive number, got {seconds!r}")
    function(*arguments, **options)
    with tempfile.TemporaryDirectory(prefix="tprof-") as folder:
        with record(Path(folder) / "joules.tprof", energy=energy) as recording:
            calls = repeated(function, arguments, options, seconds=seconds)
        profile = recording.profile()
    return of_block(profile, calls)


def of_block(profile: Profile, calls: int, *, block: str = MEASURED) -> Joules:
    """Return the joules of a call of those in a block."""
    from tprof.analysis.compare.inclusive import inclusive  # noqa: PLC0415 - the door to analysis

    row = inclusive(profile, [block], besides=True).iloc[0]
    mean, low, high, seconds = (
        float(row[name]) / calls for name in ("energy_j", "energy_low_j", "energy_high_j", "duration_s")
    )
    return Joules(mean, low, high, seconds, calls=calls, quality=str(profile.info["quality"]))


def repeated(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    options: dict[str, Any],
    *,
    seconds: float,
    block: str = MEASURED,
) -> int:
    """Call a function in one region for so long, twice at least, and return how often."""
    calls = 0
    with region(block):
        end = time.perf_counter() + seconds
        while calls < 2 or time.perf_counter() < end:
            function(*arguments, **options)
            calls += 1
    return calls
