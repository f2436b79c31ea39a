"""The kernel's power PMU: one perf event a package and domain, without root where perf is permitted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tprof import _core

from . import advice
from .contract import Domain, PerfReader, Quality, Unavailable
from .topology import Cpu, parse_cpu_list, read_topology

if TYPE_CHECKING:
    from pathlib import Path

SCOPES = {
    "energy-pkg": ("package", True),
    "energy-ram": ("dram", True),
    "energy-cores": ("core", False),
    "energy-gpu": ("uncore", False),
    "energy-psys": ("psys", False),
}
WHY_NOT_COUNTED = {
    "core": "it is a part of its package",
    "uncore": "it is a part of its package",
    "psys": "it stands around the packages and would count them twice",
}


def find_domains(root: Path) -> tuple[list[Domain], list[tuple[str, str]]] | Unavailable:
    """Return the domains that can be opened and what was left out, or why there is nothing.

    Parameters
    ----------
    root
        What /sys is below; the events themselves are the running kernel's.
    """
    pmu = root / "sys/bus/event_source/devices/power"
    kind = _text(pmu / "type")
    if kind is None or not kind.isdigit():
        why = f"{pmu} does not exist: a virtual machine, or a processor the kernel's power PMU does not know"
        return Unavailable(why)
    domains: list[Domain] = []
    for cpu in _readers(pmu, read_topology(root)):
        for event, (scope, counted) in SCOPES.items():
            config, scale = _config(_text(pmu / "events" / event)), _text(pmu / "events" / f"{event}.scale")
            if config is None or scale is None:
                continue
            problem = _problem(int(kind), config, cpu.cpu)
            if problem is not None and scope == "package":
                return problem
            if problem is None:
                domains.append(_domain(scope, counted, cpu, PerfReader(int(kind), config, cpu.cpu), float(scale)))
    if not any(domain.counted for domain in domains):
        return Unavailable(f"{pmu} has no event for the package's energy")
    left_out = [(domain.name, WHY_NOT_COUNTED[domain.scope]) for domain in domains if not domain.counted]
    return domains, left_out


def _domain(scope: str, counted: bool, cpu: Cpu, reader: PerfReader, unit_j: float) -> Domain:  # noqa: FBT001
    name, package = ("psys", None) if scope == "psys" else (f"{scope}-{cpu.package}", cpu.package)
    # The count is 64 bits wide, but the kernel can make it fall after neglect: a fall is a fault, no wrap.
    return Domain(name, scope, package, "perf", Quality.MEASURED, unit_j, None, counted, reader)


def _readers(pmu: Path, topology: tuple[Cpu, ...]) -> list[Cpu]:
    """Return a processor of each package to open events on, as the PMU's cpumask says."""
    mask = parse_cpu_list(_text(pmu / "cpumask") or "")
    chosen: dict[int, Cpu] = {}
    for cpu in topology:
        if not mask or cpu.cpu in mask:
            chosen.setdefault(cpu.package, cpu)
    return list(chosen.values())


def _problem(kind: int, config: int, cpu: int) -> Unavailable | None:
    error = _core.perf_open_probe(type=kind, config=config, pid=-1, cpu=cpu, exclude_kernel=False)[0]
    if error == 0:
        return None
    return Unavailable(f"the power PMU cannot be opened: {advice.explain_perf_error(error)}", advice.PERF_PARANOID)


def _config(text: str | None) -> int | None:
    match = re.search(r"event=(0x[0-9a-fA-F]+|\d+)", text or "")
    return int(match.group(1), 0) if match else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
