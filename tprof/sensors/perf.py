"""The kernel's power PMU: one perf event per package and domain, without root if perf is permitted."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof import _core
from tprof.trace.bounds import LARGEST_UNIT, SMALLEST_UNIT
from tprof.trace.plain_values import number, whole

from . import advice
from .contract import Accuracy, Domain, Found, LeftOut, Omission, PerfReader, Quality, Sensor, Unavailable
from .topology import Cpu, is_amd, is_x86, paranoid_level, parse_cpu_list, read_text, read_topology

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .contract import Machine

MOST_TYPE = (1 << 32) - 1
UPDATE_S = 0.001
"""Of RAPL's registers."""
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


_NO_EVENT = {errno.ENOENT, errno.ENODEV, errno.EINVAL, errno.EOPNOTSUPP}
"""Errors by which the kernel says that there is no such event, whoever asks."""


@dataclass(frozen=True)
class Place:
    """The processor on which a package's or die's events are opened, and the base of its domains' names."""

    cpu: Cpu
    suffix: str


class Perf(Sensor):
    """The power PMU; its events are the running kernel's own, whatever the root is."""

    name = "perf"
    covers = "packages and DRAM of x86 processors, by the kernel's power PMU"
    subject = "processor"

    def find(self, machine: Machine) -> Found | Unavailable:
        """Return the available domains and those left out, or the reason why there are none."""
        return _find(machine.root, machine.architecture)


def _find(root: Path, machine: str | None) -> Found | Unavailable:
    pmu = root / "sys/bus/event_source/devices/power"
    kind = whole(read_text(pmu / "type") or "", MOST_TYPE)
    if kind is None:
        why = "a virtual machine, or a processor the kernel's power PMU does not know"
        return Unavailable(f"{pmu} does not exist: {why if is_x86(machine) else 'the kernel has it for x86 only'}")
    domains: dict[str, Domain] = {}
    left_out: dict[str, LeftOut] = {}
    for place in _places(root, pmu, left_out):
        for domain, reader in _events(pmu, kind, place):
            if domain.name in domains:
                continue  # psys: includes all packages, and appears on each
            error = _open_error(reader)
            if error == 0:
                domains[domain.name] = domain
            elif domain.scope == "package":
                why = f"the power PMU cannot be opened: {advice.explain_perf_error(error)}"
                remedies = advice.remedies_for_perf_error(error, paranoid_level(root))
                return Unavailable(why, remedies, notable=error not in _NO_EVENT)
            else:
                left_out[domain.name] = _unopened(domain, error)
    if not any(domain.counted for domain in domains.values()):
        return Unavailable(f"{pmu} has no event for the package's energy")
    beside = [LeftOut(name, WHY_NOT_COUNTED[one.scope]) for name, one in domains.items() if not one.counted]
    return Found(tuple(domains.values()), (*left_out.values(), *beside))


def _unopened(domain: Domain, error: int) -> LeftOut:
    why = f"its event cannot be opened: {advice.explain_perf_error(error)}"
    if error in _NO_EVENT:
        return LeftOut(domain.name, why, Omission.ABSENT)
    return LeftOut(domain.name, why, Omission.UNREADABLE if domain.counted else Omission.BY_DESIGN)


def _places(root: Path, pmu: Path, left_out: dict[str, LeftOut]) -> list[Place]:
    """Return a processor of each package for its events, or of each die with its own counters.

    The cpumask has one processor for each counter. On AMD, kernels before 6.12 list one per die, each with the
    socket's counter.
    """
    topology = read_topology(root)
    mask = parse_cpu_list(read_text(pmu / "cpumask") or "")
    mirrored = not mask or is_amd(root)
    places: list[Place] = []
    for cpu in (cpu for cpu in topology if not mask or cpu.cpu in mask):
        dies = sum(place.cpu.package == cpu.package for place in places)
        suffix = f"{cpu.package}-die-{dies}" if dies else str(cpu.package)
        if dies == 0 or not mirrored:
            places.append(Place(cpu, suffix))
        elif mask:
            name = f"package-{suffix}"
            left_out[name] = LeftOut(name, advice.mirrored_die(cpu.package))
    return places


def _events(pmu: Path, kind: int, place: Place) -> Iterator[tuple[Domain, PerfReader]]:
    for event, (scope, counted) in SCOPES.items():
        config = _config(read_text(pmu / "events" / event))
        unit_j = _unit_j(read_text(pmu / "events" / f"{event}.scale"))
        if config is None or unit_j is None:
            continue
        reader = PerfReader(kind, config, place.cpu.cpu)
        name, package = ("psys", None) if scope == "psys" else (f"{scope}-{place.suffix}", place.cpu.package)
        # The count has 64 bits, but the kernel lets it fall if it is not read in time: a fall is a fault, not a wrap.
        accuracy = Accuracy(update_s=UPDATE_S, resolution=unit_j)
        yield (
            Domain(name, scope, package, "perf", Quality.MEASURED, unit_j, None, counted, reader, accuracy=accuracy),
            reader,
        )


def _open_error(reader: PerfReader) -> int:
    probe = _core.perf_open_probe(type=reader.type, config=reader.config, pid=-1, cpu=reader.cpu, exclude_kernel=False)
    return probe[0]


def _unit_j(text: str | None) -> float | None:
    try:
        unit_j = number(text or "")
    except ValueError:
        return None
    return unit_j if SMALLEST_UNIT <= unit_j <= LARGEST_UNIT else None


def _config(text: str | None) -> int | None:
    match = re.search(r"event=(0x[0-9a-fA-F]{1,16}|[0-9]{1,19})\b", text or "")
    return int(match.group(1), 0) if match else None
