"""Findings about the clock and the processors: the cost of a sample, and causes of variation between runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tprof.sensors.advice import Remedy
from tprof.sensors.topology import parse_cpu_list, read_topology

from .fact import Fact, State, read_proc, read_text

if TYPE_CHECKING:
    from pathlib import Path

FAST_CLOCKS = {"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"}
"""Clocks that are read in user space."""
PERFORMANCE = Remedy("sudo cpupower frequency-set -g performance", "more power is drawn, until the next start")


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
    why = f"{len(topology)}{kinds} on {packages} package{'s' if packages > 1 else ''}"
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
