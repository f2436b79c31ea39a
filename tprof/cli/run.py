"""`tprof run`: profile a script or module unchanged."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tprof.errors import TprofError, UsageError

if TYPE_CHECKING:
    from tprof.analysis import Profile
    from tprof.launch import Program
    from tprof.recording import Recording

_TOP = 10
_HELP = """Profile a script or module; its source, arguments, output and exit status stay as they are.

Examples:

  tprof run blur.py --size 4096

  tprof run --task '__main__:*' --task 'mymodule:Filter.*' blur.py

  tprof run -o night.tprof --report night.html -m mypackage.job
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "run",
        help=_HELP,
        rich_help_panel="Record",
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    )(run)


def run(  # noqa: PLR0913 - one parameter an option
    program: Annotated[list[str], typer.Argument(metavar="(SCRIPT | -m MODULE) [ARGS]...", help="The program.")],
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="SESSION", help="Session directory.")] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", metavar="MODULE:FUNCTION", help="Make tasks; wildcards allowed.")
    ] = None,
    energy: Annotated[str, typer.Option(help="auto, perf, powercap, estimate or none.")] = "auto",
    counters: Annotated[str, typer.Option(help="auto, none, or names with commas.")] = "auto",
    watts: Annotated[str | None, typer.Option(metavar="IDLE,PER_CORE", help="Watts for the estimate.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier session.")] = False,  # noqa: FBT002
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a report too.")] = None,
    idle: Annotated[
        float | None, typer.Option("--idle", metavar="SECONDS", help="Idle to read before the program starts.")
    ] = None,
    best_effort: Annotated[  # noqa: FBT002 - typer reads the default
        bool, typer.Option("--best-effort", help="Run unprofiled when recording cannot start.")
    ] = False,
) -> None:
    """Record the program, then say where its joules went."""
    import tprof
    from tprof.launch import parse_patterns

    what = _program(program)
    parse_patterns(task or [])
    session = Path(output) if output else _free_name(what.stem)
    _check_report(report)
    names = [part.strip() for part in counters.split(",")]
    recording = tprof.record(
        session,
        energy=energy,
        counters=names if len(names) > 1 else counters,
        watts=watts,
        overwrite=overwrite,
        idle_s=idle,
    )
    sys.exit(_record(what, task or [], recording, report, best_effort=best_effort))


def _program(words: list[str]) -> Program:
    from tprof.launch import Program

    if words[0] == "-m":
        if len(words) == 1:
            message = "-m needs the name of a module after it"
            raise UsageError(message)
        return Program(words[1], tuple(words[2:]), is_module=True)
    if words[0].startswith("-"):
        message = f"there is no option {words[0]}: see tprof run --help; the program's own options go after the script"
        raise UsageError(message)
    return Program(words[0], tuple(words[1:]))


def _check_report(report: Path | None) -> None:
    """Refuse a place for the report before the program runs, not after."""
    if report is None:
        return
    folder = report.absolute().parent
    if not folder.is_dir() or report.is_dir() or not os.access(folder, os.W_OK):
        message = f"cannot write the report to {report}: name a file in a folder that can be written"
        raise UsageError(message)


def _free_name(stem: str) -> Path:
    number = 1
    path = Path(f"{stem}.tprof")
    while path.exists() or path.is_symlink():
        number += 1
        path = Path(f"{stem}-{number}.tprof")
    return path


def _record(what: Program, tasks: list[str], recording: Recording, report: Path | None, *, best_effort: bool) -> int:
    from tprof.launch.program import end_process, find_program, run_program

    main = find_program(what)
    ended: BaseException | None = None
    recorded = True
    try:
        recording.__enter__()
    except TprofError as error:
        if not best_effort:
            raise
        recorded = False
        print(f"tprof: {error}; the program runs unprofiled", file=sys.stderr)
    try:
        run_program(what, main, tasks, recorded_in=recording.path if recorded else None)
    except BaseException as error:  # noqa: BLE001 - whatever ends the program is its own, said by end_process
        ended = error
    if recorded:
        recording.__exit__(None if ended is None else type(ended), ended, None)
        _tell(recording, tasks, report)
    return end_process(ended)


def _tell(recording: Recording, tasks: list[str], report: Path | None) -> None:
    """Print on standard error; what fails here must not hide how the program ended."""
    from .tables import show

    sys.stdout.flush()
    try:
        profile = recording.profile()
        show(profile, sys.stderr, top=_TOP)
        _tell_unmatched(profile, tasks)
        if report is not None:
            profile.to_html(report)
            print(f"report: {report}", file=sys.stderr)
            return
    except TprofError as error:
        print(f"tprof: {error}", file=sys.stderr)
    session = recording.path.name if recording.path.parent == Path.cwd() else recording.path
    print(f"next: tprof report {session}", file=sys.stderr)


def _tell_unmatched(profile: Profile, tasks: list[str]) -> None:
    """Name the patterns that made no task, here or in a child process."""
    from fnmatch import fnmatchcase

    from tprof.launch import parse_patterns, unfulfilled

    for pattern in unfulfilled(parse_patterns(tasks)):
        if not any(fnmatchcase(entry.name, pattern.function) for entry in profile.trace.tasks):
            print(
                f"tprof: --task {pattern} met no function: take the name of the module as it is imported "
                "(the program itself is __main__), and a function or Class.method that this module defines",
                file=sys.stderr,
            )
