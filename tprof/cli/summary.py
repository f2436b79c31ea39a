"""`tprof summary`: accounts and tasks of a session in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tprof.errors import UsageError
from tprof.trace.plain_values import listed, shown


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("summary", rich_help_panel="Look")(summary)


def summary(
    session: Annotated[Path, typer.Argument(help="Session directory.")],
    model: Annotated[str, typer.Option(help="auto, cputime, fitted, ipc, fesc or linear.")] = "auto",
    coefficients: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.json|a=..", help="Of the linear model.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Show these columns of the tasks, in this order.")
    ] = None,
    everything: Annotated[  # noqa: FBT002 - typer's default
        bool, typer.Option("--all", help="Show all columns of the tasks, however narrow the terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Print where the joules went, task by task. Example: tprof summary blur.tprof --model cputime."""
    from .opening import open_profile
    from .tables import as_plain, dump, show

    chosen = _chosen(columns)
    if chosen is not None and everything:
        message = "--columns names the columns and --all takes every one: leave one of them out"
        raise UsageError(message)
    if as_json and (chosen is not None or everything):
        message = "--json holds every column: leave --columns and --all out, or --json"
        raise UsageError(message)
    profile = open_profile(session, model, coefficients)
    if as_json:
        dump(as_plain(profile))
    else:
        show(profile, sys.stdout, columns=chosen, everything=everything)


def _chosen(columns: str | None) -> list[str] | None:
    from .tables import COLUMNS

    if columns is None:
        return None
    names = [name.strip().lower() for name in columns.split(",") if name.strip()]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or not names:
        message = f"--columns takes names of {', '.join(COLUMNS)}, got {listed(unknown) or shown(columns)}"
        raise UsageError(message)
    return names
