"""`tprof import`: a trace of another tool as a session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tprof.trace.plain_values import counted

from .progress import bar

ENDINGS = (".gz", ".json", ".pftrace", ".perfetto-trace", ".perfetto")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import")(import_trace)


def import_trace(
    file: Annotated[Path, typer.Argument(help="Trace events as JSON, or a trace of Perfetto; also packed by gzip.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="SESSION", help="By default FILE.tprof.")
    ] = None,
    counter: Annotated[
        list[str] | None,
        typer.Option(
            "--counter",
            metavar="NAME=DOMAIN:UNIT",
            help="A counter of the file that is energy or power, such as 'pkg=package-0:uJ'. May be repeated.",
        ),
    ] = None,
    energy: Annotated[
        str, typer.Option(metavar="auto|estimate|none", help="Counters of the file, an estimate, or no joules.")
    ] = "auto",
    watts: Annotated[str | None, typer.Option(metavar="IDLE,PER_CORE", help="Watts for the estimate.")] = None,
) -> None:
    """Make a session of a trace of VizTracer, Chrome or Perfetto. Example: tprof import result.json --watts 10,5."""
    from tprof.importing import Request, import_file
    from tprof.importing.energy_counters import parse_counter

    from .render import clean

    session = output or file.with_name(f"{_stem(file.name)}.tprof")
    asked = tuple(parse_counter(one) for one in counter or ())
    with bar("reading") as progress:
        made = import_file(Request(file, session, asked, energy, watts), progress=progress)
    for text in made.notes:
        print(f"note: {clean(text)}", file=sys.stderr)
    joules = ", ".join(f"{domain} from {name}" for domain, name in made.domains.items()) or "no energy"
    quality = f" ({made.quality})" if made.quality else ""
    counts = f"{counted(made.instances, 'instance')} of {counted(made.tasks, 'task')}"
    print(clean(f"{counts} in {counted(made.threads, 'thread')}; {joules}{quality}"))
    print(session)


def _stem(name: str) -> str:
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name or "imported"
