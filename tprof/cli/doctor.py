"""`tprof doctor`: which sensors and counters are there, which are not, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", rich_help_panel="Record")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Say what a recording on this machine would read, and what keeps it from more."""
    from .tables import clean, dump

    facts = _facts()
    if as_json:
        dump(facts)
        return
    for domain in facts["domains"]:
        print(f"energy: {clean(domain['name'])} from {domain['source']} ({domain['quality']})")
    for name, why in facts["left_out"].items():
        print(f"not used: {clean(name)}: {clean(why)}")
    print(f"counters: {facts['counters']['source']}: {clean(facts['counters']['why'])}")
    for note in facts["notes"]:
        print(f"note: {clean(note)}")


def _facts() -> dict[str, Any]:
    from tprof import counters, sensors

    root = sensors.sysroot()
    choice = sensors.choose("auto", root=root)
    plan = counters.choose("auto", root=root)
    return {
        "domains": [{"name": d.name, "source": d.source, "quality": str(d.quality)} for d in choice.domains],
        "left_out": dict(choice.left_out),
        "counters": {"source": plan.source, "why": plan.why, "events": [event.column for event in plan.events]},
        "energy_filtering": choice.energy_filtering,
        "notes": [*choice.notes, *plan.notes],
    }
