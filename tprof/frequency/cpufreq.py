"""The cpufreq policies below /sys: their processors, frequencies and drivers, and how a frequency is fixed.

A policy is a set of processors with one frequency control: one processor each with intel_pstate and amd-pstate, often
a whole package with acpi-cpufreq. The kernel writes kHz; here everything is Hz. Attributes as the kernel documents
them in Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst and amd-pstate.rst.

To fix a frequency, both bounds of a policy get the same value. Every driver supports bounds under any governor:
intel_pstate in its active mode and amd-pstate-epp have no userspace governor, and that governor respects the bounds. If
it runs, `scaling_setspeed` is written too, to agree with them. A frequency above `base_hz` is only an upper limit: the
processor may choose a lower one. The kernel rejects a minimum above the maximum, so the current bounds determine the
order of the two writes.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.errors import SensorError
from tprof.trace.plain_values import whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


CPUFREQ = "sys/devices/system/cpu/cpufreq"
NO_TURBO = "sys/devices/system/cpu/intel_pstate/no_turbo"
DRIVER = "sudo modprobe acpi_cpufreq"
OTHER_DRIVERS = "sudo modprobe cppc_cpufreq, or the board's own, such as scmi_cpufreq or cpufreq_dt"
KHZ = 1000
MOST_KHZ = 10**12
MIN, MAX, SETSPEED = "scaling_min_freq", "scaling_max_freq", "scaling_setspeed"
USERSPACE = "userspace"


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest frequency that a policy allows, from its files."""

    lowest_hz: int
    highest_hz: int


@dataclass(frozen=True)
class Policy:
    """A policy with online processors.

    Attributes
    ----------
    folder : policyN.
    cpus : its online processors (`affected_cpus`).
    driver, governor : the kernel's names.
    range : of the hardware; without turbo if that is switched off.
    listed_hz : the available frequencies, ascending; empty if every one in the range is available.
    base_hz : above it the processor decides by itself (turbo); None if unknown.
    """

    folder: Path
    cpus: tuple[int, ...]
    driver: str
    governor: str
    range: Bounds
    listed_hz: tuple[int, ...] = ()
    base_hz: int | None = None

    def nearest_hz(self, hz: int) -> int:
        """Return the available frequency nearest to a given one, the lower of two."""
        if self.listed_hz:
            return min(self.listed_hz, key=lambda listed: (abs(listed - hz), listed))
        return min(max(hz, self.range.lowest_hz), self.range.highest_hz)


def find_policies(root: Path, machine: str | None = None) -> tuple[Policy, ...]:
    """Return the policies with processors online, by their numbers.

    Parameters
    ----------
    root
        Directory above /sys.
    machine
        The architecture, as uname names it; by default this one's.

    Raises
    ------
    SensorError
        If there are none, or one cannot be read.
    """
    found = {whole(folder.name.removeprefix("policy")): folder for folder in (root / CPUFREQ).glob("policy[0-9]*")}
    folders = [found[number] for number in sorted(number for number in found if number is not None)]
    policies = [_read(root, folder) for folder in folders if _words(folder / "affected_cpus")]
    if not policies:
        from tprof.sensors.topology import is_x86  # noqa: PLC0415 - what restores frequencies needs no sensors

        raise SensorError(
            f"{root / CPUFREQ} has no policy: this machine does not let its frequency be set (a virtual machine), "
            f"or the driver is not loaded ({DRIVER if is_x86(machine) else OTHER_DRIVERS})"
        )
    return tuple(policies)


def read_bounds(policy: Policy) -> Bounds:
    """Return the current bounds of a policy. Raises SensorError."""
    return Bounds(number_hz(policy.folder / "scaling_min_freq"), number_hz(policy.folder / "scaling_max_freq"))


def number_hz(path: Path) -> int:
    """Return the frequency in a file. Raises SensorError."""
    text = text_of(path)
    khz = whole(text, MOST_KHZ)
    if khz is None:
        raise SensorError(
            f"{path} holds {text[:40]!r}, which is no frequency in kHz: run with another driver or governor"
        )
    return khz * KHZ


def text_of(path: Path) -> str:
    """Return the content of a file. Raises SensorError."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise SensorError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}; is its processor still online?"
        ) from error


def _read(root: Path, folder: Path) -> Policy:
    base = _optional_hz(folder / "base_frequency")
    highest_hz = number_hz(folder / "cpuinfo_max_freq")
    if base is not None and _words(root / NO_TURBO) == ["1"]:
        highest_hz = min(highest_hz, base)
    return Policy(
        folder=folder,
        cpus=tuple(cpu for word in _words(folder / "affected_cpus") if (cpu := whole(word)) is not None),
        driver=text_of(folder / "scaling_driver"),
        governor=text_of(folder / "scaling_governor"),
        range=Bounds(number_hz(folder / "cpuinfo_min_freq"), highest_hz),
        listed_hz=_listed(root, folder),
        base_hz=base,
    )


def _listed(root: Path, folder: Path) -> tuple[int, ...]:
    """Return the boost frequencies, which are listed separately and available only while boost is on."""
    words = _words(folder / "scaling_available_frequencies")
    if words and _words(root / CPUFREQ / "boost") == ["1"]:
        words += _words(folder / "scaling_boost_frequencies")
    return tuple(sorted({khz * KHZ for word in words if (khz := whole(word, MOST_KHZ)) is not None}))


def _optional_hz(path: Path) -> int | None:
    words = _words(path)
    khz = whole(words[0], MOST_KHZ) if words else None
    return None if khz is None else khz * KHZ


def _words(path: Path) -> list[str]:
    """Return the words of an optional file."""
    try:
        return path.read_text(encoding="ascii", errors="replace").split()
    except OSError:
        return []


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
