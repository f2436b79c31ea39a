"""`tprof bench`: profile a benchmark program, or measure what tprof itself costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

MEASUREMENTS = {
    "overhead": "what recording costs: a sample, a task, the import, the sensor thread; beside cProfile and others",
    "analysis": "how fast 5 million samples are attributed, beside np.argsort; memory; size of the report",
}
_HELP = """Profile a benchmark program, or measure what tprof itself costs.

Examples:

  tprof bench --list

  tprof bench blackscholes --size paper

  tprof bench overhead
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench", help=_HELP, rich_help_panel="Measure")(bench)


def bench(  # noqa: PLR0913 - one parameter an option
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Programs, overhead, analysis.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say what there is; run nothing.")] = False,  # noqa: FBT002
    size: Annotated[str, typer.Option(help="small or paper.")] = "small",
    workers: Annotated[int | None, typer.Option(help="Threads; default: one a processor.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where sessions and reports go.")
    ] = Path(),
    energy: Annotated[str, typer.Option(help="auto, perf, powercap, estimate or none.")] = "auto",
    watts: Annotated[str | None, typer.Option(metavar="IDLE,PER_CORE", help="Watts for the estimate.")] = None,
    quick: Annotated[  # noqa: FBT002 - typer's default
        bool, typer.Option("--quick", help="overhead, analysis: see that it works; no figures to quote.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Run what is named, one after the other."""
    from tprof.benchmarks import PROGRAMS

    if listing:
        _list(as_json=as_json)
        return
    if not names:
        message = f"name what to run: {', '.join([*PROGRAMS, *MEASUREMENTS])}, or --list"
        raise UsageError(message)
    for name in names:
        if name not in PROGRAMS and name not in MEASUREMENTS:
            message = f"there is no benchmark {name!r}: take {', '.join([*PROGRAMS, *MEASUREMENTS])}"
            raise UsageError(message)
    said = {}
    for name in names:
        if name in MEASUREMENTS:
            said[name] = _measure(name, quick=quick, quiet=as_json)
        else:
            options = {"energy": energy, "watts": watts}
            said[name] = _profile(name, size, workers, output, options, quiet=as_json)
    if as_json:
        from .tables import dump

        dump(said)


def _list(*, as_json: bool) -> None:
    from tprof.benchmarks import PROGRAMS

    from .tables import dump

    if as_json:
        dump(
            {
                name: {
                    "description": program.description,
                    "inputs": dict(program.inputs),
                    "instances": {size: program.instances(size) for size in program.inputs},
                }
                for name, program in PROGRAMS.items()
            }
        )
        return
    for name, program in PROGRAMS.items():
        print(f"{name}: {program.description}")
        for size, what in program.inputs.items():
            instances = ", ".join(f"{count:,} {task}" for task, count in program.instances(size).items())
            print(f"  --size {size}: {what}; tasks: {instances}")
    for name, what in MEASUREMENTS.items():
        print(f"{name}: {what}")


def _profile(
    name: str, size: str, workers: int | None, folder: Path, options: Mapping[str, Any], *, quiet: bool
) -> dict[str, Any]:
    import tprof
    from tprof.benchmarks import PROGRAMS

    from .tables import as_plain, show

    folder.mkdir(parents=True, exist_ok=True)
    session = folder / f"{name}.tprof"
    recording = tprof.record(session, overwrite=True, **options)
    outcome = PROGRAMS[name].run(size, workers, during=recording)
    profile = recording.profile()
    report = session.with_suffix(".html")
    profile.to_html(report)
    if not quiet:
        print(outcome.sentence())
        show(profile, sys.stdout)
        print(f"session: {session}\nreport: {report}")
    return {"outcome": outcome.sentence(), "session": str(session), "report": str(report), **as_plain(profile)}


def _measure(name: str, *, quick: bool, quiet: bool) -> dict[str, Any]:
    from importlib import import_module

    from rich.console import Console

    benchmark = import_module(f"tprof.benchmarks.micro.{name}")
    effort = benchmark.QUICK if quick else benchmark.FULL
    with Console(file=sys.stderr).status(f"measuring {name}; this takes a minute or two"):
        result: dict[str, Any] = benchmark.measure(effort)
    if not quiet:
        _print(name, result)
        if quick:
            print("quick: too short for figures to quote")
    return result


def _print(name: str, result: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from tprof.benchmarks import present

    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 160)
    table = Table(title=f"tprof bench {name}", title_justify="left", caption=present.heading(result))
    table.add_column("what", overflow="fold")
    for heading in ("median", "rounds from … to", "unit", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("note", overflow="fold")
    for row in present.rows(result):
        met = {True: "met", False: "MISSED", None: ""}[row.met]
        table.add_row(row.name, row.value, row.spread, row.unit, row.target, met, row.note)
    console.print(table)
