"""All findings, and a summary of what a recording would read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tprof.trace.left_out import unread_sentences

from .counter_facts import counter_facts
from .fact import Group
from .machine_facts import installation_facts, operating_facts, package_facts, place_facts, processor_facts
from .sensor_facts import energy_facts, model_facts

if TYPE_CHECKING:
    from pathlib import Path


def examine(root: Path, directory: Path, machine: str | None = None) -> tuple[Group, ...]:
    """Examine the machine.

    Parameters
    ----------
    root
        Directory above /proc and /sys.
    directory
        Directory for sessions.
    machine
        The architecture, as uname names it; by default this one's.
    """
    return (
        Group("Energy sensors", energy_facts(root, machine)),
        Group("Counters", counter_facts(root, machine=machine)),
        Group("Power model", model_facts()),
        Group("Clock and processors", processor_facts(root)),
        Group("Operating points: what sweeps, policies and budgets that slow down set", operating_facts(root, machine)),
        Group("Session directory", place_facts(directory)),
        Group("Installation", installation_facts()),
        Group("Optional packages", package_facts()),
    )


def what_is_recorded(root: Path) -> dict[str, Any]:
    """Return the domains and counters that a recording with default options would read, as plain values."""
    from tprof import counters, sensors  # noqa: PLC0415 - the core is loaded only for this

    choice = sensors.choose("auto", root=root)
    plan = counters.choose("auto", root=root)
    return {
        "domains": [
            {"name": one.name, "source": one.source, "quality": str(one.quality), "counted": one.counted}
            for one in choice.domains
        ],
        "left_out": {one.pop("name"): one for one in choice.as_json()["left_out"]},
        "unread": unread_sentences(choice.as_json()),
        "counters": {"source": plan.source, "why": plan.why, "events": [one.column for one in plan.counters]},
        "energy_filtering": choice.energy_filtering,
        "notes": [*choice.notes, *plan.notes],
    }
