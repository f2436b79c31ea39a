"""`tprof run`: profile a script or module unchanged."""

from __future__ import annotations

import atexit
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import TprofError, UsageError

from .options import Counters, Energy, Watts
from .run_end import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tprof.launch.program import Program

_HELP = """Profile a script, a module or a text; its source, arguments, output and exit status stay as they are.

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
    program: Annotated[
        list[str] | None, typer.Argument(metavar="(SCRIPT | -m MODULE | -c TEXT | -) [ARGS]...", help="The program.")
    ] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="SESSION", help="Session directory.")] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="PATTERN",
            help="Make tasks of functions: MODULE:FUNCTION with wildcards, mypackage.*, FILE.py, FILE.py:FUNCTION or "
            "re:EXPRESSION for module:function.",
        ),
    ] = None,
    require_tasks: Annotated[
        bool, typer.Option("--require-tasks", help="Exit with 1 if a --task meets no function.")
    ] = False,
    list_tasks: Annotated[
        str | None,
        typer.Option("--list-tasks", metavar="MODULE", help="Show what --task can take there; nothing is run."),
    ] = None,
    energy: Energy = "auto",
    counters: Counters = "auto",
    watts: Watts = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier session.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a report too.")] = None,
    idle: Annotated[
        float | None, typer.Option("--idle", metavar="SECONDS", help="Idle to read before the program starts.")
    ] = None,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Run unprofiled when recording cannot start.")
    ] = False,
    no_summary: Annotated[bool, typer.Option("--no-summary", help="Print no summary after the program.")] = False,
) -> None:
    """Record the program, then say where its joules went."""
    import tprof
    from tprof.launch.pattern import parse_patterns

    if list_tasks is not None:
        _list_tasks(list_tasks, task or [])
        return
    what = _program(program or [])
    parse_patterns(task or [])
    if require_tasks and not task:
        message = "--require-tasks needs a --task that it can require"
        raise UsageError(message)
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
    end = End(recording, shlex.join(program or []), report, summary=not no_summary, require_tasks=require_tasks)
    raise Start(_prepare(what, task or [], end, best_effort=best_effort))


def _program(words: list[str]) -> Program:
    from tprof.launch.program import Program

    if not words:
        message = "name the program to run: tprof run SCRIPT, -m MODULE, -c TEXT or - for standard input"
        raise UsageError(message)
    if words[0] == "-m":
        if len(words) == 1:
            message = "-m needs the name of a module after it"
            raise UsageError(message)
        return Program(words[1], tuple(words[2:]), is_module=True)
    if words[0] == "-c":
        if len(words) == 1:
            message = "-c needs the text of a program after it"
            raise UsageError(message)
        return Program(words[0], tuple(words[2:]), text=words[1])
    if words[0] == "-":
        return Program(words[0], tuple(words[1:]))
    if words[0].startswith("-"):
        message = f"there is no option {words[0]}: see tprof run --help; the program's own options go after the script"
        raise UsageError(message)
    return Program(words[0], tuple(words[1:]))


def _check_report(report: Path | None) -> None:
    """Refuse a place for the report before the program runs, not after."""
    if report is None:
        return
    folder = report.absolute().parent
    if not os.path.isdir(folder) or os.path.isdir(report) or not os.access(folder, os.W_OK):
        message = f"cannot write the report to {report}: name a file in a folder that can be written"
        raise UsageError(message)


def _free_name(stem: str) -> Path:
    from tprof.session.companions import is_rank, shares

    number = 1
    path = Path(f"{stem}.tprof")
    while os.path.lexists(path) and not (is_rank() and shares(path)):
        number += 1
        path = Path(f"{stem}-{number}.tprof")
    return path


class Start(BaseException):
    """Takes a program out of the command line, which would see its exceptions and stand in its tracebacks."""

    def __init__(self, program: Callable[[], None]) -> None:
        """Take what runs it."""
        self.program = program


def _prepare(what: Program, tasks: list[str], end: End, *, best_effort: bool) -> Callable[[], None]:
    """Begin to record, and return what runs the program."""
    from tprof.launch.program import find_program, run_program

    main = find_program(what)
    # What is registered first is called last: what the program leaves to its own end is recorded.
    atexit.register(end.at_exit)
    try:
        end.begin()
    except TprofError as error:
        if end.must_record and not best_effort:
            raise
        print(f"tprof: {error}; the program runs unprofiled", file=sys.stderr)

    def execute() -> None:
        try:
            run_program(what, main, tasks, recorded_in=end.recorded_in)
        except BaseException as error:
            end.ended_by = type(error)  # not the error, which would keep the program's objects alive
            end.failed = not (isinstance(error, SystemExit) and not error.code)
            raise

    return execute


def _list_tasks(where: str, tasks: Sequence[str]) -> None:
    """Print the functions of a module, package or script that the patterns mean, all without patterns."""
    from tprof.launch.pattern import parse_patterns

    patterns = parse_patterns(tasks)
    for names, code, function in _functions(where):
        meant = not patterns and not function.co_name.startswith("<")
        if meant or any(pattern.means(names, code.co_filename, function.co_qualname) for pattern in patterns):
            print(f"{names[0]}:{function.co_qualname}  {function.co_filename}:{function.co_firstlineno}")


def _functions(where: str) -> Iterator[tuple[list[str], Any, Any]]:
    from tprof.launch.codes import code_of, find_modules, functions_in, spec_of_file

    sys.path[0] = os.getcwd()  # noqa: PTH109 - as python -m has it
    script = where.endswith(".py") or os.sep in where
    package = where.removesuffix(".*")
    specs = [spec_of_file(where, Path(where).stem)] if script else list(find_modules(package))
    codes = [(spec, code_of(spec)) for spec in specs]
    if all(code is None for _, code in codes):
        message = f"cannot list the tasks of {where}: there is no such module or script with code; check the name"
        raise UsageError(message)
    for spec, code in codes:
        names = ["__main__", spec.name] if script else [spec.name]
        for function in sorted(functions_in(code), key=lambda one: one.co_firstlineno) if code is not None else ():
            yield names, code, function
