"""The readings of one domain, of the machine's busy time, or of the program's CPU time.

Those of a long recording stay in their file: a sensor that is read each millisecond has 86 million a day. They are then
read piece by piece, each time that they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .bounds import LARGEST_UNIT, MAX_JOULES, MAX_WATTS, SMALLEST_UNIT, is_between
from .metadata import MAX_NS, MAX_PACKAGES
from .stream import Stream, open_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy.typing as npt

    Records = np.ndarray[Any, np.dtype[np.void]]

MOST_HELD = 1 << 20
"""Readings of a file that are kept in memory; of longer ones, none are."""
PIECE = 1 << 18
"""Readings that are read from a file at a time."""
MAX_CHARACTERS = 200
MAX_RELATIVE_ERROR = 10.0
QUANTITIES = ("energy", "busy", "program")


@dataclass(frozen=True)
class Readings:
    """The raw readings of a sensor: counts that may wrap, gaps after failed reads.

    Attributes
    ----------
    name, quantity, scope, package, source : of the source; quantity is energy, busy or program.
    quality : origin of the figures.
    counted : whether the domain belongs in a total (a part of another, or one around others, does not).
    unit : joules (energy) or seconds (busy, program) per count.
    modulus : the count wraps to 0 at this value; None: not known.
    records : (m,) of `layout.READING`, as `records_of` makes them; or the file that has them.
    dropped : readings that could not be written.
    resolution_j : least step of the value, in joules; None: one count, or not known.
    resolution_w : least step of the power whose integral the joules are, in watts; None: a count, or not known.
    relative_error : part by which all its joules may be off, 95 %; None: not stated.
    integrated : whether the sensor shows power, whose integral between readings the joules are.
    covers : the hardware, in a few words; None: the name tells.
    earlier_ns : by how much each was taken earlier than its record says.
    """

    name: str
    quantity: str
    scope: str
    package: int | None
    source: str
    quality: kinds.Quality
    counted: bool
    unit: float
    modulus: int | None
    records: Records | Stream
    dropped: int
    resolution_j: float | None = None
    resolution_w: float | None = None
    relative_error: float | None = None
    integrated: bool = False
    covers: str | None = None
    earlier_ns: int = 0

    @property
    def count(self) -> int:
        """How many there are; a file that was cut since it was opened has fewer."""
        return self.records.count if isinstance(self.records, Stream) else len(self.records)

    def pieces(self) -> Iterator[Records]:
        """Yield all of them as records of `layout.READING`, in order. Raises TraceError."""
        for first in range(0, self.count, PIECE):
            if isinstance(self.records, Stream):
                piece = _checked(self.records.read_part(layout.READING, first, first + PIECE))
            else:
                piece = self.records[first : first + PIECE].copy()
            # A time before the boot wraps, and is read as a negative one.
            piece["t_ns"] -= np.int64(self.earlier_ns).astype(np.uint64)
            yield piece

    @property
    def t_ns(self) -> npt.NDArray[np.int64]:
        """Times just after the reads, (m,)."""
        return self._column("t_ns").astype(np.int64)

    @property
    def value(self) -> npt.NDArray[np.uint64]:
        """Counts, (m,)."""
        return self._column("value")

    @property
    def window_ns(self) -> npt.NDArray[np.uint32]:
        """Times within which the counts changed, and were read, (m,)."""
        return self._column("window_ns")

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which reads failed, (m,)."""
        return np.asarray((self._column("flags") & kinds.ReadingFlag.MISSING) != 0)

    def _column(self, name: str) -> npt.NDArray[Any]:
        return np.concatenate([np.empty(0, layout.READING[name]), *(piece[name] for piece in self.pieces())])


def records_of(
    t_ns: npt.ArrayLike,
    value: npt.ArrayLike,
    *,
    window_ns: npt.ArrayLike = 0,
    missing: npt.ArrayLike = False,
    reopened: npt.ArrayLike = False,
    suspended_ns: npt.ArrayLike = 0,
) -> Records:
    """Return readings as records, (m,) of `layout.READING`.

    Parameters
    ----------
    t_ns : (m,) int64, just after the read
    value : (m,) uint64, counts
    window_ns : (m,) uint32, the change happened inside it, and the value was read inside it
    missing, reopened : (m,) bool
    suspended_ns : (m,) int64, CLOCK_BOOTTIME minus CLOCK_MONOTONIC
    """
    records = np.zeros(np.shape(t_ns), layout.READING)
    records["t_ns"], records["value"] = t_ns, value
    records["window_ns"], records["suspended_ns"] = window_ns, suspended_ns
    flags = kinds.ReadingFlag
    records["flags"] = np.where(missing, flags.MISSING, 0) | np.where(reopened, flags.REOPENED, 0)
    return records


