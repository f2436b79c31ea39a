"""`tprof run`: profile a script or module unchanged."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError

from .app import Start
from .options import Co2, Counters, Energy, Price, Verbose, Watts
from .run_start import Launch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    )(run)


def run(  # noqa: PLR0913 - one parameter an option
    program: Annotated[
        list[str] | None, typer.Argument(metavar="(SCRIPT | -m MODULE | -c TEXT | -) [ARGS]...", help="The program.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="SESSION",
            help="Session to make; else SCRIPT.tprof, or SCRIPT-2.tprof, … if taken.",
        ),
    ] = None,
    hosts: Annotated[
        bool,
        typer.Option(
            "--hosts", help="Record several hosts into one job on a common disk, as under launchers with several nodes."
        ),
    ] = False,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="PATTERN",
            help="Make tasks of functions: MODULE:FUNCTION with wildcards, mypackage.*, FILE.py, FILE.py:FUNCTION or "
            "re:EXPRESSION for module:function.",
        ),
    ] = None,
    spans: Annotated[
        bool, typer.Option("--spans", help="Make the spans of OpenTelemetry tasks, by their names.")
    ] = False,
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
        float | None, typer.Option("--idle", metavar="SECONDS", help="Read the idle machine for so long first.")
    ] = None,
    no_native_threads: Annotated[
        bool, typer.Option("--no-native-threads", help="Do not record the threads of libraries, nor who creates them.")
    ] = False,
    passive_pools: Annotated[
        bool,
        typer.Option(
            "--passive-pools",
            help="Let the threads of BLAS and OpenMP sleep, not spin, between calls; says what it sets.",
        ),
    ] = False,
    mpi: Annotated[
        bool, typer.Option("--mpi", help="Make tasks of MPI's functions: waiting in them is not the caller's time.")
    ] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Show tprof top while the program runs, with its latest output; all of its output follows in the "
            "terminal when the view is left.",
        ),
    ] = False,
    stacks: Annotated[
        bool,
        typer.Option("--stacks", help="Sample Python stacks too: flame graphs then show functions below the tasks."),
    ] = False,
    keep: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="all, or for programs that run for weeks sums by task and span, and no samples: summary by process, "
            "threads by thread too.",
        ),
    ] = "all",
    span: Annotated[float, typer.Option(metavar="SECONDS", help="Length of the spans of --keep.")] = 1.0,
    max_size: Annotated[
        str | None,
        typer.Option(
            "--max-size",
            metavar="SIZE",
            help="Keep the session's folder below this size, such as 2GB: of the samples the latest stay.",
        ),
    ] = None,
    compress: Annotated[
        bool,
        typer.Option(
            "--compress", help="Compress the samples while the program runs, by a process of lowest priority."
        ),
    ] = False,
    metrics: Annotated[
        int | None,
        typer.Option("--metrics", metavar="PORT", help="Serve metrics for Prometheus on this port of 127.0.0.1."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="A,B", help="Compare two functions of the program, such as before,after."),
    ] = None,
    co2: Co2 = None,
    price: Price = None,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Run unprofiled when recording cannot start.")
    ] = False,
    no_summary: Annotated[bool, typer.Option("--no-summary", help="Print no summary after the program.")] = False,
    verbose: Verbose = False,
) -> None:
    """Record the program, then print where its joules went."""
    if list_tasks is not None:
        _list_tasks(list_tasks, task or [])
        return
    raise Start(
        Launch(
            program=tuple(program or ()),
            output=output,
            hosts=hosts,
            task=tuple(task or ()),
            spans=spans,
            require_tasks=require_tasks,
            energy=energy,
            counters=counters,
            watts=watts,
            overwrite=overwrite,
            report=report,
            idle=idle,
            no_native_threads=no_native_threads,
            passive_pools=passive_pools,
            best_effort=best_effort,
            no_summary=no_summary,
            mpi=mpi,
            stacks=stacks,
            keep=keep,
            span=span,
            max_size=max_size,
            compress=compress,
            metrics=metrics,
            compare=compare,
            co2=co2,
            price=price,
            live=live,
            verbose=verbose,
        )
    )


def _list_tasks(where: str, tasks: Sequence[str]) -> None:
    """Print the functions of a module, package or script that the patterns mean, all without patterns."""
    from tprof.launch.pattern import parse_patterns

    patterns = parse_patterns(tasks)
    for names, code, function in _functions(where):
        meant = not patterns and not function.co_name.startswith("<")
        if meant or any(pattern.matches(names, code.co_filename, function.co_qualname) for pattern in patterns):
            print(f"{names[0]}:{function.co_qualname}  {function.co_filename}:{function.co_firstlineno}")


def _functions(where: str) -> Iterator[tuple[list[str], Any, Any]]:
    from tprof.launch.codes import code_of, find_modules, functions_in, spec_of_file

    sys.path[0] = os.getcwd()  # noqa: PTH109 - as python -m has it
    script = where.endswith(".py") or os.sep in where
    package = where.removesuffix(".*")
    specs = [spec_of_file(where, Path(where).stem)] if script else list(find_modules(package))
    codes = [(spec, code_of(spec)) for spec in specs]
    if all(code is None for _, code in codes):
        raise UsageError(
            f"cannot list the tasks of {where}: there is no such module or script with code; check the name"
        )
    for spec, code in codes:
        names = ["__main__", spec.name] if script else [spec.name]
        for function in sorted(functions_in(code), key=lambda one: one.co_firstlineno) if code is not None else ():
            yield names, code, function
