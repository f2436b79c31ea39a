"""From the chosen sensors to the sources and periods of the native sensor thread."""

from __future__ import annotations

import json
import re
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tprof.sensors.contract import EstimateReader, FileReader, PerfReader
from tprof.trace.bounds import max_power_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tprof.sensors.contract import Domain
    from tprof.sensors.topology import Cpu

SENSOR_PERIOD_NS = 1_000_000
BUSY_PERIOD_NS = 20_000_000
"""The kernel's busy time advances in ticks of 10 ms: more frequent reads add nothing."""


class Kind(IntEnum):
    """Kinds of sources of the native thread; the numbers are the core's."""

    FILE = 1
    PERF = 2
    ESTIMATE = 3
    BUSY = 4
    PROGRAM = 5


def describe_sources(
    domains: Iterable[Domain], topology: Iterable[Cpu], *, directory: Path, root: Path
) -> tuple[dict[str, Any], ...]:
    """Return one description for each file of readings of a session.

    Parameters
    ----------
    domains
        The energy domains to read.
    topology
        The machine's processors.
    directory
        The session directory.
    root
        Directory above /proc and /sys.
    """
    stat = _proc_stat(root)
    sources = [_energy(domain, stat) for domain in domains]
    sources += [_busy(package, cpus, stat) for package, cpus in _by_package(topology).items()]
    sources.append(_source(Kind.PROGRAM, "program", quantity="program", scope="machine", package=None))
    for source in sources:
        name = source.pop("name")
        source["file"] = str(directory / "readings" / f"{name}.readings")
    return tuple(sources)


def _proc_stat(root: Path) -> str:
    below = root / "proc" / "stat"
    return str(below) if below.exists() else "/proc/stat"


def _by_package(topology: Iterable[Cpu]) -> dict[int, tuple[int, ...]]:
    packages: dict[int, tuple[int, ...]] = {}
    for cpu in topology:
        packages[cpu.package] = (*packages.get(cpu.package, ()), cpu.cpu)
    return packages


def _source(  # noqa: PLR0913 - the fields of a reading file
    kind: Kind,
    name: str,
    *,
    quantity: str,
    scope: str,
    package: int | None,
    source: str = "kernel",
    quality: str = "measured",
    counted: bool = False,
    unit: float = 1e-9,
    modulus: int | None = None,
    period_ns: int = BUSY_PERIOD_NS,
) -> dict[str, Any]:
    description = {
        "name": name,
        "quantity": quantity,
        "scope": scope,
        "package": package,
        "source": source,
        "quality": quality,
        "counted": counted,
    }
    return {
        "kind": int(kind),
        "name": re.sub(r"[^A-Za-z0-9_.-]", "_", name),
        "description": json.dumps(description, separators=(",", ":")),
        "modulus": modulus or 0,
        "unit": unit,
        "period_ns": period_ns,
        "max_power_w": max_power_of(quality, scope),
        "package": -1 if package is None or scope != "package" else package,
    }


def _busy(package: int, cpus: tuple[int, ...], stat: str) -> dict[str, Any]:
    source = _source(Kind.BUSY, f"busy-{package}", quantity="busy", scope="machine", package=package)
    return source | {"path": stat, "cpus": cpus}


def _energy(domain: Domain, stat: str) -> dict[str, Any]:
    reader = domain.reader
    kinds = {FileReader: Kind.FILE, PerfReader: Kind.PERF, EstimateReader: Kind.ESTIMATE}
    source = _source(
        kinds[type(reader)],
        domain.name,
        quantity="energy",
        scope=domain.scope,
        package=domain.package,
        source=domain.source,
        quality=str(domain.quality),
        counted=domain.counted,
        unit=domain.unit_j,
        modulus=domain.modulus,
        period_ns=BUSY_PERIOD_NS if isinstance(reader, EstimateReader) else SENSOR_PERIOD_NS,
    )
    return source | _reader_fields(reader, stat)


def _reader_fields(reader: FileReader | PerfReader | EstimateReader, stat: str) -> dict[str, Any]:
    if isinstance(reader, FileReader):
        subzone = reader.subzone or ""
        return {"path": reader.path, "search": reader.search, "zone": reader.zone, "subzone": subzone}
    if isinstance(reader, PerfReader):
        return {"type": reader.type, "config": reader.config, "cpu": reader.cpu}
    return {"path": stat, "idle_w": reader.idle_w, "per_core_w": reader.per_core_w, "cpus": reader.cpus}
