"""The paper's calibrated model (equation 1), its coefficients, and table 1's by name.

Apportioning uses the per-core term C1 + a IPC + b L2 + c LLC over a core's active time; C2 is the
package's own static power and is not apportioned by activity (the paper's table 3 leaves it out:
with C2 one core would draw at least 13.2 W where the table shows 8.3 to 12.2 W).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.errors import UsageError
from tprof.trace.bounds import MAX_WATTS
from tprof.trace.kinds import Quality
from tprof.trace.plain_values import listed, shown
from tprof.trace.power_model import problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE_BYTES = 64
_GIGA = 1e9
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficients:
    """Watts per unit of IPC (a), of L2 and LLC traffic in GB/s (b, c), per active core (c1), per package (c2).

    `scales` are pairs of a frequency in Hz, rising, and a core's power there relative to that of the coefficients
    (the paper's section 3.3: shares hold at every frequency, the level does not).
    """

    a: float
    b: float
    c: float
    c1: float
    c2: float = 0.0
    scales: tuple[tuple[float, float], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Counters that a non-zero coefficient needs."""
        needed = ("instructions", "cycles") if self.a else (("cycles",) if self.scales else ())
        return needed + (("l2_refs",) if self.b else ()) + (("llc_refs",) if self.c else ())


TABLE_1 = Coefficients(a=1.10, b=0.08, c=0.19, c1=8.00, c2=5.20)
"""Table 1 of the paper: Core i5-2500 (Sandy Bridge)."""

NAMED = {"tprof-table1": TABLE_1}


def coefficients_of(given: str | Mapping[str, float] | Coefficients) -> Coefficients:
    """Read coefficients given by name or as a mapping a, b, c, C1 and, if known, C2."""
    if isinstance(given, Coefficients):
        return given
    if isinstance(given, str):
        if given not in NAMED:
            msg = f'coefficients by name are {", ".join(NAMED)}; got "{given}"'
            raise UsageError(msg)
        return NAMED[given]
    lower = {str(name).lower(): value for name, value in given.items()}
    if not {"a", "b", "c", "c1"} <= set(lower) <= {"a", "b", "c", "c1", "c2"}:
        msg = (
            f"coefficients are a, b, c, C1 and optionally C2, in watts; got {listed(sorted(map(str, given))) or 'none'}"
        )
        raise UsageError(msg)
    try:
        numbers = {name: float(value) for name, value in lower.items()}
    except (TypeError, ValueError, OverflowError):
        numbers = {"none": math.nan}
    if not all(0 <= value <= MAX_WATTS for value in numbers.values()):
        msg = f"coefficients are finite watts of 0 or more, at most {MAX_WATTS:g}; got {shown(dict(given))}"
        raise UsageError(msg)
    return Coefficients(numbers["a"], numbers["b"], numbers["c"], numbers["c1"], numbers.get("c2", 0.0))


def modelled(coefficients: Coefficients, counts: Mapping[str, Floats], cpu_s: Floats) -> Floats:
    """Return joules of the per-core term of equation 1: (n,) float64."""
    energy_j = coefficients.c1 * cpu_s
    if coefficients.a:
        cycles = counts["cycles"]
        ipc = np.divide(counts["instructions"], cycles, out=np.zeros_like(cycles), where=cycles > 0)
        energy_j = energy_j + coefficients.a * ipc * cpu_s
    # A rate in GB/s times the time it lasts is the traffic in GB.
    if coefficients.b:
        energy_j = energy_j + coefficients.b * counts["l2_refs"] * (LINE_BYTES / _GIGA)
    if coefficients.c:
        energy_j = energy_j + coefficients.c * counts["llc_refs"] * (LINE_BYTES / _GIGA)
    return energy_j * _scale(coefficients, counts, cpu_s) if coefficients.scales else energy_j


def _scale(coefficients: Coefficients, counts: Mapping[str, Floats], cpu_s: Floats) -> Floats:
    """Return each segment's power relative to that at the frequency of the coefficients: (n,)."""
    known_hz, factors = np.array(coefficients.scales).T
    cycles = counts["cycles"]
    hz = np.divide(cycles, cpu_s, out=np.full_like(cycles, np.nan), where=(cpu_s > 0) & (cycles > 0))
    # A segment of unknown frequency counts as running at that of the coefficients.
    return np.asarray(np.nan_to_num(np.interp(hz, known_hz, factors), nan=1.0))


@dataclass(frozen=True)
class Stored:
    """A calibrated model.

    Attributes
    ----------
    coefficients : of equation 1.
    residual_share : the model's own error, as a part of the power; None if it was not measured.
    intervals : 95 % intervals of the coefficients.
    why : its origin, as a clause.
    """

    coefficients: Coefficients
    residual_share: float | None
    intervals: dict[str, Any]
    why: str


def stored_model(model: object) -> tuple[Stored | None, str | None]:
    """Return the model of a manifest, and a warning if the model cannot be used."""
    if model is None:
        return None, None
    problem = problem_of(model)
    if problem is not None or not isinstance(model, dict):
        return None, f"the power model in the trace's manifest was not used: {problem}"
    found = {name: float(value) for name, value in model["coefficients"].items() if isinstance(value, int | float)}
    scales = tuple((float(hz), float(factor)) for hz, factor in model.get("scales", []))
    share = model.get("residual_share")
    intervals = model.get("intervals")
    return Stored(
        Coefficients(found["a"], found["b"], found["c"], found["C1"], found["C2"], scales),
        None if share is None else float(share),
        intervals if isinstance(intervals, dict) else {},
        _origin(model),
    ), None


def _origin(model: Mapping[str, Any]) -> str:
    processor = model.get("processor") or "a processor not named"
    if model.get("quality") == Quality.GIVEN:
        return f"fitted to {model.get('source')}, kept for {processor}, {model.get('date')} (given)"
    return f"calibrated on {processor}, {model.get('date')} ({model.get('source')}, {model.get('quality')})"
