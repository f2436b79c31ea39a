"""What a benchmark's figures were measured on, to stand beside them."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from tprof.sensors.topology import describe_host, read_text, read_topology
from tprof.trace.plain_values import counted

CLOCK_SOURCE = "sys/devices/system/clocksource/clocksource0/current_clocksource"
GOVERNOR = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
HYPERVISORS = {"KVM": "KVM", "QEMU": "KVM or QEMU", "VMware": "VMware", "VirtualBox": "VirtualBox", "Xen": "Xen"}


def usable_cpus() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def describe_machine(root: Path = Path("/")) -> dict[str, Any]:
    """Describe the machine, the interpreter and how busy the machine is.

    Parameters
    ----------
    root
        What /proc and /sys are below.

    Returns
    -------
    dict
        processor, cpus (logical), usable_cpus, cores, packages, kernel, architecture, python,
        free_threaded, virtual (None, or which hypervisor), clock_source, governor, load_1_min.
        What this machine does not expose is None.
    """
    host = describe_host()
    topology = read_topology(root)
    return {
        "processor": host["processor"],
        "cpus": host["cpus"],
        "usable_cpus": usable_cpus(),
        "cores": len({(cpu.package, cpu.core) for cpu in topology}),
        "packages": len({cpu.package for cpu in topology}),
        "kernel": host["kernel"],
        "architecture": platform.machine(),
        "python": host["python"],
        "free_threaded": not getattr(sys, "_is_gil_enabled", lambda: True)(),
        "virtual": find_hypervisor(root),
        "clock_source": _first_line(root / CLOCK_SOURCE),
        "governor": _first_line(root / GOVERNOR),
        "load_1_min": os.getloadavg()[0],
    }


def find_hypervisor(root: Path) -> str | None:
    """Return the hypervisor below `root`, "unnamed" for one without a name, None on bare hardware."""
    vendor = _first_line(root / "sys/class/dmi/id/sys_vendor") or ""
    product = _first_line(root / "sys/class/dmi/id/product_name") or ""
    named = next((name for mark, name in HYPERVISORS.items() if mark in f"{vendor} {product}"), None)
    if named is not None:
        return named
    if "kvm-clock" in (_first_line(root / CLOCK_SOURCE.replace("current", "available")) or ""):
        return "KVM"
    return "unnamed" if " hypervisor" in (read_text(root / "proc/cpuinfo") or "") else None


def machine_sentence(machine: dict[str, Any]) -> str:
    """Return a description in one line."""
    place = "bare hardware" if machine["virtual"] is None else f"virtual machine ({machine['virtual']})"
    build = " free-threaded" if machine["free_threaded"] else ""
    return (
        f"{machine['processor']}, {counted(machine['cores'], 'core')}, {machine['usable_cpus']} of "
        f"{counted(machine['cpus'], 'processor')} "
        f"usable, {place}, Linux {machine['kernel']}, Python {machine['python']}{build}, "
        f"load {machine['load_1_min']:.1f}"
    )


def _first_line(path: Path) -> str | None:
    return (read_text(path) or "").partition("\n")[0].strip() or None
