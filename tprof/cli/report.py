"""`tprof report`: a session as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Coefficients, Model, Parallel, SessionOrJob, opened


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", rich_help_panel="Look")(report)


def report(
    session: SessionOrJob,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="By default SESSION.html.")
    ] = None,
    model: Model = "auto",
    coefficients: Coefficients = None,
    parallel: Parallel = 1,
) -> None:
    """Write a report that works without a network. Example: tprof report blur.tprof -o blur.html."""
    path = output or Path(session.name).with_suffix(".html")
    with opened(session, model, coefficients, parallel=parallel) as profile:
        profile.to_html(path)
    print(path)
