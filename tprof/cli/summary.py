"""`tprof summary`: accounts and tasks of a session in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("summary", rich_help_panel="Look")(summary)


def summary(
    session: Annotated[Path, typer.Argument(help="Session directory.")],
    model: Annotated[str, typer.Option(help="auto, cputime, fitted, ipc, fesc or linear.")] = "auto",
    coefficients: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.json|a=..", help="Of the linear model.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Print where the joules went, task by task. Example: tprof summary blur.tprof --model cputime."""
    from .opening import open_profile
    from .tables import as_plain, dump, show

    profile = open_profile(session, model, coefficients)
    if as_json:
        dump(as_plain(profile))
    else:
        show(profile, sys.stdout)
