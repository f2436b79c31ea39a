"""The page of a sweep: the paper's figure 11 and the table, in one file that needs no network.

Figure 11 has energy and time of each task over the frequency, against those at the highest.
"""

from __future__ import annotations

from importlib.resources import files
from statistics import mean
from typing import TYPE_CHECKING, Any

from tprof.analysis.report.embed import Parts, embed, write_page
from tprof.benchmarks.machine_description import machine_sentence

from tprof.trace.plain_values import counted

from .sweep_tables import FIGURES, Row, ends, points_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .plan import Plan

TASKS = 8
"""Drawn in each panel, those that take most energy; the table has all."""


def write_sweep_page(path: Path, plan: Plan, rows: Sequence[Row], description: Mapping[str, Any]) -> None:
    """Write the page. Raises TprofError."""
    package = files(__package__)
    body, script, style = ((package / f"sweep.{kind}").read_text("utf-8") for kind in ("html", "js", "css"))
    write_page(path, embed(Parts("tprof sweep", body, script, page_data(plan, rows, description), style)))


def page_data(plan: Plan, rows: Sequence[Row], description: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows, as plain values."""
    return {
        "title": plan.what.title,
        "machine": machine_sentence(dict(description["machine"])),
        "how": _how(plan),
        "qualities": description["qualities"],
        "sensors": description["sensors"],
        "warnings": description["warnings"],
        "panels": panels(rows) if rows else [],
        "table": [_shown(row) for row in points_of(rows)],
    }


def _how(plan: Plan) -> str:
    hz = plan.frequencies_hz
    swept = "workers only" if hz is None else counted(len(hz), "frequency", "frequencies")
    each = "once each" if plan.repeats == 1 else f"each {plan.repeats} times"
    workers = ", ".join(map(str, plan.workers))
    return (
        f"{len(plan.done)} of {counted(len(plan.points), 'run')}: {swept}, "
        f"{workers} worker{'' if plan.workers == (1,) else 's'}, {each}, in the order of seed {plan.seed}."
    )


def _shown(row: Row) -> dict[str, Any]:
    """Return a row of the table: each figure with half its interval as a part of it, None without repeats."""
    figures = {name: {"value": row[name], "part": _part(row, name)} for name in FIGURES}
    return {**row, "task": row["task"] or "whole program", **figures}


def _part(row: Row, name: str) -> float | None:
    high = row[ends(name)[1]]
    return None if high is None or not row[name] else high / row[name] - 1


def panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a panel for each number of workers; over workers instead, where no frequency was swept.

    A value is the mean over repeats of an instance's mean, as the paper takes it, with the least and the most of the
    repeats; all are divided by the value at the highest setting (frequency), or at the fewest workers. Means as in
    `points_of`: figure and table agree.
    """
    if any(row["setting"] is not None for row in rows):
        counts = sorted({row["workers"] for row in rows})
        return [
            _panel(counted(count, "worker"), "setting", [row for row in rows if row["workers"] == count])
            for count in counts
        ]
    return [_panel("over workers", "workers", rows)]


def _panel(title: str, over: str, rows: Sequence[Row]) -> dict[str, Any]:
    settings = sorted({row[over] for row in rows})
    reference = settings[-1] if over == "setting" else settings[0]
    tasks = sorted({row["task"] for row in rows}, key=lambda task: (task != "", -_energy_j(rows, task), task))
    kept = tasks[: TASKS + 1]
    return {
        "title": title,
        "over": "frequency" if over == "setting" else "workers",
        "left_out": len(tasks) - len(kept),
        "tasks": [
            {
                "name": task or "whole program",
                "x": settings,
                "energy": _curve([row for row in rows if row["task"] == task], over, settings, reference, "energy_j"),
                "time": _curve([row for row in rows if row["task"] == task], over, settings, reference, "time_s"),
            }
            for task in kept
        ],
    }


def _energy_j(rows: Sequence[Row], task: str) -> float:
    return sum(row["energy_j"] or 0.0 for row in rows if row["task"] == task)


def _curve(
    rows: Sequence[Row], over: str, settings: Sequence[int], reference: int, column: str
) -> dict[str, list[float | None]]:
    """Return value, least and most at each setting; None where it is not known."""
    known: dict[int, list[float]] = {setting: [] for setting in settings}
    for row in rows:
        if row[column] is not None and row["instances"]:
            known[row[over]].append(row[column] / row["instances"])
    unit = mean(known[reference]) if known[reference] else 0.0
    if unit <= 0:
        return {name: [None] * len(settings) for name in ("value", "least", "most")}
    kinds = {"value": mean, "least": min, "most": max}
    return {
        name: [take(known[setting]) / unit if known[setting] else None for setting in settings]  # type: ignore[operator]
        for name, take in kinds.items()
    }
