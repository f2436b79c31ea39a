"""Prepares a recording: chooses sensors and counters, builds the manifest, and describes what the core has to read."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tprof import _core, log, sensors
from tprof import counters as counter_events
from tprof.distribution import version
from tprof.sensors.contract import MICRO, EstimateReader, FileReader, Machine, PerfReader, Quantity
from tprof.sensors.nesting import scopes_around
from tprof.sensors.topology import boot_id, describe_host, read_topology
from tprof.trace.bounds import max_power_of
from tprof.trace.directory import GPU, USERS
from tprof.trace.left_out import unread_sentences
from tprof.trace.power_model import read_model

from .membership import NO_PACKAGE, Plan
from .python_sensors import DomainFile, PythonSensors
from .stack_sampling import check_stacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tprof.counters import CounterPlan
    from tprof.sensors.contract import Choice, Domain
    from tprof.sensors.topology import Cpu

    from .companions import Origin
    from .options import RecordingOptions

FORMAT = [1, 7]
SUMS_FORMAT = [2, 0]
"""Of sessions that keep sums, so that earlier readers refuse them."""
POOL_SETTINGS = ("OPENBLAS_THREAD_TIMEOUT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")
"""Variables that tell how long threads of libraries spin after a call."""
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
    GIVEN = 6


@dataclass(frozen=True)
class Preparation:
    """The chosen sensors and counters.

    Attributes
    ----------
    choice : of the energy sensors
    plan : of every process of the session
    topology : of the processors
    root : directory above /sys and /proc
    manifest : of the session
    notes : sentences for the user on the choice
    """

    choice: Choice
    plan: Plan
    topology: tuple[Cpu, ...]
    root: Path
    manifest: dict[str, Any]
    notes: tuple[str, ...]

    def sources(self) -> tuple[dict[str, Any], ...]:
        """Return one description for each file of readings: its source, and how often the native thread reads it."""
        stat = stat_path(self.root)
        sources = [energy_source(domain, stat) for domain in self.choice.domains if domain.reader is not None]
        sources += [_busy(package, cpus, stat) for package, cpus in _by_package(self.topology).items()]
        sources.append(_source(Kind.PROGRAM, "program", quantity="program", scope="machine", package=None))
        return tuple(self._placed(source) for source in sources)

    def python_sensors(self) -> PythonSensors:
        """Return the sensors that Python reads, with a file for each of their domains. Raises OSError."""
        domains = [domain for domain in self.choice.domains if domain.reader is None]
        files = {
            name: [
                DomainFile(domain, self._placed(energy_source(domain))) for domain in domains if domain.source == name
            ]
            for name in self.choice.sensors
        }
        read = [(self.choice.sensors[name], files[name]) for name in files]
        return PythonSensors(Machine(self.root), read, self.plan.directory / GPU / USERS)

    def _placed(self, source: dict[str, Any]) -> dict[str, Any]:
        return {**source, "file": str(self.plan.directory / "readings" / source["file"])}


def prepare(path: Path, options: RecordingOptions, *, origin: Origin | None) -> Preparation:
    """Choose sensors and counters for a session at `path`. Raises SensorError and UsageError."""
    if options.stacks:
        check_stacks()
    root = sensors.sysroot()
    choice = sensors.choose(options.energy, root=root, watts=options.watts)
    host = describe_host(root)
    model, model_note = read_model(host["processor"])
    counted = counter_events.choose(options.counters, requested=model.get("counters", ()) if model else (), root=root)
    topology = read_topology(root)
    plan = Plan(
        path,
        _columns(counted),
        counted.recorded(),
        counted.papi,
        _packages(topology),
        options.attribute_native and not options.keeps_summary,
        options.stacks,
        options.segment_bytes,
    )
    unread = unread_sentences(choice.as_json())
    notes = (*choice.notes, *unread, *counted.notes, *([model_note] if model_note else []))
    _log(choice, counted, notes)
    manifest = {
        "format": SUMS_FORMAT if options.keeps_summary else FORMAT,
        "tprof": version(),
        "host": host,
        "topology": [
            {"cpu": cpu.cpu, "package": cpu.package, "core": cpu.core, "core_type": cpu.core_type} for cpu in topology
        ],
        "columns": [{"name": name, "unit": unit} for name, unit in plan.columns],
        "domains": [_describe_domain(domain) for domain in choice.domains],
        **choice.as_json(),
        "static_power_w": choice.static_power_w,
        "counters": {
            "source": counted.source,
            "why": counted.why,
            "groups": [group.as_json() for group in counted.groups],
            "papi": list(counted.papi),
        },
        "energy_filtering": choice.energy_filtering,
        "power_model": model,
        "power_model_problem": model_note,
        "recorder": plan.as_json(),
        "pool_settings": {name: os.environ[name] for name in POOL_SETTINGS if name in os.environ},
        "notes": list(notes),
        **({"keep": options.keep, "span_s": options.span_s} if options.keeps_summary else {}),
        **_describe_start(root, origin),
    }
    return Preparation(choice, plan, topology, root, manifest, notes)


def _log(choice: Choice, counted: CounterPlan, notes: Sequence[str]) -> None:
    for domain in choice.domains:
        beside = "" if domain.counted else ", not in the total"
        log.info("sensors", "%s is read from %s (%s)%s", domain.name, domain.source, domain.quality, beside)
    for one in choice.left_out:
        log.info("sensors", "%s is left out (%s): %s", one.name, one.kind, one.why)
    log.info("counters", "%s; columns: %s", counted.why, ", ".join(one.column for one in counted.counters) or "none")
    for note in notes:
        log.warning("session", "%s", note)


def _columns(counted: CounterPlan) -> tuple[tuple[str, str], ...]:
    own = (("energy_uj", "uJ"), ("cpu_ns", "ns"))
    return own + tuple((counter.column, counter.unit) for counter in counted.counters)


def _packages(topology: Sequence[Cpu]) -> tuple[int, ...]:
    packages = [NO_PACKAGE] * (max((cpu.cpu for cpu in topology), default=-1) + 1)
    for cpu in topology:
        packages[cpu.cpu] = cpu.package
    return tuple(packages)


def _describe_domain(domain: Domain) -> dict[str, Any]:
    return {
        **dict(domain.details),
        "name": domain.name,
        "scope": domain.scope,
        "package": domain.package,
        "source": domain.source,
        "quality": str(domain.quality),
        "unit_j": domain.unit_j,
        "modulus": domain.modulus,
        "counted": domain.counted,
        "within": ", ".join(scopes_around(domain)),
        **domain.accuracy.as_json(),
    }


def _describe_start(root: Path, origin: Origin | None) -> dict[str, Any]:
    """Return the start of a recording on all clocks; calculations use only the monotonic one."""
    now_ns = _core.now_ns()
    return {
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "clock": {
            "name": "CLOCK_MONOTONIC",
            "start_ns": now_ns,
            "wall_start_ns": time.time_ns(),
            "boottime_start_ns": now_ns + _core.suspended_ns(),
        },
        "boot_id": boot_id(root),
        "origin": None if origin is None else origin.as_json(),
        "argv": list(sys.argv),
        "pid": os.getpid(),
    }


def stat_path(root: Path) -> str:
    """Return the file with the processors' busy time: below a root that has only /sys, this machine's own."""
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
    accuracy: dict[str, Any] | None = None,
) -> dict[str, Any]:
    description = {
        "name": name,
        "quantity": quantity,
        "scope": scope,
        "package": package,
        "source": source,
        "quality": quality,
        "counted": counted,
        **(accuracy or {}),
    }
    return {
        "kind": int(kind),
        "file": re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".readings",
        "description": json.dumps(description, separators=(",", ":")),
        "modulus": modulus or 0,
        "unit": unit,
        "period_ns": period_ns,
        "max_power_w": max_power_of(quality, scope),
        "package": -1 if package is None or scope != "package" or not counted else package,
    }


def _busy(package: int, cpus: tuple[int, ...], stat: str) -> dict[str, Any]:
    source = _source(Kind.BUSY, f"busy-{package}", quantity="busy", scope="machine", package=package)
    return source | {"path": stat, "cpus": cpus}


def energy_source(domain: Domain, stat: str = "") -> dict[str, Any]:
    """Describe a domain's counter for the core, with the name of its file; `stat` is what an estimate reads."""
    reader = domain.reader
    kinds = {FileReader: Kind.FILE, PerfReader: Kind.PERF, EstimateReader: Kind.ESTIMATE, type(None): Kind.GIVEN}
    integrated = domain.accuracy.shows is Quantity.POWER
    source = _source(
        kinds[type(reader)],
        domain.name,
        quantity="energy",
        scope=domain.scope,
        package=domain.package,
        source=domain.source,
        quality=str(domain.quality),
        counted=domain.counted,
        unit=MICRO if integrated else domain.unit_j,
        modulus=None if integrated else domain.modulus,
        period_ns=BUSY_PERIOD_NS if isinstance(reader, EstimateReader) else SENSOR_PERIOD_NS,
        accuracy=domain.accuracy.as_json(),
    )
    return source | _reader_fields(reader, stat)


def _reader_fields(reader: FileReader | PerfReader | EstimateReader | None, stat: str) -> dict[str, Any]:
    if reader is None:
        return {}
    if isinstance(reader, FileReader):
        subzone = reader.subzone or ""
        return {"path": reader.path, "search": reader.search, "zone": reader.zone, "subzone": subzone}
    if isinstance(reader, PerfReader):
        return {"type": reader.type, "config": reader.config, "cpu": reader.cpu}
    return {"path": stat, "idle_w": reader.idle_w, "per_core_w": reader.per_core_w, "cpus": reader.cpus}
