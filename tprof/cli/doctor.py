"""`tprof doctor`: which sensors and counters are there, which are not, why, and what would change that."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tprof.doctor import Fact, Group

STATE_WIDTH = 9
INDENT = " " * (STATE_WIDTH + 2)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", rich_help_panel="Record")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Say what a recording on this machine would read, what keeps it from more, and the command that grants it."""
    from tprof import sensors
    from tprof.doctor import examine, what_is_recorded

    from .tables import dump

    root = sensors.sysroot()
    groups = examine(root, Path.cwd())
    if as_json:
        dump({"recording": what_is_recorded(root), "groups": [asdict(group) for group in groups]})
        return
    for place, group in enumerate(groups):
        if place > 0:
            print()
        _show(group)


def _show(group: Group) -> None:
    print(group.title)
    for fact in group.facts:
        _show_fact(fact)


def _show_fact(fact: Fact) -> None:
    from .tables import clean

    width = max(shutil.get_terminal_size((110, 0)).columns, 60)
    heading = f"  {fact.state:<{STATE_WIDTH}}{clean(fact.what)}: "
    print(textwrap.fill(heading + clean(fact.why), width, subsequent_indent=INDENT, break_on_hyphens=False))
    for remedy in fact.remedies:
        # A command stands on one line, however long: it is there to be copied.
        print(f"{INDENT}$ {clean(remedy.command)}")
        if remedy.exposes is not None:
            text = f"exposes: {clean(remedy.exposes)}"
            print(textwrap.fill(text, width, initial_indent=f"{INDENT}  ", subsequent_indent=f"{INDENT}  "))
