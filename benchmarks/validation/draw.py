"""A page that draws what validation found: errors by the length of tasks, coverage, the paper's tables beside ours."""

from __future__ import annotations

import math
from importlib.resources import files
from statistics import median
from typing import TYPE_CHECKING, Any

from tprof.analysis.report.data import clean
from tprof.analysis.report.embed import Parts, embed
from tprof.analysis.report.embed import write_page as write

from .show import MODELS, tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Row = Mapping[str, Any]

ERRORS = (("mean_error", "mean energy of a task"), ("instance_error", "single instances"))


def write_page(result: Mapping[str, Any], path: Path) -> None:
    """Write the page, one file that needs no network. Raises TprofError where it cannot be written."""
    package = files(__package__)
    body, script = ((package / f"validate.{kind}").read_text("utf-8") for kind in ("html", "js"))
    write(path, embed(Parts("tprof validate", body, script, page_data(result))))


def page_data(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows, as plain values without NaN."""
    rows, ours, paper = result["rows"], result["tables"], result["tables"]["published"]
    effort = result["effort"]
    text = (
        f"Simulated on the virtual processor: {effort['seeds']} runs of {effort['duration_s']:g} s each; no hardware."
    )
    data: dict[str, Any] = clean(
        {
            "said": text,
            "models": [model for model in MODELS if any(row["model"] == model for row in rows)],
            "errors": [{"title": title, "series": _errors(rows, name)} for name, title in ERRORS],
            "coverage": _coverage(rows),
            "kernels": [
                _beside(title, [row["kernel"] for row in ours["2"]], ours["2"], paper["2"], name)
                for name, title in (("single_core_error", "one core"), ("quad_core_error", "four cores"))
            ],
            "pairs": [
                _beside(title, _pairs(ours[key]), ours[key], paper[key], "slice_error")
                for key, title in (("3", "table 3: pairs at 3.3 GHz"), ("4", "table 4: pairs at 1.6 GHz"))
            ],
            "tables": [vars(table) for table in tables(result)],
        }
    )
    return data


def _errors(rows: Sequence[Row], name: str) -> list[dict[str, Any]]:
    """Return of each model a point a task and case, by the length of tasks, and the medians of each length."""
    found = []
    for model in MODELS:
        points = [row for row in rows if row["model"] == model and row[name]]
        lengths = sorted({row["duration_s"] for row in points})
        found.append(
            {
                "model": model,
                "length_s": [row["duration_s"] for row in points],
                "error": [row[name] for row in points],
                "text": [f"{row['case']}: {row['task']}" for row in points],
                "lengths_s": lengths,
                "median": [median(row[name] for row in points if row["duration_s"] == length) for length in lengths],
            }
        )
    return [one for one in found if one["error"]]


def _coverage(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how often intervals held the truth, by case and model; wall time gives no interval."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    series = []
    for model in (one for one in MODELS if one != "wall time" and any(row["model"] == one for row in rows)):
        own = [row for row in rows if row["model"] == model]
        values = [_mean([row["coverage"] for row in own if row["case"] == case]) for case in cases]
        series.append({"name": model, "values": values})
    return {"title": "", "labels": cases, "series": series}


def _pairs(rows: Sequence[Row]) -> list[str]:
    return [f"{row['pair']}: {row['kernel']}" for row in rows]


def _beside(title: str, labels: list[str], ours: Sequence[Row], paper: Sequence[Row], name: str) -> dict[str, Any]:
    both = (("virtual processor", ours), ("paper, measured", paper))
    series = [{"name": text, "values": [row[name] for row in rows]} for text, rows in both]
    return {"title": title, "labels": labels, "series": series}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return sum(known) / len(known) if known else None
