"""The machine: its name and processor for manifests, and the packages and cores, from sysfs."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tprof.trace.plain_values import whole

X86 = {"x86_64", "amd64", "i386", "i486", "i586", "i686"}
"""Names of the architecture in uname."""
_ROOT = Path("/")
MOST_CPU = (1 << 16) - 1
MOST_ID = (1 << 31) - 1
"""Bound of a package's or core's number; firmware of arm64 machines uses arbitrary ones."""


@dataclass(frozen=True)
class Cpu:
    """A logical processor. core_type is "core" or "atom" on a hybrid processor, else None."""

    cpu: int
    package: int
    core: int
    core_type: str | None = None


def host_name(root: Path) -> str:
    """Return the name of the host; below another root its own, if there is one."""
    below = read_text(root / "proc/sys/kernel/hostname") if root != _ROOT else None
    return below or socket.gethostname()


def boot_id(root: Path) -> str | None:
    """Return an identity of the machine since its boot; below another root its own, if there is one."""
    place = "proc/sys/kernel/random/boot_id"
    return read_text(root / place) or read_text(_ROOT / place)


def describe_host(root: Path = _ROOT) -> dict[str, Any]:
    """Return name, processor, kernel, Python and number of processors."""
    return {
        "hostname": host_name(root),
        "processor": _processor_name(),
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
    }


def _processor_name() -> str | None:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in {"model name", "Processor", "cpu model"}:
                    return value.strip()
    except OSError:
        return None
    return os.uname().machine or None


def read_topology(root: Path) -> tuple[Cpu, ...]:
    """Return the online processors from sysfs below `root`; without it, one package with all of them."""
    place = root / "sys/devices/system/cpu"
    types = _core_types(root)
    present = {cpu for path in place.glob("cpu[0-9]*") if (cpu := whole(path.name[3:], MOST_CPU)) is not None}
    # The kernel removes the topology of an offline processor, so its package is unknown.
    numbers = sorted(present & set(_online(place)) or present)
    if not numbers:
        return tuple(Cpu(cpu, 0, cpu) for cpu in range(os.cpu_count() or 1))
    return tuple(
        Cpu(
            cpu,
            max(_number(place / f"cpu{cpu}/topology/physical_package_id", 0), 0),
            _number(place / f"cpu{cpu}/topology/core_id", cpu),
            types.get(cpu),
        )
        for cpu in numbers
    )


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Parse a list in the kernel's format: "0-3,8"."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = whole(first, MOST_CPU), whole(last or first, MOST_CPU)
        if low is not None and high is not None:
            numbers += range(low, high + 1)
    return tuple(numbers)


def read_text(path: Path) -> str | None:
    """Return the stripped text of one of the kernel's files; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def paranoid_level(root: Path) -> int | None:
    """Return kernel.perf_event_paranoid; None if there is none that can be read."""
    text = read_text(root / "proc/sys/kernel/perf_event_paranoid")
    if text is None:
        text = read_text(Path("/proc/sys/kernel/perf_event_paranoid"))
    number = whole((text or "").removeprefix("-"))
    return number if number is None or not (text or "").startswith("-") else -number


def is_x86(machine: str | None = None) -> bool:
    """Return whether a machine of this name, by default this one, is x86: only these have RAPL and its drivers."""
    return (machine or os.uname().machine).lower() in X86


def is_amd(root: Path) -> bool:
    """Return whether AMD or Hygon made the processor, whose dies mirror their socket's energy."""
    for path in (root / "proc/cpuinfo", Path("/proc/cpuinfo")):
        text = read_text(path)
        if text is not None:
            return "AuthenticAMD" in text or "HygonGenuine" in text
    return False


def _online(place: Path) -> tuple[int, ...]:
    return parse_cpu_list(read_text(place / "online") or "")


def _core_types(root: Path) -> dict[int, str]:
    types: dict[int, str] = {}
    for name in ("core", "atom"):
        types |= dict.fromkeys(parse_cpu_list(read_text(root / f"sys/devices/cpu_{name}/cpus") or ""), name)
    return types


def _number(path: Path, default: int) -> int:
    number = whole(read_text(path) or "", MOST_ID)
    return default if number is None else number
