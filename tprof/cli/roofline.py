"""`tprof roofline`: what time, energy and power this machine needs at each intensity, and where tasks stand."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError

if TYPE_CHECKING:
    from tprof.analysis.theory.roofline_tasks import TaskPoint

    from .roofline_machine import Result

_HELP = """Draw the roofline of energy of this machine, or of a known one, and place a session's tasks under it.

Without --machine it runs polynomials of many degrees over streams on all cores (about half a minute, best on an idle
machine), and fits seconds and, where a sensor measures energy, joules a flop and a byte and the constant power.

Tasks are placed by the flops and bytes that they declare, @tprof.task(flops=..., bytes=...); without declared bytes,
64 for each LLC miss count where the session has that counter.

Examples:

  tprof roofline -o roofline.html

  tprof roofline --save laptop

  tprof roofline blur.tprof --machine laptop -o blur-roofline.html

  tprof roofline --machine gtx580 --json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("roofline", help=_HELP, rich_help_panel="Measure")(roofline)


def roofline(  # noqa: PLR0913 - one parameter an option
    session: Annotated[Path | None, typer.Argument(help="Place the tasks of this session.")] = None,
    named: Annotated[Path | None, typer.Option("--session", help="The same as SESSION.")] = None,
    machine: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Do not measure: gtx580, i7-950, fermi, or one that was saved."),
    ] = None,
    precision: Annotated[str, typer.Option(help="Of the tasks' flops: double or single.")] = "double",
    model: Annotated[str, typer.Option(help="Power model for the session: auto, cputime, …")] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="See that it works; no figures to quote.")] = False,  # noqa: FBT002
    save: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.json", help="Keep the machine that was measured.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Draw it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Measure, fit and draw; the command's help says how."""
    from .roofline_machine import known, measure_here

    session = session or named
    _check(precision, machine, save, output)
    points, notes, processor = _tasks(session, model) if session is not None else ([], [], None)
    result = known(machine, processor) if machine is not None else measure_here(quick=quick, processor=processor)
    result.tasks, result.precision = points, precision
    result.notes += notes
    _refuse_precision(result, precision)
    if save is not None:
        _save(result, save)
    if output is not None:
        _draw(result, output)
    if as_json:
        _dump(result)
    else:
        from .roofline_text import tables
        from .tables import show_tables

        if result.first is not None:
            print(f"{result.first[0].upper()}{result.first[1:]}.\n")
        show_tables(tables(result), sys.stdout)


def _check(precision: str, machine: str | None, save: str | None, output: Path | None) -> None:
    """Refuse before the work what cannot be done after it."""
    if precision not in {"single", "double"}:
        message = f'--precision must be single or double, got "{precision}"'
        raise UsageError(message)
    if save is not None and machine is not None:
        message = "--save keeps a machine that was measured: leave --machine out"
        raise UsageError(message)
    if save is not None:
        from .roofline_machine import saved_path

        saved_path(save)
    if output is not None and (os.path.isdir(output) or not os.path.isdir(output.absolute().parent)):
        message = f"cannot write the page to {output}: name a file in a directory that exists, such as roofline.html"
        raise UsageError(message)


def _tasks(session: Path, model: str) -> tuple[list[TaskPoint], list[str], str | None]:
    from tprof.analysis.declared import failed_declarations
    from tprof.analysis.theory.roofline_tasks import task_points

    from .opening import open_profile

    profile = open_profile(session, model)
    points, notes = task_points(profile)
    if not points:
        raise UsageError(_why_none(session, failed_declarations(profile.trace.tasks), notes))
    notes += _qualities(points)
    return points, notes, (profile.info["host"] or {}).get("processor")


def _why_none(session: Path, failed: list[str], notes: list[str]) -> str:
    if failed:
        return f"no task of {session} could be placed: {'; '.join(failed)}: mend what it declares and record again"
    why = f" ({notes[0]})" if notes else ""
    return (
        f"no task of {session} says what it computes and moves{why}: declare it with "
        "@tprof.task(flops=..., bytes=...) and record again"
    )


def _qualities(points: list[TaskPoint]) -> list[str]:
    """Say what the joules are: a reader must not take an estimate for a measurement."""
    found = sorted({point.quality for point in points if point.energy_j is not None})
    if not found:
        return []
    return [f"the tasks' joules are {' and '.join(found)}{'' if 'measured' in found else ', not measured'}"]


def _refuse_precision(result: Result, precision: str) -> None:
    if result.tasks and precision not in result.machine.precisions:
        message = f"{result.machine.name} is known in {result.machine.precisions[0]} precision only: use --precision"
        raise UsageError(message)


def _save(result: Result, save: str) -> None:
    from dataclasses import replace

    from tprof.analysis.theory.roofline_machines import write_machine

    from .roofline_machine import saved_path
    from .roofline_text import fit_as_plain

    path = saved_path(save)
    write_machine(replace(result.machine, name=path.stem), path, fit_as_plain(result))
    print(f"kept in {path}: use it with --machine {save}", file=sys.stderr)


def _draw(result: Result, output: Path) -> None:
    from tprof.analysis.theory.roofline_page import Shown, write_roofline

    runs = result.measured.runs if result.measured is not None else None
    shown = Shown(result.machine, result.where, runs, result.tasks, result.precision, result.all_notes)
    write_roofline(shown, output)
    print(output, file=sys.stderr)


def _dump(result: Result) -> None:
    from .roofline_text import as_plain
    from .tables import dump

    plain: dict[str, Any] = as_plain(result)
    dump(plain)
