"""Prepares a recording: chooses sensors and counters, and builds the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tprof import counters as counter_events
from tprof import membership, sensors
from tprof.distribution import version
from tprof.host import describe_host, describe_start
from tprof.power_model import read_model
from tprof.sensors.topology import read_topology

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tprof.counters import CounterPlan
    from tprof.sensors.contract import Choice, Domain
    from tprof.sensors.topology import Cpu

FORMAT = [1, 1]


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
    plan: membership.Plan
    topology: tuple[Cpu, ...]
    root: Path
    manifest: dict[str, Any]
    notes: tuple[str, ...]


def prepare(
    path: Path, *, energy: str, counters: str | Sequence[str], watts: tuple[float, float] | str | None
) -> Preparation:
    """Choose sensors and counters for a session at `path`. Raises SensorError and UsageError."""
    root = sensors.sysroot()
    choice = sensors.choose(energy, root=root, watts=watts)
    host = describe_host()
    model, model_note = read_model(host["processor"])
    counted = counter_events.choose(counters, requested=model.get("counters", ()) if model else (), root=root)
    topology = read_topology(root)
    plan = membership.Plan(path, _columns(counted), _events(counted), _packages(topology))
    notes = (*choice.notes, *counted.notes, *([model_note] if model_note else []))
    manifest = {
        "format": FORMAT,
        "tprof": version(),
        "host": host,
        "topology": [
            {"cpu": cpu.cpu, "package": cpu.package, "core": cpu.core, "core_type": cpu.core_type} for cpu in topology
        ],
        "columns": [{"name": name, "unit": unit} for name, unit in plan.columns],
        "domains": [_describe_domain(domain) for domain in choice.domains],
        "left_out": [{"name": name, "why": why} for name, why in choice.left_out],
        "static_power_w": choice.static_power_w,
        "estimate": None if choice.estimate is None else choice.estimate.as_json(),
        "counters": {"source": counted.source, "why": counted.why},
        "energy_filtering": choice.energy_filtering,
        "power_model": model,
        "power_model_problem": model_note,
        "recorder": plan.as_json(),
        "notes": list(notes),
        **describe_start(),
    }
    return Preparation(choice, plan, topology, root, manifest, notes)


def _columns(counted: CounterPlan) -> tuple[tuple[str, str], ...]:
    own = (("energy_uj", "uJ"), ("cpu_ns", "ns"))
    return own + tuple((event.column, event.unit) for event in counted.events)


def _events(counted: CounterPlan) -> tuple[tuple[int, int], ...]:
    return tuple((event.type, event.config) for event in counted.events)


def _packages(topology: Sequence[Cpu]) -> tuple[int, ...]:
    packages = [membership.NO_PACKAGE] * (max((cpu.cpu for cpu in topology), default=-1) + 1)
    for cpu in topology:
        packages[cpu.cpu] = cpu.package
    return tuple(packages)


def _describe_domain(domain: Domain) -> dict[str, Any]:
    return {
        "name": domain.name,
        "scope": domain.scope,
        "package": domain.package,
        "source": domain.source,
        "quality": str(domain.quality),
        "unit_j": domain.unit_j,
        "modulus": domain.modulus,
        "counted": domain.counted,
    }