def read_readings(path: Path) -> tuple[Readings, list[str]]:
    """Read a file of readings; returns it with notes on missing ones. Raises TraceError."""
    readings, stream, notes = open_readings(path)
    if stream.count <= MOST_HELD:
        readings = replace(readings, records=_checked(stream.read(layout.READING)))
    elif stream.packed is not None or stream.segments is not None:
        # What is damaged is found by reading.
        for _ in readings.pieces():
            pass
    first = _checked(stream.read_part(layout.READING, 0, 1))["t_ns"].tolist()
    notes += stream.losses(readings.name, first[0] if first else 0)
    return readings, ([stream.note] if stream.note else []) + notes


def open_readings(path: Path) -> tuple[Readings, Stream, list[str]]:
    """Open a file of readings, none of which are read; returns it with notes on its description. Raises TraceError."""
    stream = open_stream(path, kinds.StreamKind.READINGS)
    metadata = stream.description
    package = metadata.get("package")
    quality, notes = _quality(path, metadata.get("quality"))
    quantity = _text(metadata.get("quantity"), "unknown")
    if quantity not in QUANTITIES:
        notes.append(f"{path.name} holds {quantity!r}, which is none of {', '.join(QUANTITIES)}, and is not used")
    readings = Readings(
        name=_text(metadata.get("name"), path.stem),
        quantity=quantity,
        scope=_text(metadata.get("scope"), "unknown"),
        package=package if type(package) is int and 0 <= package < MAX_PACKAGES else None,
        source=_text(metadata.get("source"), "unknown"),
        quality=quality,
        counted=metadata.get("counted") is True,
        unit=_unit_of(stream),
        modulus=stream.number("modulus") or None,
        records=stream,
        dropped=stream.number("dropped_enospc") + stream.number("dropped_io"),
        **_error_class(metadata),
    )
    return readings, stream, notes


def _error_class(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the description says of the sensor's error; what means nothing counts as not said."""
    integrated = metadata.get("shows") == "power"
    step = _bounded(metadata.get("resolution"), SMALLEST_UNIT, MAX_WATTS if integrated else MAX_JOULES)
    return {
        "resolution_j": None if integrated else step,
        "resolution_w": step if integrated else None,
        "relative_error": _bounded(metadata.get("relative_error"), 0, MAX_RELATIVE_ERROR),
        "integrated": integrated,
        "covers": _text(metadata.get("covers"), "") or None,
    }


def _bounded(value: Any, least: float, most: float) -> float | None:
    return float(value) if is_between(value, least, most) else None


def _unit_of(stream: Stream) -> float:
    """Return joules or seconds per count. Raises TraceError if it is implausible."""
    unit = float(stream.header["unit"])
    if not SMALLEST_UNIT <= unit <= LARGEST_UNIT:
        message = (
            f"{stream.path} is damaged: its unit is {unit:g}, and a sensor counts in {SMALLEST_UNIT:.0e} to "
            f"{LARGEST_UNIT:g} joules or seconds; leave the file out"
        )
        raise TraceError(message)
    return unit


def _quality(path: Path, quality: object) -> tuple[kinds.Quality, list[str]]:
    """Return the quality of the figures; an unknown one counts as an estimate, the least certain."""
    if isinstance(quality, str) and quality in set(kinds.Quality):
        return kinds.Quality(quality), []
    return kinds.Quality.ESTIMATED, [f"{path.name} does not say how its figures were got: they count as estimated"]


def _text(value: object, otherwise: str) -> str:
    return value[:MAX_CHARACTERS] if isinstance(value, str) and value else otherwise


def _checked(records: Records) -> Records:
    """Limit times to the range of int64, and flags to known ones; a clock 292 years after boot is damage, not time."""
    for name in ("t_ns", "suspended_ns"):
        np.minimum(records[name], np.uint64(MAX_NS), out=records[name])
    records["flags"] &= np.uint16(kinds.ReadingFlag.MISSING | kinds.ReadingFlag.REOPENED)
    return records
