"""`tprof compare`: what changed between runs, task by task, with the chance that it is noise."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.analysis.compare.figure_texts import (
    NO_BOUND,
    NOISE,
    NOT_DECIDED,
    WITHIN_NOISE,
    chance,
    change,
    counts_of,
    is_at_most,
    is_unbounded,
    pair,
    result,
    signed,
    total,
)
from tprof.analysis.quantities import AT_MOST_NOTE
from tprof.errors import UsageError

from .footprint import rates_of
from .options import AsJson, Between, Co2, Model, Price, read_between
from .render import DASH, Column, clean, dump, filled, fitting, lines_of, quantity, reason_lines, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    import pandas as pd

    from tprof.analysis.compare import Comparison

    Row = Mapping[Any, Any]

VERSUS = "vs"
LEAST_SHARE = 0.01
"""A task without a clear difference is left out of the table if it takes a smaller part of the joules on both sides."""
TASK = "task"
_COMPARED = ("energy_mean", "duration_mean")
_ARROW = "→"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(  # noqa: PLR0913 - one parameter an option
    sessions: Annotated[
        list[Path],
        typer.Argument(metavar="A B | A... vs B...", help="Two sessions or jobs, or several runs a side, vs between."),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Write a page.")] = None,
    by: Annotated[
        str, typer.Option(metavar="NAME,…", help="Compare tasks, or sums by host or by labels, such as rank.")
    ] = TASK,
    model: Model = "auto",
    between: Between = None,
    co2: Co2 = None,
    price: Price = None,
    everything: Annotated[bool, typer.Option("--all", help="Show tasks without a clear difference too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what changed from A to B, worst first. Example: tprof compare before-*.tprof vs after-*.tprof."""
    from tprof.comparison import compare as compared

    from .progress import bar

    a, b = sides_of(sessions)
    rates = rates_of(co2, price)
    with bar("reading") as progress:
        found = compared(a, b, model=model, by=_groups_of(by), progress=progress, **read_between(between))
    if output is not None:
        found.to_html(output)
    if as_json:
        dump({**found.as_plain(), **({} if rates is None else {"footprint": found.footprints(rates)})})
        return
    show(found, sys.stdout, everything=everything)
    if rates is not None:
        print(filled(clean(found.footprint_text(rates)), width_of(sys.stdout)))
    if output is not None:
        print(output)


def _groups_of(by: str) -> list[str]:
    """Return the names of host or labels; none if tasks are compared. Raises UsageError."""
    from .summary_by import names_of

    names = names_of(by)
    if names == [TASK]:
        return []
    if TASK in names:
        raise UsageError("--by task compares tasks, so it stands alone: leave it out beside host or labels")
    return names


