"""Findings about the machine: clock, processors, frequency, the directory of sessions, installed packages."""

from __future__ import annotations

import os
import re
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

import tprof
from tprof.conflicts import find_conflicts, mending_command
from tprof.distribution import NAME
from tprof.errors import SensorError
from tprof.frequency import find_policies, refusal
from tprof.sensors.advice import Remedy
from tprof.sensors.topology import parse_cpu_list, read_text, read_topology
from tprof.trace.plain_values import counted

from .fact import Fact, State, read_proc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.conflicts import Conflict


FAST_CLOCKS = {"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}
"""Clocks that are read in user space."""
PERFORMANCE = Remedy("sudo cpupower frequency-set -g performance", "more power is drawn, until the next start")
WHAT = "frequency"
SAMPLE_BYTES = 64
LITTLE_BYTES = 1 << 30
FOREIGN = {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "afs", "fuse.sshfs", "glusterfs", "beegfs"}
ELSEWHERE = Remedy("tprof run -o /var/tmp/NAME.tprof …")
_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([^'"]+)['"]""")


def processor_facts(root: Path) -> tuple[Fact, ...]:
    """Return the findings on the clock and the processors below `root`."""
    facts = [_clock(root), _processors(root), _offline(root), _governor(root), _hypervisor(root)]
    return tuple(fact for fact in facts if fact is not None)


def _clock(root: Path) -> Fact:
    place = root / "sys/devices/system/clocksource/clocksource0"
    name = read_text(place / "current_clocksource")
    if name is None:
        return Fact("clock", State.OK, "CLOCK_MONOTONIC; the kernel does not say what it is made from")
    if name in FAST_CLOCKS:
        return Fact("clock", State.OK, f"{name}: read without a system call")
    other = FAST_CLOCKS & set((read_text(place / "available_clocksource") or "").split())
    command = f"echo {min(other)} | sudo tee {place / 'current_clocksource'}" if other else None
    exposes = "the kernel left this clock for a reason, such as processors whose counters disagree: see dmesg"
    remedies = (Remedy(command, exposes),) if command else ()
    return Fact("clock", State.LIMITED, f"{name}: each sample costs a system call", remedies)


def _processors(root: Path) -> Fact:
    topology = read_topology(root)
    packages = len({cpu.package for cpu in topology})
    types = [f"{sum(cpu.core_type == name for cpu in topology)} {name}" for name in ("core", "atom")]
    kinds = f" ({', '.join(types)})" if any(cpu.core_type for cpu in topology) else ""
    why = f"{len(topology)}{kinds} on {counted(packages, 'package')}"
    allowed = len(os.sched_getaffinity(0) & {cpu.cpu for cpu in topology})
    if allowed < len(topology):
        why += f"; this process may run on {allowed} of them, and other programs use the same packages"
    return Fact("processors", State.OK, why)


def _offline(root: Path) -> Fact | None:
    offline = parse_cpu_list(read_text(root / "sys/devices/system/cpu/offline") or "")
    if not offline:
        return None
    why = f"{len(offline)} offline: one that comes online while recording is on no package"
    return Fact("offline processors", State.LIMITED, why)


def _governor(root: Path) -> Fact | None:
    name = read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if name is None:
        return None
    if name == "performance":
        return Fact("frequency", State.OK, "governor performance")
    why = f"governor {name}: the frequency follows the load, so joules of two runs differ more"
    return Fact("frequency", State.LIMITED, why, (PERFORMANCE,))


def _hypervisor(root: Path) -> Fact | None:
    if " hypervisor" not in (read_proc(root, "cpuinfo") or ""):
        return None
    why = "virtual: energy and most counters belong to the host; time that the host takes is nobody's"
    return Fact("machine", State.LIMITED, why)


def operating_facts(root: Path, machine: str | None = None) -> tuple[Fact, ...]:
    """Return the findings on setting the frequency below `root`; `machine`: the architecture, by default this one's."""
    try:
        policies = find_policies(root, machine)
    except SensorError as error:
        return (Fact(WHAT, State.MISSING, str(error)),)
    why = refusal(policies)
    if why is not None:
        return (Fact(WHAT, State.MISSING, why),)
    low_hz = min(policy.range.lowest_hz for policy in policies)
    high_hz = max(policy.range.highest_hz for policy in policies)
    each = "one each core" if all(len(policy.cpus) == 1 for policy in policies) else "cores share it"
    return (
        Fact(
            WHAT,
            State.OK,
            f"can be set from {low_hz / 1e9:g} to {high_hz / 1e9:g} GHz, {each} (driver {policies[0].driver})",
        ),
    )


def place_facts(directory: Path) -> tuple[Fact, ...]:
    """Return whether a session can be made in the directory (by making a folder there), and how large it can get."""
    facts = [_writable(directory)]
    if facts[0].state is State.OK:
        facts += [_free_space(directory), _file_system(directory)]
    return tuple(facts)


def _writable(directory: Path) -> Fact:
    try:
        with tempfile.TemporaryDirectory(prefix=".tprof-doctor-", dir=directory):
            return Fact("writable", State.OK, f"{directory} takes sessions")
    except OSError as error:
        why = f"{directory} takes no session: {(error.strerror or str(error)).lower()}"
        return Fact("writable", State.MISSING, why, (ELSEWHERE,))


def _free_space(directory: Path) -> Fact:
    free_bytes = psutil.disk_usage(os.fspath(directory)).free
    why = (
        f"{free_bytes / 1e9:.3g} GB free: {free_bytes / SAMPLE_BYTES / 1e6:.3g} million samples of {SAMPLE_BYTES} bytes"
    )
    few = free_bytes < LITTLE_BYTES
    return Fact("room", State.LIMITED if few else State.OK, why, (ELSEWHERE,) if few else ())


def _file_system(directory: Path) -> Fact:
    try:
        mounts = [(one.mountpoint, one.fstype) for one in psutil.disk_partitions(all=True)]
    except OSError:
        mounts = []
    kind = file_system_of(directory.resolve(), mounts)
    if kind in FOREIGN:
        why = f"{kind}: over a network a sample may wait, and a crash may lose what was written last"
        return Fact("file system", State.LIMITED, why, (ELSEWHERE,))
    return Fact("file system", State.OK, kind or "its kind is not known")


def file_system_of(path: Path, mounts: Sequence[tuple[str, str]]) -> str | None:
    """Return the kind of file system that holds an absolute path.

    Parameters
    ----------
    path
        An absolute path.
    mounts
        Mount points and their kinds, in order; the last of the longest that hold the path decides.
    """
    holding: list[tuple[Path, str | None]] = [
        (Path(place), kind) for place, kind in reversed(mounts) if path.is_relative_to(place)
    ]
    return max(holding, key=lambda one: len(one[0].parts), default=(path, None))[1]


def installation_facts() -> tuple[Fact, ...]:
    """Return the place of this distribution, and a fact for each other one with files in a package `tprof`."""
    folder = Path(tprof.__file__).parent
    conflicts = find_conflicts()
    alone = "" if conflicts else "; no other distribution has the import name tprof"
    own = Fact(NAME, State.OK, f"{tprof.__version__} in {folder}{alone}")
    return own, *(_conflict(conflict) for conflict in conflicts)


def _conflict(conflict: Conflict) -> Fact:
    why = f"{conflict.describe()}. Its files in {conflict.folder}: {', '.join(conflict.files)}"
    remedy = Remedy(mending_command((conflict,)), f"{conflict.name} is gone: install it in an environment of its own")
    return Fact("import name", State.LIMITED, why, (remedy,))


def package_facts() -> tuple[Fact, ...]:
    """Return a fact for each package that an extra of tprof names."""
    extras: dict[str, str] = {}
    for match in filter(None, map(_EXTRA.match, requires(NAME) or ())):
        extras.setdefault(match.group(1), match.group(2))
    return tuple(_package(name, extra) for name, extra in extras.items())


def _package(name: str, extra: str) -> Fact:
    try:
        return Fact(name, State.OK, version(name))
    except PackageNotFoundError:
        why = f"not installed: {NAME}[{extra}] brings it"
        return Fact(name, State.MISSING, why, (Remedy(f'pip install "{NAME}[{extra}]"'),))
