"""`tprof report`: a session as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .summary import open_profile


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", rich_help_panel="Look")(report)


def report(
    session: Annotated[Path, typer.Argument(help="Session directory.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="By default SESSION.html.")
    ] = None,
    model: Annotated[str, typer.Option(help="auto, cputime, fitted, ipc, fesc or linear.")] = "auto",
    coefficients: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.json|a=..", help="Of the linear model.")
    ] = None,
) -> None:
    """Write a report that works without a network. Example: tprof report blur.tprof -o blur.html."""
    path = output or Path(session.name).with_suffix(".html")
    open_profile(session, model, coefficients).to_html(path)
    print(path)
