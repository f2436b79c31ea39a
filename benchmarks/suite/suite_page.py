"""The suite's report: `suite.html`, its figures in `suite.json`, and its tables as CSV.

The page has the paper's figures 5 to 10: energy over execution time of a program's instances, core by core; bounded in
size. The four dimensions that the paper's section 4.3 names are drawn besides: energy and time of each instance over
the run's time, and the cumulative distributions of both.
"""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.export import safe_cell
from tprof.analysis.report.density import sample
from tprof.analysis.report.embed import Parts, clean, embed, write_page
from tprof.benchmarks.machine_description import machine_sentence

from tprof.errors import TprofError
from tprof.trace.plain_values import counted

from .paper_programs import PAPER
from .suite_text import tables

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray
    from tprof.benchmarks.repeats import Runs

    from .suite_tables import Suite

    Rows = NDArray[np.intp]

FILES = ("suite.html", "suite.json", "suite-table5.csv", "suite-table6.csv")
POINTS = 6_000  # of a program, drawn three times; every input of the paper has fewer instances
LEAST = 100  # of a rare task, which a plain sample would lose
CURVE = 200  # points of a cumulative distribution
CORES = 16
WIDE = 20  # times the median: an instance so far out presses most points of linear axes into a corner


def write_suite(suite: Suite, folder: Path) -> tuple[Path, ...]:
    """Write the files of `FILES` into `folder` and return their paths.

    Raises
    ------
    TprofError
        If one of them cannot be written.
    """
    page, values, *csvs = (folder / name for name in FILES)
    write_page(page, render(suite))
    plain = suite.as_plain()
    try:
        values.write_text(json.dumps(clean(plain), allow_nan=False, indent=1) + "\n", "utf-8")
        for path, name in zip(csvs, ("table_5", "table_6"), strict=True):
            _write_rows(path, plain[name])
    except OSError as error:
        raise TprofError(
            f"cannot write the suite's tables to {folder}: {error.strerror}; choose another folder"
        ) from error
    return page, values, *csvs


def render(suite: Suite) -> str:
    """Return the page's HTML."""
    package = files(__package__)
    body, script, style = ((package / f"suite.{kind}").read_text("utf-8") for kind in ("html", "js", "css"))
    return embed(Parts("tprof suite report", body, script, page_data(suite), style))


def page_data(suite: Suite) -> dict[str, Any]:
    """Return what the page shows, as plain values without NaN."""
    first, repeats = suite.runs[0].outcome, len(suite.runs[0].outcomes)
    data: dict[str, Any] = clean(
        {
            "machine": machine_sentence(dict(suite.machine)),
            "how": f"Inputs: {first.size}. Workers: {first.workers}. Runs of each program: {repeats}.",
            "qualities": sorted({runs.quality for runs in suite.runs}),
            "sensors": sorted({str(runs.profile.info["sensor"]) for runs in suite.runs}),
            "tables": [vars(table) for table in tables(suite)],
            "warnings": _warnings(suite),
            "checks": [{"program": runs.program, "text": runs.outcome.sentence()} for runs in suite.runs],
            "figures": [panels(runs) for runs in suite.runs],
        }
    )
    return data


def _warnings(suite: Suite) -> list[str]:
    """Return each warning once, with the programs that it is about."""
    about: dict[str, list[str]] = {}
    for runs in suite.runs:
        for text in dict.fromkeys(text for profile in runs.profiles for text in profile.info["warnings"]):
            about.setdefault(str(text), []).append(runs.program)
    return [f"{', '.join(names)}: {text}" for text, names in about.items()]


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows that all have the same columns; an absent figure is an empty cell, one without a value nan."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(
            {key: safe_cell(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows
        )


def panels(runs: Runs) -> dict[str, Any]:
    """Return what a program's figure shows: the instances of the run with the median time; NaN is None."""
    tasks = runs.profile.tasks
    resolved = tasks[np.isfinite(tasks["energy_j"]) & tasks["task"].notna()]
    cpus = resolved["cpu"].value_counts().index.to_numpy()
    drawn = _thinned(resolved)
    names = [str(name) for name in resolved["task"].cat.categories]
    printed = PAPER.get(runs.program)
    data: dict[str, Any] = clean(
        {
            "program": runs.program,
            "number": printed and printed.figure,
            "quality": runs.quality,
            "notes": _notes(runs, len(drawn), len(cpus)),
            "names": names,
            "cpus": np.sort(cpus[:CORES]).tolist(),
            "counts": {str(cpu): int(count) for cpu, count in resolved["cpu"].value_counts().items()},
            "wide": _is_wide(resolved),
            "task": drawn["task"].cat.codes.tolist(),
            **{name: drawn[name].tolist() for name in ("cpu", "start_s", "duration_s", "energy_j")},
            "curves": [_curves(name, resolved[resolved["task"] == name]) for name in names]
            + ([_curves("all tasks", resolved)] if len(names) > 1 else []),
        }
    )
    return data


def _notes(runs: Runs, drawn: int, cores: int) -> list[str]:
    tasks, info = runs.profile.tasks, runs.profile.info
    unresolved = int(tasks["energy_j"].isna().sum())
    resolved = len(tasks) - unresolved
    several = len(runs.outcomes) > 1
    notes = [f"{counted(resolved, 'instance')}{' of the run with the median time' if several else ''}."]
    if drawn < resolved:
        notes.append(f"Points are a sample of {drawn:,} of them; the distributions are of all.")
    if unresolved:
        notes.append(f"{unresolved:,} more are not resolved by the sensor and not drawn.")
    if cores > CORES:
        notes.append(f"Panels are the {CORES} of {cores} cores with the most instances.")
    return [*notes, f"Joules are {runs.quality}; power {info['model_why']}."]


def _thinned(tasks: pd.DataFrame) -> pd.DataFrame:
    """Take all instances, or of each task its share of `POINTS`, the same ones each time."""
    if len(tasks) <= POINTS:
        return tasks
    codes = tasks["task"].cat.codes.to_numpy()
    parts = []
    for code in np.unique(codes):
        rows: Rows = np.flatnonzero(codes == code)
        parts.append(rows[sample(len(rows), max(POINTS * len(rows) // len(tasks), LEAST))])
    return tasks.iloc[np.sort(np.concatenate(parts))]


def _is_wide(tasks: pd.DataFrame) -> bool:
    values = tasks[["duration_s", "energy_j"]]
    return bool((values.max() > WIDE * values.median()).any())


def _curves(name: str, tasks: pd.DataFrame) -> dict[str, Any]:
    """Return both distributions of a task: values, and the share of instances up to each."""
    place = np.unique(np.linspace(0, len(tasks) - 1, CURVE).astype(int)) if len(tasks) else np.empty(0, int)
    return {
        "name": name,
        "share": ((place + 1) / max(len(tasks), 1)).tolist(),
        **{column: np.sort(tasks[column].to_numpy(float))[place].tolist() for column in ("energy_j", "duration_s")},
    }
