"""The readings of one domain, of the machine's busy time, or of the program's CPU time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .bounds import LARGEST_UNIT, MAX_JOULES, MAX_WATTS, SMALLEST_UNIT, is_between
from .metadata import MAX_NS, MAX_PACKAGES
from .stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from .stream import Stream

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
    t_ns : (m,) int64, just after the read.
    value : (m,) uint64, counts.
    window_ns : (m,) uint32, the change happened inside it, and the value was read inside it.
    missing, reopened : (m,) bool.
    suspended_ns : (m,) int64, CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
    dropped : readings that could not be written.
    resolution_j : least step of the value, in joules; None: one count, or not known.
    resolution_w : least step of the power whose integral the joules are, in watts; None: a count, or not known.
    relative_error : part by which all its joules may be off, 95 %; None: not stated.
    integrated : whether the sensor shows power, whose integral between readings the joules are.
    covers : the hardware, in a few words; None: the name tells.
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
    t_ns: npt.NDArray[np.int64]
    value: npt.NDArray[np.uint64]
    window_ns: npt.NDArray[np.uint32]
    missing: npt.NDArray[np.bool_]
    reopened: npt.NDArray[np.bool_]
    suspended_ns: npt.NDArray[np.int64]
    dropped: int
    resolution_j: float | None = None
    resolution_w: float | None = None
    relative_error: float | None = None
    integrated: bool = False
    covers: str | None = None

    def without_values(self) -> Readings:
        """Return what is known of the source, without its values."""
        arrays = ("t_ns", "value", "window_ns", "missing", "reopened", "suspended_ns")
        return replace(self, **{name: getattr(self, name)[:0] for name in arrays})

    def records(self) -> np.ndarray[Any, np.dtype[np.void]]:
        """Return them as file records, (m,) of `layout.READING`."""
        records = np.zeros(len(self.t_ns), layout.READING)
        for name in ("t_ns", "value", "window_ns", "suspended_ns"):
            records[name] = getattr(self, name)
        records["flags"] = self.missing * kinds.ReadingFlag.MISSING + self.reopened * kinds.ReadingFlag.REOPENED
        return records


def read_readings(path: Path) -> tuple[Readings, list[str]]:
    """Read a file of readings; returns it with notes on missing ones. Raises TraceError."""
    stream = open_stream(path, kinds.StreamKind.READINGS)
    unit = unit_of(stream)
    records = stream.read(layout.READING)
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
        unit=unit,
        modulus=stream.number("modulus") or None,
        t_ns=_signed(records["t_ns"]),
        value=records["value"].copy(),
        window_ns=records["window_ns"].copy(),
        missing=(records["flags"] & kinds.ReadingFlag.MISSING) != 0,
        reopened=(records["flags"] & kinds.ReadingFlag.REOPENED) != 0,
        suspended_ns=_signed(records["suspended_ns"]),
        dropped=stream.number("dropped_enospc") + stream.number("dropped_io"),
        **_error_class(metadata),
    )
    first_ns = int(readings.t_ns[0]) if len(readings.t_ns) else 0
    notes += stream.losses(readings.name, first_ns)
    return readings, ([stream.note] if stream.note else []) + notes


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


def unit_of(stream: Stream) -> float:
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


def _signed(values: Any) -> npt.NDArray[np.int64]:
    """Limit values to the range of int64; a clock 292 years after boot is damage, not time."""
    signed: npt.NDArray[np.int64] = np.minimum(values, np.uint64(MAX_NS)).astype(np.int64)
    return signed
