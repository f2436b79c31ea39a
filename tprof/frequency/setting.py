"""Fixes the processor's frequency: both bounds of a policy get the same value, under any governor.

Every driver supports bounds: intel_pstate in its active mode and amd-pstate-epp have no userspace governor, and that
governor respects the bounds. If it runs, `scaling_setspeed` is written too, to agree with them. A frequency above
`base_hz` is only an upper limit: the processor may choose a lower one.

The kernel rejects a minimum above the maximum, so the current bounds determine the order of the two writes.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from tprof.errors import SensorError

from .policy import KHZ, Bounds, Policy, read_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MIN, MAX, SETSPEED = "scaling_min_freq", "scaling_max_freq", "scaling_setspeed"
USERSPACE = "userspace"


def in_order(now: Bounds, requested: Bounds) -> tuple[tuple[str, int], ...]:
    """Return the writes of files and frequencies in an order that keeps the minimum at or below the maximum."""
    writes = ((MIN, requested.lowest_hz), (MAX, requested.highest_hz))
    return writes[::-1] if requested.lowest_hz > now.highest_hz else writes


def hold(policy: Policy, hz: int) -> Bounds:
    """Fix a policy at its frequency nearest to `hz`.

    Returns
    -------
    Bounds
        The kernel's bounds, read back: drivers round, and firmware may have its own limits.

    Raises
    ------
    SensorError
        If it cannot be written or read back.
    """
    nearest_hz = policy.nearest_hz(hz)
    set_bounds(policy.folder, read_bounds(policy), Bounds(nearest_hz, nearest_hz))
    if policy.governor == USERSPACE:
        write(policy.folder / SETSPEED, str(nearest_hz // KHZ))
    return read_bounds(policy)


def set_bounds(folder: Path, now: Bounds, requested: Bounds) -> None:
    """Write both bounds. Raises SensorError."""
    for name, hz in in_order(now, requested):
        write(folder / name, str(hz // KHZ))


def write(path: Path, text: str) -> None:
    """Write to one of the kernel's files. Raises SensorError."""
    try:
        # Without O_CREAT: a missing file below /sys must not be created.
        file = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(file, text.encode("ascii"))
        finally:
            os.close(file)
    except OSError as error:
        raise SensorError(_why(path, text, error)) from error


def refusal(policies: Sequence[Policy]) -> str | None:
    """Return the reason why this process cannot set the policies, with a remedy; None if it probably can."""
    for policy in policies:
        names = (MIN, MAX, SETSPEED) if policy.governor == USERSPACE else (MIN, MAX)
        for path in (policy.folder / name for name in names):
            # Opening is the kernel's own check, including capabilities and read-only file systems.
            try:
                os.close(os.open(path, os.O_WRONLY))
            except OSError as error:
                return _why(path, None, error)
    return None


def _why(path: Path, text: str | None, error: OSError) -> str:
    reason = (error.strerror or str(error)).lower()
    what = f"cannot write to {path}" if text is None else f"cannot write {text} to {path}"
    return f"{what}: {reason}; {_remedy(path, error.errno)}"


def _remedy(path: Path, number: int | None) -> str:
    folders = path.parent.parent / "policy*"
    if number in (errno.EACCES, errno.EPERM):
        return (
            f'run `sudo chown "$USER" {folders}/scaling_{{min,max}}_freq` (also scaling_setspeed under the governor '
            "userspace): you can then set the processor's frequency, for everybody, until the next start"
        )
    if number == errno.EROFS:
        return (
            "this container sees /sys without the right to write: run outside, or with the host's /sys mounted for "
            "writing and TPROF_SYSROOT set (docker run -v /sys:/host/sys -e TPROF_SYSROOT=/host)"
        )
    if number == errno.EINVAL:
        return "the driver takes no such frequency: choose one from cpuinfo_min_freq to cpuinfo_max_freq beside it"
    return "its processor may have gone offline: see affected_cpus beside it"
