"""`scripts/bench NAME`: measure, from a checkout, what tprof itself costs and how right it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tprof.benchmarks import measured_figures
from tprof.benchmarks.programs.outcome import check_size, check_workers

from benchmarks.validation.command import validate
from tprof.cli.entry import errors_as_lines
from tprof.cli.options import AsJson
from tprof.cli.progress import status
from tprof.cli.render import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MEASUREMENTS = {
    "budget": ("overhead.budget_reaction", "How soon a budget acts once its joules are used up, and what it costs."),
    "overhead": ("overhead.recording_cost", "What recording costs, beside cProfile and others."),
    "analysis": ("overhead.attribution_speed", "How fast 5 million samples are attributed, and in how much memory."),
    "hosts": (
        "overhead.hosts_speed",
        "How long the profile of 64 hosts takes, and its memory; --size paper: large ones.",
    ),
    "laws": ("overhead.laws_speed", "How long a million evaluations of each analytic model take."),
    "runtime": ("overhead.runtime_cost", "What a task on the runtime costs, beside thread pools, dask and C++."),
    "cluster": (
        "overhead.cluster_cost",
        "What a task of the runtime costs on a dask cluster, beside the same by hand.",
    ),
    "dask": ("overhead.dask_cost", "What recording a dask cluster costs; the memory that brings traces home."),
    "advise": (
        "validation.advice_quality",
        "How good tprof advise is; TPROF_PUBLIC_DATA names a folder of public data.",
    ),
    "policy": ("overhead.policy_quality", "What policies make of the paper's tasks (simulated), and what they cost."),
}
"""Name, its module of this package with `measure`, `FULL` and `QUICK`, and what it measures."""


def main() -> None:
    """Run the command that was typed."""
    app = typer.Typer(
        add_completion=False, no_args_is_help=True, rich_markup_mode=None, help="Measure tprof itself, from a checkout."
    )
    app.command("validate")(validate)
    for name, (_, what) in MEASUREMENTS.items():
        app.command(name, help=what)(_command(name))
    with errors_as_lines():
        typer.main.get_command(app)(prog_name="scripts/bench")


def _command(name: str) -> Callable[..., None]:
    def command(
        size: Annotated[str, typer.Option(help="small or paper.")] = "small",
        workers: Annotated[int | None, typer.Option(metavar="N", help="Threads; default: one a processor.")] = None,
        *,
        quick: Annotated[bool, typer.Option("--quick", help="See that it works; no figures to quote.")] = False,
        as_json: AsJson = False,
    ) -> None:
        module = import_module(f"benchmarks.{MEASUREMENTS[name][0]}")
        extent = _extent(module, size, workers, quick=quick)
        with status(f"measuring {name}; this takes a few minutes"):
            result: dict[str, Any] = module.measure(extent)
        if as_json:
            dump({name: result})
            return
        _print(name, result)
        if quick:
            print("quick: too short for figures to quote")

    return command


def _extent(module: Any, size: str, workers: int | None, *, quick: bool) -> Any:
    """Return how much is measured; only some measurements work at the paper's size or on workers."""
    check_size(size)
    extent = module.QUICK if quick else getattr(module, "PAPER", module.FULL) if size == "paper" else module.FULL
    if workers is None or not hasattr(extent, "workers"):
        return extent
    check_workers(workers)
    return replace(extent, workers=workers)


def _print(name: str, result: Mapping[str, Any]) -> None:
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 160)
    table = Table(title=f"scripts/bench {name}", title_justify="left", caption=measured_figures.heading(result))
    table.add_column("what", overflow="fold")
    for heading in ("median", "rounds from … to", "unit", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    table.add_column("note", overflow="fold")
    for row in measured_figures.rows(result):
        met = {True: "met", False: "MISSED", None: ""}[row.met]
        table.add_row(row.name, row.value, row.spread, row.unit, row.target, met, row.note)
    console.print(table)


if __name__ == "__main__":
    main()
