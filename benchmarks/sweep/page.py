"""The page of a sweep: figure 11 and the table, in one file that needs no network."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.report.embed import Parts, embed, write_page
from tprof.benchmarks.machine import machine_sentence

from .response import panels
from .summary import FIGURES, ends, points_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .plan import Plan

    Row = Mapping[str, Any]


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
    swept = "workers only" if plan.frequencies_hz is None else _counted(len(plan.frequencies_hz), "frequency")
    each = "once each" if plan.repeats == 1 else f"each {plan.repeats} times"
    workers = ", ".join(map(str, plan.workers))
    return (
        f"{len(plan.done)} of {_counted(len(plan.points), 'run')}: {swept}, "
        f"{workers} worker{'' if plan.workers == (1,) else 's'}, {each}, in the order of seed {plan.seed}."
    )


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} frequencies" if noun == "frequency" else f"{count} {noun}s"


def _shown(row: Row) -> dict[str, Any]:
    """Return a row of the table: each figure with half its interval as a part of it, None without repeats."""
    figures = {name: {"value": row[name], "part": _part(row, name)} for name in FIGURES}
    return {**row, "task": row["task"] or "whole program", **figures}


def _part(row: Row, name: str) -> float | None:
    high = row[ends(name)[1]]
    return None if high is None or not row[name] else high / row[name] - 1
