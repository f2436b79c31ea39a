"""`tprof sweep`: a program over frequencies and numbers of workers."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tprof.errors import TprofError, UsageError

from .options import AsJson, Counters, Energy, Watts
from .progress import SweepProgress
from .render import dump

if TYPE_CHECKING:
    from types import FrameType

    from tprof.benchmarks.sweep import What

INTERRUPTED = 128 + signal.SIGINT
_HELP = """Run a program or benchmark over processor frequencies, numbers of workers and repeats; write one table.

{workers} in the program's arguments, and the environment variable TPROF_WORKERS, hold the number of workers.

Examples:

  tprof sweep --frequencies all --workers 1,2,4 --repeat 3 cholesky

  tprof sweep --frequencies 1.6GHz..3.6GHz:5 -o night blur.py --threads {workers}

  tprof sweep --workers 1,2,4,8 -m mypackage.job
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "sweep",
        help=_HELP,
        context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    )(sweep)


def sweep(  # noqa: PLR0913 - one parameter an option
    words: Annotated[
        list[str], typer.Argument(metavar="(BENCHMARK | SCRIPT | -m MODULE) [ARGS]...", help="The program.")
    ],
    frequencies: Annotated[
        str | None,
        typer.Option(
            metavar="LIST|LOW..HIGH:N",
            help="GHz where no unit is given; all (the default, if they can be set); or none.",
        ),
    ] = None,
    workers: Annotated[
        str | None, typer.Option(metavar="LIST", help="Such as 1,2,4; by default powers of two up to all processors.")
    ] = None,
    repeat: Annotated[int, typer.Option(metavar="N", help="Runs of each setting.")] = 1,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where everything goes: NAME.sweep by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order of runs; drawn and printed by default.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the folder's sweep; also done unasked where it is unfinished.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier sweep.")] = False,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Go on although the program or the machine is another now.")
    ] = False,
    settle: Annotated[
        float, typer.Option(metavar="SECONDS", help="Wait at most so long for a steady temperature; 0: not.")
    ] = 60.0,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="End a run that takes longer; it counts as failed.")
    ] = None,
    size: Annotated[str, typer.Option(help="Of a benchmark: small or paper.")] = "small",
    task: Annotated[
        list[str] | None, typer.Option("--task", metavar="PATTERN", help="Make tasks, as for tprof run.")
    ] = None,
    energy: Energy = "auto",
    counters: Counters = "auto",
    watts: Watts = None,
    model: Annotated[
        str, typer.Option(help="auto, fitted, linear, cputime, ipc or fesc; one for all runs compares best.")
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Prepare, run, and print where the files are."""
    from tprof.benchmarks.sweep import Order, prepare
    from tprof.benchmarks.sweep.order import program, read_workers
    from tprof.benchmarks.sweep.sweep_tables import points_of

    how = {"energy": energy, "watts": watts, "counters": counters, "model": model}
    what = program(words, size=size, tasks=tuple(task or ()), **how)
    file = _check(what)
    order = Order(
        what=what,
        folder=output or Path(f"{what.title}.sweep"),
        frequencies=frequencies,
        workers=read_workers(workers) if workers else _usual_workers(),
        repeats=repeat,
        seed=seed,
        resume=resume,
        overwrite=overwrite,
        settle_s=settle,
        timeout_s=timeout,
        file=file,
        accept_changes=accept_changes,
    )
    prepared = prepare(order)
    signal.signal(signal.SIGTERM, _leave)
    with SweepProgress(prepared) as progress:
        try:
            files = prepared.run(progress)
        except (KeyboardInterrupt, SystemExit) as stop:
            progress.interrupted()
            sys.exit(stop.code if isinstance(stop, SystemExit) else INTERRUPTED)
    if as_json:
        rows = prepared.rows()
        dump({"files": list(map(str, files)), "seed": prepared.plan.seed, "rows": rows, "points": points_of(rows)})
    else:
        print(*files, sep="\n")
    if prepared.failures is not None:
        raise TprofError(prepared.failures)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """End in order, as after Ctrl-C: the run that is on is ended, and frequencies are restored."""
    del frame
    sys.exit(128 + number)


def _check(what: What) -> Path | None:
    """Refuse what every run would refuse, before the first; returns the program's file, if it is one."""
    from tprof.analysis.models.choice import NAMES
    from tprof.launch.pattern import parse_patterns
    from tprof.launch.program import Program, find_program
    from tprof.sensors.choose import choose, sysroot

    if what.model not in NAMES:
        raise UsageError(f"--model must be one of {', '.join(NAMES)}, got {what.model!r}")
    parse_patterns(what.tasks)
    choose(what.energy, root=sysroot(), watts=what.watts)
    if what.kind == "benchmark":
        return None
    before = list(sys.path)
    main = find_program(Program(what.name, what.arguments, is_module=what.kind == "module"))
    sys.path[:] = before
    return Path(main.file) if os.path.isfile(main.file) else None


def _usual_workers() -> tuple[int, ...]:
    from tprof.benchmarks.machine_description import usable_cpus

    most = usable_cpus()
    return tuple(sorted({1 << power for power in range(most.bit_length()) if 1 << power <= most} | {most}))
