"""`tprof export`: the tables of a session as files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tprof.errors import UsageError

from .options import Parallel, SessionOrJob, opened

FORMATS = ("csv", "parquet")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export", rich_help_panel="Look")(export)


def export(
    session: SessionOrJob,
    form: Annotated[str, typer.Argument(metavar="csv|parquet", help="Kind of the files.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="By default SESSION.csv or SESSION.parquet.")
    ] = None,
    parallel: Parallel = 1,
) -> None:
    """Write the tables. Example: tprof export blur.tprof csv -o tables."""
    if form not in FORMATS:
        raise UsageError(f"the format must be one of {', '.join(FORMATS)}, got {form!r}")
    directory = output or Path(session.name).with_suffix(f".{form}")
    with opened(session, parallel=parallel, instances=True) as profile:
        if form == "csv":
            profile.to_csv(directory)
        else:
            profile.to_parquet(directory)
    print(directory)
