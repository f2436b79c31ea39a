"""The suite's report: `suite.html`, its figures in `suite.json`, and its tables as CSV."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.export.csv import safe_cell
from tprof.analysis.report.data import clean
from tprof.analysis.report.embed import Parts, embed, write_page
from tprof.benchmarks.machine import machine_sentence

from tprof.errors import TprofError

from .panels import panels
from .show import tables

if TYPE_CHECKING:
    from pathlib import Path

    from .tables import Suite

FILES = ("suite.html", "suite.json", "suite-table5.csv", "suite-table6.csv")


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
        message = f"cannot write the suite's tables to {folder}: {error.strerror}; choose another folder"
        raise TprofError(message) from error
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
