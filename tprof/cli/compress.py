"""`tprof compress`: a session on less disk."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .options import AsJson


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compress")(compress)


def compress(
    session: Annotated[Path, typer.Argument(metavar="SESSION", help="A session that has ended, or a job.")],
    as_json: AsJson = False,
) -> None:
    """Compress a session's samples and readings; every command reads it as before. Example: tprof compress a.tprof."""
    from tprof.trace.compress import compress as compress_session

    done = compress_session(session)
    if as_json:
        print(json.dumps(asdict(done)))
        return
    each = f", {done.sample_bytes / done.samples:.3g} bytes a sample" if done.samples else ""
    print(f"{session}: {done.before_bytes / 1e6:.1f} MB became {done.after_bytes / 1e6:.1f} MB{each}")