def sides_of(sessions: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the sessions of both sides. Raises UsageError if they are not two, or not divided once."""
    words = [str(session) for session in sessions]
    if VERSUS not in words and len(sessions) == 2:
        return [sessions[0]], [sessions[1]]
    if words.count(VERSUS) != 1 or VERSUS in (words[0], words[-1]):
        raise UsageError(
            "compare takes two sessions, or runs of both sides with vs between: tprof compare A1 A2 vs B1 B2"
        )
    middle = words.index(VERSUS)
    return list(sessions[:middle]), list(sessions[middle + 1 :])


def show(comparison: Comparison, stream: TextIO, *, everything: bool = False) -> None:
    """Print the answer, tasks or groups, totals, what stands behind them and warnings.

    Parameters
    ----------
    comparison : what is shown
    stream : to which it is printed: a terminal gets what fits into its width, anything else the whole
    everything : whether small tasks without a clear difference are shown too
    """
    from tprof.analysis.compare.comparison import ONE_RUN, side_name
    from tprof.analysis.compare.headline import headline

    info = comparison.info
    width, label = width_of(stream), f" ({info['quality']})"
    names = [clean(side_name(side)) for side in (comparison.a, comparison.b)]
    answer = [filled(clean(text), width) for text in headline(comparison).sentences]
    answer = [*reason_lines(info["unread"], width), *answer]
    print(f"A: {names[0]}", f"B: {names[1]}", "", *answer, "", sep="\n", file=stream)
    shown, left_out = _chosen(comparison, everything=everything)
    title = f"By {' and '.join(clean(name) for name in info['grouped_by'])}" if info["grouped_by"] else "Tasks"
    print(f"{title}{label}, sure changes first", file=stream)
    columns = _columns(shown, info, width)
    print(
        *lines_of(clean(str(shown.index.name)), [clean(name) for name in shown.index], columns, width),
        *([_left_out(left_out)] if left_out else ()),
        "",
        *_totals(comparison, label, width),
        sep="\n",
        file=stream,
    )
    # The answer holds what one run a side leaves open.
    lines = [*legend(comparison, shown), *(f"warning: {clean(text)}" for text in info["warnings"] if text != ONE_RUN)]
    print("", *(filled(text, width) for text in lines), sep="\n", file=stream)


def _chosen(comparison: Comparison, *, everything: bool) -> tuple[pd.DataFrame, int]:
    """Return the tasks to show, and how many are left out."""
    tasks = comparison.tasks
    if everything or comparison.info["by"] != "energy_mean_j":
        return tasks, 0
    shares = [tasks[f"energy_{side}_j"] / tasks[f"energy_{side}_j"].sum() for side in "ab"]
    is_small = ~((shares[0] >= LEAST_SHARE) | (shares[1] >= LEAST_SHARE))
    left_out = is_small & tasks[["change", "total_change"]].isin(["unclear", "unknown"]).all(axis=1)
    return tasks[~left_out], int(left_out.sum())


def _left_out(count: int) -> str:
    return f"and {count:,} more, each below 1 % of the joules and without a clear difference: --all shows them"


def _totals(comparison: Comparison, label: str, width: int | None) -> list[str]:
    totals = comparison.totals.rename(index={"energy_j": "all energy", "program_j": "program", "duration_s": "time"})
    totals = totals.loc[["program", *(name for name in totals.index if name != "program")]]
    totals = totals[(totals[["a", "b"]].fillna(0.0) != 0).any(axis=1)]
    rows: list[Row] = list(totals.to_dict("records"))
    units = ["s" if name == "time" else "J" for name in totals.index]
    pairs = list(zip(rows, units, strict=True))
    columns = [
        Column("A", tuple(_known(row["a"], unit) for row, unit in pairs), 5),
        Column("B", tuple(_known(row["b"], unit) for row, unit in pairs), 5),
        Column("difference", tuple(signed(row["difference"], unit) for row, unit in pairs), 3),
        Column("change (95 %)", tuple(change(row, "") for row in rows), 4),
    ]
    if totals["chance"].notna().any():
        columns.append(Column("noise", tuple(chance(row["chance"]) for row in rows), 2))
    names = [str(name).removesuffix("_j") for name in totals.index]
    return [f"Totals{label}", *lines_of("total", names, fitting(names, columns, width), width)]


def _columns(tasks: pd.DataFrame, info: Mapping[str, Any], width: int | None) -> list[Column]:
    """Return the columns that fit, with the figure on which tasks are judged first."""
    rows: list[Row] = list(tasks.to_dict("records"))
    by = info["by"]
    stem, time = by[:-2], "own_mean" if info["grouped_by"] else "duration_mean"
    judged = {
        "change (95 %)": [change(row, f"{stem}_") for row in rows],
        "noise": [chance(row[f"{stem}_noise"]) for row in rows],
    }
    results = {"result": [result(str(row["change"])) for row in rows]}
    cells: dict[str, list[str]] = {}
    if has_energy := by.startswith("energy"):
        each = "energy" if info["grouped_by"] else "energy each"
        cells |= {each: [pair(row, stem, "J") for row in rows], **results, **judged}
        cells["total"] = [total(row, is_judged=by == "energy_mean_j") for row in rows]
    cells["own time each" if info["grouped_by"] else "time each"] = [pair(row, time, "s") for row in rows]
    if not has_energy:
        cells |= {**results, **judged}
    cells["instances"] = [counts_of(row) for row in rows]
    if has_energy:
        cells["power"] = [pair(row, "power", "W") for row in rows]
    if not info["grouped_by"]:
        cells["time change (95 %)"] = [change(row, "duration_mean_") for row in rows]
        cells["own time"] = [pair(row, "own_mean", "s") for row in rows]
    cells["cores"] = [_places(row, "cores") for row in rows]
    if any(_is_known(row["frequency_a_hz"]) or _is_known(row["frequency_b_hz"]) for row in rows):
        cells["frequency"] = [pair(row, "frequency", "Hz") for row in rows]
    if any(len(row["packages_a"]) > 1 or len(row["packages_b"]) > 1 for row in rows):
        cells["packages"] = [_places(row, "packages") for row in rows]
    columns = [Column(heading, tuple(texts), len(cells) - use) for use, (heading, texts) in enumerate(cells.items())]
    return fitting([clean(name) for name in tasks.index], columns, width)


def _known(value: float, unit: str) -> str:
    return DASH if math.isnan(value) else quantity(float(value), unit)


def _is_known(value: Any) -> bool:
    return not math.isnan(float(value))


def _places(row: Row, name: str) -> str:
    """Write how many cores or packages a task ran on; both sides where these are not the same ones."""
    a, b = row[f"{name}_a"], row[f"{name}_b"]
    if a == b:
        return str(len(a)) if a else DASH
    return f"{len(a) or DASH} {_ARROW} {len(b) or DASH}"


def legend(comparison: Comparison, tasks: pd.DataFrame) -> list[str]:
    """Return what the chance of noise is and how it was found, and the words of the tasks that are shown."""
    within = "; between these two runs only" if comparison.info["within_run"] else ""
    lines = [f"{NOISE}{within} ({comparison.info['method']})"]
    if (tasks["change"] == "unclear").any():
        lines.append(WITHIN_NOISE)
    rows: list[Row] = list(tasks.to_dict("records"))
    if any(is_at_most(row) for row in rows):
        lines.append(AT_MOST_NOTE)
    if any(is_unbounded(row, f"{stem}_") for row in rows for stem in _COMPARED):
        lines.append(NO_BOUND)
    if (tasks["change"] == "unknown").any():
        lines.append(NOT_DECIDED)
    return [*lines, comparison.info["model_why"]] if comparison.info["model_why"] else lines
