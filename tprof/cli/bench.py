"""`tprof bench`: profile benchmark programs, or run the paper's suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

from .options import AsJson, Energy, Watts
from .progress import RunProgress
from .render import dump, show_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.benchmarks.repeats import Order, Runs

_HELP = """Profile benchmark programs, or run the paper's suite.

Examples:

  tprof bench --list --size paper

  tprof bench blackscholes stdlib_digest --size paper --repeat 5 -o out

  tprof bench --all --size paper -o suite
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench", help=_HELP)(bench)


def bench(  # noqa: PLR0913 - one parameter an option
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Programs."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List what there is; run nothing.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="The paper's six programs, and a report of them: suite.html.")
    ] = False,
    size: Annotated[str | None, typer.Option(help="small or paper; default: small.")] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help="Threads; default: one a processor.")] = None,
    cluster: Annotated[
        int | None,
        typer.Option(metavar="N", help="Run the programs on a dask cluster of N processes here, not on threads."),
    ] = None,
    repeat: Annotated[int, typer.Option(metavar="N", help="Runs of each program, each a session.")] = 1,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where sessions and reports go.")
    ] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace earlier sessions and reports.")] = False,
    energy: Energy = "auto",
    watts: Watts = None,
    as_json: AsJson = False,
) -> None:
    """Run what is named, one after the other."""
    from tprof.benchmarks.repeats import Order

    asked = _asked(names or [], everything=everything, listing=listing)
    if listing:
        _show_list(asked, size, as_json=as_json)
        return
    recording = {"energy": energy, "watts": watts}
    order = Order(output, size or "small", workers, repeat, overwrite=overwrite, recording=recording)
    if cluster is not None:
        _use_cluster(cluster, workers)
    result = _run_suite(order, quiet=as_json) if everything else _run(asked, order, quiet=as_json)
    if as_json:
        dump(result)


def _use_cluster(processes: int, workers: int | None) -> None:
    """Run programs on a cluster from now on. Raises UsageError."""
    from tprof.benchmarks.programs.outcome import CLUSTER_WORKERS, check_workers

    check_workers(processes)
    if workers is not None:
        raise UsageError("--workers counts threads and --cluster processes of one thread: give one of them")
    CLUSTER_WORKERS.set(processes)


def _asked(names: Sequence[str], *, everything: bool, listing: bool) -> list[str]:
    """Return what is to be run or listed, each once."""
    from tprof.benchmarks import PROGRAMS

    known = [*PROGRAMS]
    if everything and (names or listing):
        raise UsageError(f"--all is the whole suite: give {'--list' if listing else 'names'} or --all, not both")
    if not names and not everything and not listing:
        raise UsageError(f"name what to run: {', '.join(known)}, --all for the suite, or --list")
    for name in names:
        if name not in known:
            raise UsageError(f"there is no benchmark {name!r}: take {', '.join(known)}")
    return list(dict.fromkeys(names))


def _show_list(names: Sequence[str], size: str | None, *, as_json: bool) -> None:
    """Print what is named, or all, with the instances that it makes; with a size only its inputs. Raises UsageError."""
    from tprof.benchmarks import PROGRAMS
    from tprof.benchmarks.programs.outcome import SIZES, check_size

    if size is not None:
        check_size(size)
    sizes = SIZES if size is None else (size,)
    programs = {name: _listed(name, sizes) for name in PROGRAMS if not names or name in names}
    if as_json:
        dump(programs)
        return
    for name, program in programs.items():
        print(f"{name}: {program['description']}")
        for one in sizes:
            instances = ", ".join(f"{count:,} {task}" for task, count in program["instances"][one].items())
            print(f"  --size {one}: {program['inputs'][one]}; tasks: {instances}")


def _listed(name: str, sizes: Sequence[str]) -> dict[str, Any]:
    from tprof.benchmarks import PROGRAMS

    program = PROGRAMS[name]
    return {
        "description": program.description,
        "inputs": {size: program.inputs[size] for size in sizes},
        "instances": {size: program.instances(size) for size in sizes},
    }


def _run_suite(order: Order, *, quiet: bool) -> dict[str, Any]:
    """Run the suite as ordered, write its files, and return what `--json` prints."""
    from tprof.benchmarks.machine_description import describe_machine
    from tprof.benchmarks.repeats import run
    from tprof.benchmarks.suite import FILES, SUITE, Suite, members, tables, write_suite

    names = members(SUITE)
    files = [order.folder / name for name in FILES]
    order.check([*(path for name in names for path in order.sessions(name)), *files])
    progress = RunProgress(names, order.repeats)
    machine = describe_machine()
    suite = Suite(tuple(run(name, order, progress) for name in names), machine)
    write_suite(suite, order.folder)
    if not quiet:
        show_tables(tables(suite), sys.stdout)
        for path in files:
            print(path)
    return {"files": [str(path) for path in files], **suite.as_plain()}


def _run(names: Sequence[str], order: Order, *, quiet: bool) -> dict[str, Any]:
    prepare(names, order)
    progress = RunProgress(names, order.repeats)
    return {name: profile(name, order, progress, quiet=quiet) for name in names}


def prepare(names: Sequence[str], order: Order) -> None:
    """Refuse what cannot be done before anything runs."""
    if names:
        order.check(path for name in names for path in (*order.sessions(name), order.report(name)))


def profile(name: str, order: Order, progress: RunProgress, *, quiet: bool) -> dict[str, Any]:
    """Run a program as often as ordered, write the report of the median run, and return what `--json` prints."""
    from tprof.benchmarks.repeats import run

    from .summary import as_plain

    runs = run(name, order, progress)
    report = order.report(name)
    runs.profile.to_html(report)
    if not quiet:
        _print_program(runs, order)
    session = order.sessions(name)[runs.middle]
    return {
        "outcome": runs.outcome.sentence(),
        "session": str(session),
        "report": str(report),
        "time": runs.times().as_plain(),
        "energy": runs.energies().as_plain(),
        "runs": runs.as_plain(),
        **as_plain(runs.profile),
    }


def _print_program(runs: Runs, order: Order) -> None:
    from .summary import show

    print(runs.outcome.sentence())
    show(runs.profile, sys.stdout)
    if len(runs.outcomes) > 1:
        print("Above: the run with the median time. All runs:")
        _print_runs(runs)
    for session in order.sessions(runs.program):
        print(f"session: {session}")
    print(f"report: {order.report(runs.program)}", flush=True)


def _print_runs(runs: Runs) -> None:
    from tprof.benchmarks import measured_figures

    for row in measured_figures.rows({"figures": [figure.as_plain() for figure in (runs.times(), runs.energies())]}):
        print(f"{row.name}: {row.value} {row.unit} ({row.spread}), {counted(len(runs.outcomes), 'run')}")
