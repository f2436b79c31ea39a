"""`tprof doctor`: which sensors and counters are there, which are not, why, and what would change that."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tprof.trace.left_out import GRANT

from .options import AsJson
from .render import clean, dump

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tprof.doctor import Fact, Group
    from tprof.sensors.advice import Remedy

STATE_WIDTH = 9
INDENT = " " * (STATE_WIDTH + 2)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    as_json: AsJson = False,
) -> None:
    """Show what a recording on this machine would read, what keeps it from more, and the command that grants it."""
    from tprof import sensors
    from tprof.doctor import examine, what_is_recorded

    root = sensors.sysroot()
    groups = examine(root, Path.cwd())
    recorded = what_is_recorded(root)
    if as_json:
        dump({"recording": recorded, "groups": [asdict(group) for group in groups]})
        return
    _fill(_answer(recorded["domains"]), first="", rest="")
    for sentence in recorded["unread"]:
        text, _, command = sentence.partition(GRANT)
        _fill(
            f"{text[:1].upper()}{text[1:]}{'; the command that grants it stands below' if command else ''}.",
            first="",
            rest="",
        )
    print()
    show(groups)


def show(groups: Iterable[Group]) -> None:
    """Print findings; a command that helps several of them is printed with the first."""
    shown: dict[Remedy, str] = {}
    for place, group in enumerate(groups):
        if place > 0:
            print()
        print(group.title)
        for fact in group.facts:
            _show(fact, shown)
        if any(fact.brief for fact in group.facts):
            print(f"{INDENT}what one of these would cover, and how to get it: tprof sensors NAME")


def _answer(domains: Iterable[dict[str, Any]]) -> str:
    """Return the sentence that says whether joules of a recording would be measured here."""
    names: dict[str, list[str]] = {}
    for domain in domains:
        if not domain["counted"]:
            continue
        names.setdefault(domain["quality"], []).append(clean(domain["name"]))
    if not names:
        return "A recording on this machine has no joules: no sensor can be read."
    texts = [f"joules of {', '.join(of)} are {quality}" for quality, of in names.items()]
    return f"In a recording on this machine, {'; '.join(texts)}."


def _show(fact: Fact, shown: dict[Remedy, str]) -> None:
    covers = "" if fact.covers is None or fact.brief else f" ({clean(fact.covers)})"
    _fill(f"  {fact.state:<{STATE_WIDTH}}{clean(fact.what)}{covers}: {clean(fact.why)}", first="", rest=INDENT)
    if fact.brief:
        return
    for remedy in fact.remedies:
        if remedy not in shown:
            show_remedy(remedy, INDENT)
    earlier = {shown[remedy]: None for remedy in fact.remedies if remedy in shown}
    if earlier:
        print(f"{INDENT}as for {', '.join(earlier)}")
    for remedy in fact.remedies:
        shown.setdefault(remedy, clean(fact.what))


def show_remedy(remedy: Remedy, indent: str) -> None:
    """Print a command on one line, however long, since it is there to be copied; and what it exposes."""
    print(f"{indent}$ {clean(remedy.command)}")
    if remedy.exposes is not None:
        _fill(f"exposes: {clean(remedy.exposes)}", first=f"{indent}  ", rest=f"{indent}  ")


def _fill(text: str, *, first: str, rest: str) -> None:
    print(textwrap.fill(text, _width(), initial_indent=first, subsequent_indent=rest, break_on_hyphens=False))


def _width() -> int:
    return max(shutil.get_terminal_size((110, 0)).columns, 60)
