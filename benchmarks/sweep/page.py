"""The page of a sweep: figure 11 and the table, in one file that needs no network."""

from __future__ import annotations

from importlib.resources import files
from statistics import median
from typing import TYPE_CHECKING, Any

from tprof.analysis.report.embed import Parts, embed, write_page
from tprof.benchmarks.machine import machine_sentence

from .response import panels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .plan import Plan

    Row = Mapping[str, Any]

COLUMNS = ("energy_j", "time_s", "power_w", "edp_js", "ed2p_js2")


def write_sweep_page(path: Path, plan: Plan, rows: Sequence[Row], said: Mapping[str, Any]) -> None:
    """Write the page. Raises TprofError."""
    room = files(__package__)
    body, script, style = ((room / f"sweep.{kind}").read_text("utf-8") for kind in ("html", "js", "css"))
    write_page(path, embed(Parts("tprof sweep", body, script, page_data(plan, rows, said), style)))


def page_data(plan: Plan, rows: Sequence[Row], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows, as plain values."""
    done = sum(point.state == "done" for point in plan.points)
    return {
        "title": plan.what.title,
        "machine": machine_sentence(dict(said["machine"])),
        "how": _how(plan, done),
        "qualities": said["qualities"],
        "sensors": said["sensors"],
        "warnings": said["warnings"],
        "panels": panels(rows) if rows else [],
        "table": _medians(rows),
    }


def _how(plan: Plan, done: int) -> str:
    swept = "workers only" if plan.frequencies_hz is None else f"{len(plan.frequencies_hz)} frequencies"
    each = "once each" if plan.repeats == 1 else f"each {plan.repeats} times"
    return (
        f"{done} of {len(plan.points)} runs: {swept}, workers {', '.join(map(str, plan.workers))}, {each}, "
        f"in the order of seed {plan.seed}."
    )


def _medians(rows: Sequence[Row]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, int | None, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["setting"], row["workers"]), []).append(row)
    return [
        {
            "task": task or "whole program",
            "setting": setting,
            "workers": workers,
            "instances": group[0]["instances"],
            "repeats": len(group),
            **{name: _median([row[name] for row in group if row[name] is not None]) for name in COLUMNS},
        }
        for (task, setting, workers), group in groups.items()
    ]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
