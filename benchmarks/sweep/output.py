"""The files of a sweep: tables after each run, facts, warnings and page after each round and at the end.

Warnings of runs that differ only in figures are one sentence with the range of each figure.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.machine_description import describe_machine

from tprof.errors import TprofError
from tprof.sensors.choose import sysroot
from tprof.sensors.powercap import SIMULATED
from tprof.trace.plain_values import counted
from tprof.trace.user_files import UnreadableError, read_json

from .folder import FILES, POINTS
from .frequencies import clamped
from .plan import MOST_BYTES, write_json
from .sweep_page import write_sweep_page
from .sweep_tables import POINT_COLUMNS, Row, points_of, rows_without_setting, write_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis import Profile

    from tprof.frequency import Policy

    from .plan import Plan, Point

HAD_PROCESSOR = 0.9
"""If simulated tasks run for less than this part of their time, the host dominates their times."""
OUTSIDE = 0.05
"""Part of the program's joules outside tasks above which a run gets a warning."""
OUTSIDE_TASKS = ("runtime", "spin", "unidentified")
FIGURE = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?= ?%| (?:±|[WJs]\b))")
"""A number with its unit; numbers in names, statuses and settings distinguish runs and stay."""


def write_output(
    folder: Path, plan: Plan, policies: Sequence[Policy], rows: Sequence[Row], *, page: bool
) -> tuple[Path, ...]:
    """Write the tables, with `page` all files, and return their paths. Raises TprofError."""
    runs, points, facts, view = (folder / name for name in FILES)
    means = points_of(rows)
    write_csv(runs, rows)
    write_csv(points, means, POINT_COLUMNS)
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
    """Return whose /sys describes the machine: a simulated one has frequencies and joules, but no processor."""
    return Path("/") if is_simulated() else sysroot()


def is_simulated() -> bool:
    """Return whether frequencies and joules are those of a simulation."""
    return (sysroot() / SIMULATED).exists()


def _named(names: Sequence[str], most: int = 3) -> str:
    rest = f" and {counted(len(names) - most, 'more run')}" if len(names) > most else ""
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
        raise TprofError(f"cannot read {path} of a run that was done: {reason}; begin anew with --overwrite") from error


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def host_warnings(profile: Profile) -> list[str]:
    """Return a warning if the tasks of a simulated machine waited for a processor.

    The load before a run would be a worse measure: it includes the run before, but no later load.
    """
    own_s = float(profile.own_s.sum())
    cpu_s = float(profile.tasks["cpu_s"].sum(min_count=1))
    if not cpu_s < HAD_PROCESSOR * own_s:
        return []
    part = f"tasks had a processor for {cpu_s / own_s:.0%} of their time only"
    return [f"{part}: this host is too busy for the simulated machine's times to be trusted"]


def outside_tasks(profile: Profile) -> list[str]:
    """Return a warning if more than `OUTSIDE` of the program's joules are outside tasks.

    The sentence has no figure, so that a page can name all such runs together.
    """
    if not any(one.counted for one in profile.quanta):
        return []  # without a sensor there are no joules to miss
    accounts = profile.counted_accounts
    tasks_j, outside_j = accounts["tasks_j"], sum(accounts[f"{name}_j"] for name in OUTSIDE_TASKS)
    if not (tasks_j > 0 and outside_j > OUTSIDE * (tasks_j + outside_j)):
        return []
    where = "imports and code between tasks, see `runtime` in tprof summary"
    return [f"more than {OUTSIDE:.0%} of the program's joules are in no task's row ({where})"]


def without_figures(text: str) -> str:
    """Return the common form of sentences that differ only in figures."""
    return FIGURE.sub("#", text)


def merged_range(texts: Sequence[str]) -> str:
    """Return the first of sentences that are equal `without_figures`, with the range of each figure over all."""
    ranges = iter([_range(figures) for figures in zip(*map(FIGURE.findall, texts), strict=True)])
    return FIGURE.sub(lambda found: _bracketed(next(ranges), found), texts[0])


def _range(figures: Sequence[str]) -> str:
    low, high = min(figures, key=float), max(figures, key=float)
    return low if float(low) == float(high) else f"{low} … {high}"


def _bracketed(figure: str, found: re.Match[str]) -> str:
    """Return a range in brackets if an error is beside it, which would otherwise seem to belong to its end only."""
    beside = "±" in found.string[max(found.start() - 2, 0) : found.end() + 2]
    return f"({figure})" if beside and "…" in figure else figure
