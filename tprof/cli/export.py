"""`tprof export`: a session as files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tprof.analysis.export.formats import FORMATS, format_named

from .options import Between, Coefficients, Model, Parallel, SessionOrJob, opened
from .progress import bar


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", help=f"{export.__doc__}\n\n{_list_of_formats()}")(export)


def _list_of_formats() -> str:
    return "\n\n".join(f"- {one.name}: {one.help}" for one in FORMATS)


def _complete(begun: str) -> list[tuple[str, str]]:
    return [(one.name, one.description) for one in FORMATS if one.name.startswith(begun)]


def export(
    session: SessionOrJob,
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="One of the formats above.", autocompletion=_complete)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="PATH", help="By default SESSION with the format's ending.")
    ] = None,
    model: Model = "auto",
    coefficients: Coefficients = None,
    between: Between = None,
    parallel: Parallel = None,
) -> None:
    """Write a session for other tools. Example: tprof export blur.tprof csv -o tables."""
    chosen = format_named(form)
    chosen.check()
    path = output or Path(session.name).with_suffix(chosen.suffix)
    with (
        opened(session, model, coefficients, parallel=parallel, instances=True, between=between) as profile,
        bar(form) as progress,
    ):
        chosen.write(profile, path, progress=progress)
    print(path)
