"""Chooses the sensor of a recording: the kernel's power PMU, else powercap, else the estimate, with the reason."""

from __future__ import annotations

import os
from pathlib import Path

from tprof.errors import SensorError, UsageError

from . import perf, powercap
from .contract import Choice, Unavailable
from .estimate import estimate

SYSROOT = "TPROF_SYSROOT"
FINDERS = {"perf": perf.find_domains, "powercap": powercap.find_domains}
NAMES = ("auto", "perf", "powercap", "estimate", "none")


def sysroot() -> Path:
    """Return the directory above /proc and /sys: the environment's `TPROF_SYSROOT`, else the root."""
    return Path(os.environ.get(SYSROOT) or "/")


def choose(
    energy: str = "auto",
    *,
    root: Path,
    watts: tuple[float, float] | str | None = None,
    machine: str | None = None,
) -> Choice:
    """Choose the sensors of a recording.

    Parameters
    ----------
    energy
        One of "auto", "perf", "powercap", "estimate", "none".
    root
        Directory above /proc and /sys.
    watts
        For the estimate: idle watts and watts per busy core.
    machine
        The architecture, as uname names it; by default this one's.

    Raises
    ------
    UsageError
        If there is no sensor of that name.
    SensorError
        If the requested sensor is not available.
    """
    if energy not in NAMES:
        raise UsageError(f"energy must be one of {', '.join(NAMES)}, got {energy!r}")
    if energy == "none":
        return Choice((), notes=("no energy is recorded, as asked",))
    if energy == "estimate" or (energy == "auto" and watts is not None):
        return estimate(root, watts)
    if energy != "auto":
        found = FINDERS[energy](root, machine)
        if isinstance(found, Unavailable):
            raise SensorError(
                f'{energy} gives no energy: {found.why}; run `tprof doctor`, or record with energy="estimate"'
            )
        return Choice(tuple(found[0]), tuple(found[1]))
    return _best(root, machine)


def _best(root: Path, machine: str | None) -> Choice:
    left_out: list[tuple[str, str]] = []
    for name, find in FINDERS.items():
        found = find(root, machine)
        if not isinstance(found, Unavailable):
            return Choice(tuple(found[0]), (*left_out, *found[1]))
        left_out.append((name, found.why))
    estimated = estimate(root, None)
    return Choice(
        domains=estimated.domains,
        left_out=tuple(left_out),
        notes=estimated.notes,
        static_power_w=estimated.static_power_w,
        estimate=estimated.estimate,
    )
