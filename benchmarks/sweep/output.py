"""The files of a sweep: tables after each run, facts and page after each round and at the end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.machine import describe_machine

from tprof.errors import TprofError
from tprof.sensors.choose import sysroot
from tprof.sensors.powercap import SIMULATED
from tprof.trace.user_files import UnreadableError, read_json

from . import summary
from .folder import FILES, POINTS
from .frequencies import clamped
from .page import write_sweep_page
from .plan_file import MOST_BYTES, write_json
from .similar_warnings import merged_range, without_figures
from .table import Row, rows_without_setting, write_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.frequency import Policy

    from .plan import Plan, Point


def write_output(
    folder: Path, plan: Plan, policies: Sequence[Policy], rows: Sequence[Row], *, page: bool
) -> tuple[Path, ...]:
    """Write the tables, with `page` all files, and return their paths. Raises TprofError."""
    runs, points, facts, view = (folder / name for name in FILES)
    means = summary.points_of(rows)
    write_csv(runs, rows)
    write_csv(points, means, summary.COLUMNS)
    if not page:
        return runs, points
    facts_plain = describe(plan, policies)
    write_json(facts, facts_plain)
    write_sweep_page(view, plan, rows, facts_plain)
    return runs, points, facts, view


def describe(plan: Plan, policies: Sequence[Policy]) -> dict[str, Any]:
    """Return plan, machine, seed and what a reader must know, as plain values."""
    models = sorted({point.facts["model"] for point in plan.done})
    return {
        "plan": plan.as_plain(),
        "seed": plan.seed,
        "finished": len(plan.done) == len(plan.points),
        "machine": describe_machine(_described()),
        "policies": [
            {
                "name": policy.folder.name,
                "cpus": list(policy.cpus),
                "driver": policy.driver,
                "governor": policy.governor,
                "lowest_hz": policy.range.lowest_hz,
                "highest_hz": policy.range.highest_hz,
                "base_hz": policy.base_hz,
            }
            for policy in policies
        ],
        "qualities": sorted({point.facts["quality"] for point in plan.done}),
        "models": models,
        "sensors": sorted({point.facts["sensor"] for point in plan.done}),
        "warnings": [*_of_all(plan, policies, models), *_of_runs(plan)],
    }


def _of_all(plan: Plan, policies: Sequence[Policy], models: Sequence[str]) -> list[str]:
    warnings = ["frequencies and joules are those of a simulated machine"] if is_simulated() else []
    if len(models) > 1:
        warnings.append(
            f"joules of tasks were shared by several models ({', '.join(models)}): give --model one that suits all runs"
        )
    return [*warnings, *plan.changes, *clamped(policies, plan.frequencies_hz or ())]


def _of_runs(plan: Plan) -> list[str]:
    about: dict[str, list[tuple[str, str]]] = {}
    for point in plan.done:
        for text in point.facts["warnings"]:
            about.setdefault(without_figures(text), []).append((point.name, text))
    for point in plan.failed:
        text = f"failed: {point.facts['why']}"
        about.setdefault(text, []).append((point.name, text))
    return [
        f"{_named(list(dict.fromkeys(name for name, _ in named)))}: {merged_range([text for _, text in named])}"
        for named in about.values()
    ]


def _described() -> Path:
    """Return whose /sys describes the machine: a simulated one lends frequencies and joules, no processor."""
    return Path("/") if is_simulated() else sysroot()


def is_simulated() -> bool:
    """Tell whether frequencies and joules are those of a simulation."""
    return (sysroot() / SIMULATED).exists()


def _named(names: Sequence[str], most: int = 3) -> str:
    rest = f" and {len(names) - most} more runs" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def write_rows(folder: Path, point: Point, rows: Sequence[Row]) -> None:
    """Keep a run's rows beside its session: a sweep that goes on need not analyse it again. Raises TprofError."""
    known = [{name: None if _is_nan(value) else value for name, value in row.items()} for row in rows]
    write_json(folder / POINTS / f"{point.name}.json", known)


def read_rows(folder: Path, point: Point) -> list[Row]:
    """Return a run's rows. Raises TprofError."""
    path = folder / POINTS / f"{point.name}.json"
    try:
        return rows_without_setting(read_json(path, MOST_BYTES))
    except (UnreadableError, ValueError) as error:
        reason = error.reason if isinstance(error, UnreadableError) else error
        message = f"cannot read {path} of a run that was done: {reason}; begin anew with --overwrite"
        raise TprofError(message) from error


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
