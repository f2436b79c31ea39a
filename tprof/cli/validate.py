"""`tprof validate`: how wrong each model is where the truth is known."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate", rich_help_panel="Measure")(validate)


def validate(
    seeds: Annotated[int | None, typer.Option(min=1, help="Simulated runs of each case; default 20.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="See that it works; no figures to quote.")] = False,  # noqa: FBT002
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Simulate a processor with known power, and print each model's error beside the others'."""
    from dataclasses import replace

    from rich.console import Console

    from tprof.benchmarks.validation import validate as validation

    from .tables import dump

    effort = validation.QUICK if quick else validation.FULL
    if seeds is not None:
        effort = replace(effort, seeds=seeds)
    with Console(file=sys.stderr).status("simulating") as status:
        result = validation.measure(effort, progress=lambda case: status.update(f"simulating: {case}"))
    if as_json:
        dump(result)
    else:
        _print(result)


def _print(result: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from .tables import percent

    effort = result["effort"]
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 160)
    title = f"Errors on a virtual processor ({effort['seeds']} runs of {effort['duration_s']:g} s, no hardware)"
    table = Table(title=title, title_justify="left")
    for heading in ("case", "task"):
        table.add_column(heading, overflow="fold")
    for heading in ("fitted", "cputime", "wall time", "95 % interval held", "one instance, fitted", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in result["rows"]:
        rows.setdefault((row["case"], row["task"]), {})[row["model"]] = row
    before = None
    for (case, task), models in rows.items():
        if before not in (None, case):
            table.add_section()
        fitted = models["fitted"]
        met = {True: " met", False: " MISSED", None: ""}[fitted["met"]]
        table.add_row(
            "" if case == before else case,
            task,
            *(percent(models[name]["mean_error"]) for name in ("fitted", "cputime", "wall time")),
            percent(fitted["coverage"]),
            percent(fitted["instance_error"]),
            "" if fitted["target"] is None else f"≤ {percent(fitted['target'])}{met}",
        )
        before = case
    console.print(table)
    console.print("Errors are root mean squares over runs of a task's mean energy above static power.")
