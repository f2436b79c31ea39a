"""`tprof merge`: one job of the sessions of several hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tprof.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("merge")(merge)


def merge(
    sessions: Annotated[list[Path], typer.Argument(metavar="SESSION...", help="Sessions, or jobs of several hosts.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="JOB", help="Directory of the job to make.")],
    move: Annotated[bool, typer.Option("--move", help="Move the sessions into the job.")] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Copy them; this is the default.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier job.")] = False,
) -> None:
    """Put sessions of several hosts into one job. Example: tprof merge node1.tprof node2.tprof -o all.tprof."""
    from tprof.trace import merge as parts

    if move and copy:
        raise UsageError("--move and --copy exclude each other: leave one of them out")
    made = parts.merge(sessions, output, move=move, overwrite=overwrite)
    for part in made:
        print(f"{part.name}: {part.missing or 'whole'}")
    print(output)
