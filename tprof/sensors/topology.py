"""Which processor is on which package and core, as sysfs tells it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cpu:
    """A logical processor. core_type is "core" or "atom" on a hybrid processor, else None."""

    cpu: int
    package: int
    core: int
    core_type: str | None = None


def read_topology(root: Path) -> tuple[Cpu, ...]:
    """Return the online processors that sysfs below `root` knows; without it, one package with all of them."""
    place = root / "sys/devices/system/cpu"
    types = _core_types(root)
    present = {int(path.name[3:]) for path in place.glob("cpu[0-9]*") if path.name[3:].isdigit()}
    # The kernel takes the topology of an offline processor away: its package cannot be known.
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
    """Return the numbers of a list as the kernel writes it: "0-3,8"."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def is_amd(root: Path) -> bool:
    """Return whether AMD or Hygon made the processor, whose dies mirror their socket's energy."""
    for path in (root / "proc/cpuinfo", Path("/proc/cpuinfo")):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        return "AuthenticAMD" in text or "HygonGenuine" in text
    return False


def _online(place: Path) -> tuple[int, ...]:
    try:
        return parse_cpu_list((place / "online").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ()


def _core_types(root: Path) -> dict[int, str]:
    types: dict[int, str] = {}
    for name in ("core", "atom"):
        try:
            text = (root / f"sys/devices/cpu_{name}/cpus").read_text(encoding="ascii")
        except OSError:
            continue
        types |= dict.fromkeys(parse_cpu_list(text), name)
    return types


def _number(path: Path, default: int) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return default
