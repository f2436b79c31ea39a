"""`tprof sensors`: the sensors of this machine and the watts of their domains, now or as they change."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import SensorError, UsageError
from tprof.trace.left_out import unread_sentences

from .doctor import show_remedy
from .options import AsJson
from .render import DASH, clean, dump, filled, plain, quantity, reason_lines, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.doctor.live_sensors import LiveDomain, LiveSensors
    from tprof.sensors import Choice, Domain, Found, Machine, Sensor, Unavailable

    Row = tuple[str, ...]

FIRST_S = 0.25
SHORTEST_S, LONGEST_S = 0.05, 3600.0
HEADINGS = ("sensor", "domain", "power", "quality", "total", "updates", "step", "covers")
ESTIMATE = "estimate"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sensors")(sensors)


def sensors(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Sensors, with arguments as --energy takes them.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show the watts until Ctrl-C.")] = False,
    once: Annotated[bool, typer.Option("--once", help="With --watch: show one line of watts and end.")] = False,
    interval: Annotated[float, typer.Option(metavar="SECONDS", help="Of --watch.")] = 0.5,
    as_json: AsJson = False,
) -> None:
    """Show the sensors of this machine, what each covers, and its watts now.

    `total` has a mark where a recording with --energy auto counts the domain. Without names all sensors are shown that
    need no argument.
    """
    if not SHORTEST_S <= interval <= LONGEST_S:
        raise UsageError(f"--interval must be from {SHORTEST_S:g} to {LONGEST_S:g} seconds, got {interval:g}")
    from tprof.doctor.live_sensors import LiveSensors
    from tprof.sensors import Machine, choose, sysroot

    machine = Machine(sysroot())
    choice = choose("auto", root=machine.root)
    found, missing = _search(names or [], machine, choice)
    with LiveSensors(machine, [(sensor, one.domains) for sensor, one in found]) as live:
        if watch:
            _require(live, missing if names else [])
            _watch(live, choice, interval, once=once, as_json=as_json)
            return
        live.watch(max(FIRST_S, _slowest(live)))
        if as_json:
            dump({"domains": _plain(live, choice), "missing": [_missing(*one) for one in missing]})
            return
        if live.domains or not names:
            _show(live, choice)
        if not names:
            for line in reason_lines(unread_sentences(choice.as_json()), width_of(sys.stdout)):
                print(line)
    if names:
        _show_missing(missing)
    elif missing:
        _list_missing(missing)


def _require(live: LiveSensors, asked: Sequence[tuple[Sensor, Unavailable]]) -> None:
    """Say which sensors that were asked for cannot be watched. Raises SensorError if none is left."""
    why = [f"{sensor.name} is not available: {clean(unavailable.why)}" for sensor, unavailable in asked]
    if not live.domains:
        raise SensorError("; ".join(why) or "no sensor is available to be watched")
    for sentence in why:
        print(f"tprof: {sentence}", file=sys.stderr)


def _show_missing(missing: Sequence[tuple[Sensor, Unavailable]]) -> None:
    """Print all on sensors that were asked for."""
    for sensor, unavailable in missing:
        why = f"{sensor.name} ({clean(sensor.covers)}) is not available: {clean(unavailable.why)}"
        print(filled(why, width_of(sys.stdout)))
        for remedy in unavailable.remedies:
            show_remedy(remedy, "  ")


def _list_missing(missing: Sequence[tuple[Sensor, Unavailable]]) -> None:
    """Print a line for each sensor, and the first command that grants it where there is something to measure."""
    from tprof.sensors.choose import PROCESSOR

    print("\nNot available (tprof sensors NAME shows the commands that bring it)")
    longest = max(len(sensor.name) for sensor, _ in missing)
    for sensor, unavailable in missing:
        line = f"  {clean(sensor.name):<{longest}}  {clean(unavailable.why)}"
        print(filled(line, width_of(sys.stdout), rest=" " * (longest + 4)))
        if unavailable.notable or sensor.subject == PROCESSOR:
            for remedy in unavailable.remedies[:1]:
                print(f"{' ' * (longest + 4)}$ {clean(remedy.command)}")


def _search(
    names: Sequence[str], machine: Machine, choice: Choice
) -> tuple[list[tuple[Sensor | None, Found]], list[tuple[Sensor, Unavailable]]]:
    """Return the sensors that are asked for, or all of them, and those that are not available."""
    from tprof.sensors import Found, Unavailable, choose
    from tprof.sensors.choose import split
    from tprof.sensors.registry import all_classes, create, search

    asked = split(",".join(names)) if names else []
    every = [create(name) for name in asked if name != ESTIMATE] if names else [kind() for kind in all_classes()[0]]
    found: list[tuple[Sensor | None, Found]] = []
    missing: list[tuple[Sensor, Unavailable]] = []
    for sensor in every:
        there = search(sensor, machine)
        if isinstance(there, Unavailable):
            missing.append((sensor, there))
        else:
            found.append((sensor, there))
    if ESTIMATE in asked or (not names and choice.estimate is not None):
        found.append((None, Found(choose(ESTIMATE, root=machine.root).domains)))
    return found, missing


def _slowest(live: LiveSensors) -> float:
    """Return how long it takes until each domain that updates in about a second or less has changed twice."""
    updates = [one.domain.accuracy.update_s or 0.0 for one in live.domains]
    return max((2.5 * update_s for update_s in updates if update_s <= 1.0), default=0.0)


def _watch(live: LiveSensors, choice: Choice, interval: float, *, once: bool, as_json: bool) -> None:
    """Show the watts of each interval, until Ctrl-C or once."""
    live.watch(max(interval, _slowest(live)) if once else interval)
    if as_json or once or not sys.stdout.isatty():
        _print_each(live, choice, interval, once=once, as_json=as_json)
        return
    from rich.live import Live

    try:
        with Live(_table(live, choice), auto_refresh=False) as shown:
            while True:
                live.watch(interval)
                shown.update(_table(live, choice), refresh=True)
    except KeyboardInterrupt:
        return


def _print_each(live: LiveSensors, choice: Choice, interval: float, *, once: bool, as_json: bool) -> None:
    from json import dumps

    try:
        while True:
            if as_json:
                print(dumps(plain({"time_s": time.time(), "domains": _plain(live, choice)}), allow_nan=False))
            else:
                print(
                    "  ".join(
                        f"{one.domain.source} {one.domain.name} {_power(one)} ({one.domain.quality})"
                        for one in live.domains
                    )
                )
            if once:
                return
            sys.stdout.flush()
            live.watch(interval)
    except (KeyboardInterrupt, BrokenPipeError):
        return


def _show(live: LiveSensors, choice: Choice) -> None:
    from rich.console import Console

    if not live.domains:
        print("No sensor is available")
        return
    Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 160).print(_table(live, choice))


def _table(live: LiveSensors, choice: Choice) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Energy sensors", title_justify="left")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in {"power", "updates", "step"} else "left")
    for one in live.domains:
        table.add_row(*(Text(clean(cell)) for cell in _row(one, choice)))
    return table


def _row(one: LiveDomain, choice: Choice) -> Row:
    from tprof.sensors import Quantity

    accuracy = one.domain.accuracy
    update_s = one.update_s if one.update_s is not None else accuracy.update_s
    unit = "W" if accuracy.shows is Quantity.POWER else "J"
    return (
        one.domain.source,
        one.domain.name,
        _power(one),
        str(one.domain.quality),
        "yes" if _is_counted(one.domain, choice) else "",
        DASH if update_s is None else quantity(update_s, "s"),
        DASH if accuracy.resolution is None else quantity(accuracy.resolution, unit),
        accuracy.covers or "",
    )


def _power(one: LiveDomain) -> str:
    if one.problem is not None:
        return f"not read: {one.problem}"
    return DASH if one.watts is None else quantity(one.watts, "W")


def _is_counted(domain: Domain, choice: Choice) -> bool:
    return any(other.counted and (other.source, other.name) == (domain.source, domain.name) for other in choice.domains)


def _plain(live: LiveSensors, choice: Choice) -> list[dict[str, Any]]:
    return [
        {
            "sensor": one.domain.source,
            "name": one.domain.name,
            "scope": one.domain.scope,
            "package": one.domain.package,
            "quality": str(one.domain.quality),
            "counted": _is_counted(one.domain, choice),
            "power_w": one.watts,
            "measured_update_s": one.update_s,
            "problem": one.problem,
            **one.domain.accuracy.as_json(),
        }
        for one in live.domains
    ]


def _missing(sensor: Sensor, unavailable: Unavailable) -> dict[str, Any]:
    remedies = [{"command": one.command, "exposes": one.exposes} for one in unavailable.remedies]
    return {"sensor": sensor.name, "covers": sensor.covers, "why": unavailable.why, "remedies": remedies}
