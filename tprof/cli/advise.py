"""`tprof advise`: from measured operating points, where each task and the program should run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from tprof.analysis.operating_points.advice import Advice
    from tprof.analysis.operating_points.algorithm import SizedAlgorithm
    from tprof.analysis.operating_points.choice import Objective

_HELP = """Say at what frequency or power limit and on how many workers each task and the program should run.

TABLE is what tprof sweep wrote (or its folder), or a CSV with the columns task, setting, setting_unit (Hz or W),
workers, time_s and energy_j. Points that were not run are predicted, with their uncertainty.

Examples:

  tprof advise cholesky.sweep --by edp

  tprof advise points.csv --max-slowdown 5% -o advice.html

  tprof advise gpu.csv --settings 100W..250W:7 --json

  tprof advise sums.sweep --algorithm addition --size 1e8 --workers 8,16,32
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("advise", help=_HELP, rich_help_panel="Predict and check")(advise)


def advise(  # noqa: PLR0913 - one parameter an option
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A sweep or its table, or such a CSV.")],
    by: Annotated[str, typer.Option(help="energy, edp or ed2p.")] = "energy",
    max_slowdown: Annotated[
        str | None, typer.Option(metavar="PART", help="The most extra time against the fastest point, such as 5%.")
    ] = None,
    max_power: Annotated[
        str | None, typer.Option(metavar="WATTS", help="The most mean power, such as 80 or 80W.")
    ] = None,
    sure: Annotated[
        str,
        typer.Option(metavar="PART", help="How surely these conditions are to be kept: on what part of the curves."),
    ] = "95%",
    task: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this task; may be repeated; '' is the program.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All tasks, not only those of most energy.")] = False,  # noqa: FBT002 - typer's default
    settings: Annotated[
        str | None, typer.Option(metavar="LIST|LOW..HIGH:N", help="What can be set, such as 1.6GHz..3.3GHz:18.")
    ] = None,
    workers: Annotated[str | None, typer.Option(metavar="LIST", help="Numbers of workers that can be had.")] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the program is, by tprof scaling's name: its counts predict."),
    ] = None,
    size: Annotated[float | None, typer.Option(metavar="N", help="Of the algorithm, as it was run.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Draw points, front and choice.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Read the table, advise, print."""
    from tprof.analysis.operating_points.table import read
    from tprof.analysis.report.advice_page import write_page

    from .advise_text import advice_tables
    from .operating_words import counts, settings_in
    from .tables import dump, show_tables

    objective, named = _objective(by, max_slowdown, max_power, sure), _algorithm(algorithm, size)
    rows = read(table)
    choices = {
        "settings": () if settings is None else settings_in(settings, str(rows["setting_unit"].iloc[0])),
        "workers": counts(workers),
        "tasks": tuple(task or ()) if task or named or every else _significant(rows),
    }
    advices = _advised(rows, objective, named, choices)
    if output is not None:
        write_page(advices, output)
    if as_json:
        dump([advice.as_plain() for advice in advices])
    else:
        show_tables(advice_tables(advices), sys.stdout)


def _significant(rows: pd.DataFrame) -> tuple[str, ...]:
    from tprof.analysis.operating_points.measured import significant_tasks

    from .tables import percent

    names, left, part_of_energy = significant_tasks(rows)
    if left:
        print(
            f"tprof: {left} tasks with the least energy are left out, {percent(part_of_energy)} of that of all tasks; "
            "--all advises on them, too",
            file=sys.stderr,
        )
    return tuple(names)


def _advised(
    rows: pd.DataFrame, objective: Objective, named: SizedAlgorithm | None, choices: dict[str, Any]
) -> list[Advice]:
    from rich.console import Console
    from rich.progress import Progress

    from tprof.analysis.operating_points.advice import advise as advise_on

    with Progress(console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("advising")

        def done(count: int, total: int) -> None:
            progress.update(bar, completed=count, total=total)

        return advise_on(rows, objective, algorithm=named, done=done, **choices)


def _algorithm(name: str | None, size: float | None) -> SizedAlgorithm | None:
    from tprof.analysis.operating_points.algorithm import sized_algorithm

    if (name is None) != (size is None):
        raise UsageError("--algorithm and --size go together: the name of what was run and its size")
    return None if name is None or size is None else sized_algorithm(name, size)


def _objective(by: str, max_slowdown: str | None, max_power: str | None, sure: str) -> Objective:
    from tprof.analysis.operating_points.choice import Objective

    from .operating_words import part, watts

    return Objective(
        by,
        None if max_slowdown is None else part("--max-slowdown", max_slowdown),
        None if max_power is None else watts("--max-power", max_power),
        part("--sure", sure),
    )
