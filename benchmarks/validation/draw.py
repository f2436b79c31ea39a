"""A page that draws what validation found: errors by the length of tasks, coverage, the paper's tables beside ours."""

from __future__ import annotations

import math
from html import escape
from importlib.resources import files
from statistics import median
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tprof.errors import TprofError

from .show import MODELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    Row = Mapping[str, Any]

COLOURS = dict(zip(MODELS, ("#1b4f9c", "#2a9d8f", "#e76f51", "#b5838d", "#8d99ae", "#6c757d", "#c9ada7"), strict=True))
SYMBOLS = dict(zip(MODELS, ("diamond", "circle", "square", "x", "cross", "triangle-up", "triangle-down"), strict=True))
LAYOUT = {"template": "plotly_white", "font": {"family": "system-ui, sans-serif"}, "margin": {"l": 70, "r": 20}}
STYLE = "body{font:16px/1.5 system-ui,sans-serif;max-width:1200px;margin:1em auto;padding:0 1em;color:#222}"


def write_page(result: Mapping[str, Any], path: Path) -> None:
    """Write the page, one file that needs no network. Raises TprofError where it cannot be written."""
    figures = (_errors(result["rows"]), _coverage(result["rows"]), _table_2(result["tables"]), _pairs(result["tables"]))
    effort = result["effort"]
    parts = [figure.to_html(full_html=False, include_plotlyjs=False) for figure in figures]
    library = (files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    said = (
        f"Simulated on the virtual processor: {effort['seeds']} runs of {effort['duration_s']:g} s each; no hardware."
    )
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>tprof validate</title>'
        f"<style>{STYLE}</style><script>{library}</script></head><body><h1>How wrong each model is</h1>"
        f"<p>{escape(said)}</p>{''.join(parts)}</body></html>"
    )
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        message = f"cannot write the plot to {path}: {error.strerror}; name another file"
        raise TprofError(message) from error


def _errors(rows: Sequence[Row]) -> go.Figure:
    """Errors of means and of instances over the length of tasks: a point a task and case, a line their median."""
    figure = make_subplots(1, 2, subplot_titles=("mean energy of a task", "single instances"), shared_yaxes=True)
    for model in (model for model in MODELS if any(row["model"] == model for row in rows)):
        own = [row for row in rows if row["model"] == model]
        for column, name in enumerate(("mean_error", "instance_error"), 1):
            points = [row for row in own if row[name]]
            figure.add_trace(
                go.Scatter(
                    x=[row["duration_s"] for row in points],
                    y=[row[name] for row in points],
                    text=[f"{row['case']}: {row['task']}" for row in points],
                    mode="markers", name=model, legendgroup=model, showlegend=column == 1,
                    marker={"color": COLOURS[model], "symbol": SYMBOLS[model], "size": 8, "opacity": 0.6},
                ),
                1, column,
            )  # fmt: skip
            lengths = sorted({row["duration_s"] for row in points})
            middle = [median(row[name] for row in points if row["duration_s"] == length) for length in lengths]
            line = go.Scatter(
                x=lengths, y=middle, mode="lines", line_color=COLOURS[model], legendgroup=model, showlegend=False
            )
            figure.add_trace(line, 1, column)
    figure.update_xaxes(type="log", title="length of the task, s")
    figure.update_yaxes(type="log", tickformat="~p", dtick=1)
    figure.update_yaxes(title="root mean square error", col=1)
    return figure.update_layout(title="Errors by length of task", height=560, **LAYOUT)


def _coverage(rows: Sequence[Row]) -> go.Figure:
    """How often intervals held the truth, a bar a case and model."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    figure = go.Figure()
    for model in (model for model in MODELS if any(row["model"] == model for row in rows) and model != "wall time"):
        heights = [_mean([r["coverage"] for r in rows if r["model"] == model and r["case"] == case]) for case in cases]
        figure.add_trace(go.Bar(x=cases, y=heights, name=model, marker_color=COLOURS[model]))
    figure.add_hline(y=0.95, line_dash="dash", annotation_text="95 %")
    figure.update_yaxes(range=(0, 1.05), tickformat=".0%")
    return figure.update_layout(title="How often the 95 % interval of a mean held the truth", height=480, **LAYOUT)


def _table_2(tables: Mapping[str, Any]) -> go.Figure:
    figure = make_subplots(1, 2, subplot_titles=("one core", "four cores"), shared_yaxes=True)
    for column, name in enumerate(("single_core_error", "quad_core_error"), 1):
        _bars(figure, column, [row["kernel"] for row in tables["2"]], tables["2"], tables["published"]["2"], name)
    figure.update_yaxes(tickformat=".0%")
    return figure.update_layout(title="Table 2: error of the calibrated model", height=420, **LAYOUT)


def _pairs(tables: Mapping[str, Any]) -> go.Figure:
    titles = ("Table 3: pairs at 3.3 GHz", "Table 4: pairs at 1.6 GHz")
    figure = make_subplots(1, 2, subplot_titles=titles, column_widths=(0.7, 0.3), shared_yaxes=True)
    for column, key in enumerate(("3", "4"), 1):
        labels = [f"{row['pair']}: {row['kernel']}" for row in tables[key]]
        _bars(figure, column, labels, tables[key], tables["published"][key], "slice_error")
    figure.update_yaxes(tickformat="+.0%")
    return figure.update_layout(title="Error of a kernel's slice of the package's power", height=440, **LAYOUT)


def _bars(
    figure: go.Figure, column: int, labels: Sequence[str], ours: Sequence[Row], paper: Sequence[Row], name: str
) -> None:
    both = (("virtual processor", ours, "#1b4f9c"), ("paper, measured", paper, "#e76f51"))
    for label, rows, colour in both:
        heights = [row[name] for row in rows]
        bars = go.Bar(x=labels, y=heights, name=label, marker_color=colour, legendgroup=label, showlegend=column == 1)
        figure.add_trace(bars, 1, column)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return sum(known) / len(known) if known else None
