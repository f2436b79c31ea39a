"""The readings of one domain, of the machine's busy time, or of the program's CPU time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .stream import open_stream

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt


@dataclass(frozen=True)
class Readings:
    """What a sensor said, as it said it: raw counts that may wrap, gaps where a read failed.

    Attributes
    ----------
    name, quantity, scope, package, source : what was read; quantity is energy, busy or program.
    quality : how the figures were got.
    counted : whether the domain belongs in a total (a part of another, or one around others, does not).
    unit : joules (energy) or seconds (busy, program) per count.
    modulus : the count wraps to 0 at this value; None: not known.
    t_ns : (m,) int64, just after the read.
    value : (m,) uint64, counts.
    window_ns : (m,) uint32, time since the previous successful read: the change happened inside it.
    missing, reopened : (m,) bool.
    suspended_ns : (m,) int64, CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
    dropped : readings that could not be written.
    """

    name: str
    quantity: str
    scope: str
    package: int | None
    source: str
    quality: layout.Quality
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


def read_readings(path: Path) -> tuple[Readings, str | None]:
    """Read a file of readings; returns it with a note where it is cut. Raises TraceError."""
    stream = open_stream(path, layout.StreamKind.READINGS)
    records = stream.read(layout.READING)
    said = stream.description
    quality = said.get("quality")
    package = said.get("package")
    unit = float(stream.header["unit"])
    return Readings(
        name=str(said.get("name", path.stem))[:200],
        quantity=str(said.get("quantity", "energy")),
        scope=str(said.get("scope", "package")),
        package=package if type(package) is int else None,
        source=str(said.get("source", "unknown"))[:200],
        quality=layout.Quality(quality) if quality in set(layout.Quality) else layout.Quality.GIVEN,
        counted=said.get("counted") is True,
        unit=unit if np.isfinite(unit) and unit > 0 else 1e-6,
        modulus=stream.number("modulus") or None,
        t_ns=_signed(records["t_ns"]),
        value=records["value"].copy(),
        window_ns=records["window_ns"].copy(),
        missing=(records["flags"] & layout.ReadingFlag.MISSING) != 0,
        reopened=(records["flags"] & layout.ReadingFlag.REOPENED) != 0,
        suspended_ns=_signed(records["suspended_ns"]),
        dropped=stream.number("dropped_enospc") + stream.number("dropped_io"),
    ), stream.note


def _signed(values: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401 - a field of a structured array
    """Cap what does not fit; a clock 292 years after boot is damage, not time."""
    return np.minimum(values, np.uint64(2**63 - 1)).astype(np.int64)
