"""The files of a sweep: `sweep.csv` after each point, `sweep.json` and `sweep.html` at the end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.machine import describe_machine

from tprof.errors import TprofError
from tprof.sensors.choose import sysroot
from tprof.sensors.powercap import SIMULATED

from .page import write_sweep_page
from .plan import Plan, Point, write_json
from .table import Row, write_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.frequency import Policy

FILES = ("sweep.csv", "sweep.json", "sweep.html")
POINTS = "points"


def write_output(
    folder: Path, plan: Plan, policies: Sequence[Policy], rows: Sequence[Row], *, final: bool
) -> tuple[Path, ...]:
    """Write the files and return their paths. Raises TprofError."""
    table, facts, page = (folder / name for name in FILES)
    write_csv(table, rows)
    if not final:
        return (table,)
    said = describe(plan, policies)
    write_json(facts, said)
    write_sweep_page(page, plan, rows, said)
    return table, facts, page


def describe(plan: Plan, policies: Sequence[Policy]) -> dict[str, Any]:
    """Return plan, machine, seed and what a reader must know, as plain values."""
    about: dict[str, list[str]] = {}
    for point in plan.points:
        for text in point.facts.get("warnings", []):
            about.setdefault(text, []).append(point.name)
    models = sorted({point.facts["model"] for point in plan.points if point.facts})
    warnings = [f"{_named(names)}: {text}" for text, names in about.items()]
    if len(models) > 1:
        said = (
            f"joules of tasks were shared by several models ({', '.join(models)}): give --model one that suits all runs"
        )
        warnings.insert(0, said)
    if is_simulated():
        warnings.insert(0, "frequencies and joules are those of a simulated machine")
    return {
        "plan": plan.as_plain(),
        "seed": plan.seed,
        "finished": not plan.waiting,
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
        "qualities": sorted({point.facts["quality"] for point in plan.points if point.facts}),
        "models": models,
        "sensors": sorted({point.facts["sensor"] for point in plan.points if point.facts}),
        "warnings": warnings,
    }


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
        rows: list[Row] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        message = f"cannot read {path} of a run that was done: {error}; begin anew with --overwrite"
        raise TprofError(message) from error
    return rows


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
