"""`tprof report`: a session as one HTML file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .footprint import rates_of
from .options import Between, Co2, Coefficients, Model, Parallel, Price, SessionOrJob, opened


class Library(StrEnum):
    """Where the plot library is."""

    INLINE = "inline"
    FOLDER = "folder"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(  # noqa: PLR0913 - one parameter an option
    session: SessionOrJob,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="By default SESSION.html.")
    ] = None,
    plotly: Annotated[
        Library,
        typer.Option(help="The plot library (4.8 MB): in the page, or once in its folder for all pages there."),
    ] = Library.INLINE,
    model: Model = "auto",
    coefficients: Coefficients = None,
    between: Between = None,
    parallel: Parallel = None,
    co2: Co2 = None,
    price: Price = None,
) -> None:
    """Write a report that works without a network. Example: tprof report blur.tprof -o blur.html."""
    path = output or Path(session.name).with_suffix(".html")
    rates = rates_of(co2, price)
    with opened(session, model, coefficients, parallel=parallel, between=between) as profile:
        profile.to_html(path, plotly=plotly, rates=rates)
    print(path)
