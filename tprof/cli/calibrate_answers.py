"""What `tprof calibrate` prints: a model, how good its fit is, and what it predicts for another table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from .render import DASH, clean, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from tprof.analysis.models.calibration.prediction import Prediction

MEANINGS = {
    "a": ("IPC of a core", "W"),
    "b": ("L2 traffic", "W per GB/s"),
    "c": ("LLC traffic", "W per GB/s"),
    "C1": ("an active core", "W"),
    "C2": ("the package", "W"),
}
MOST_ROWS = 20
"""Longest table whose rows are printed one by one; groups of a longer one are."""


def show_model(model: Mapping[str, Any]) -> None:
    """Print a model of equation 1 and the goodness of its fit."""
    console = _console()
    title = f"Power model of {clean(model['processor'] or 'a processor not named')} ({clean(model['quality'])})"
    rows = [
        (f"{name}: {MEANINGS[name][0]}", value, MEANINGS[name][1], name)
        for name, value in model["coefficients"].items()
    ]
    _coefficients(console, title, rows, model, set(model["left_out"]))
    _errors(console, [("equation 1", model["left_out_error"]), ("predict the mean", model["mean_error"])])
    _line(console, f"R² {model['r2']:.3f}, error on its own {model['runs']} runs {percent(model['error'])}")
    for one in model["other_frequencies"]:
        core = f"at {one['hz'] / 1e9:.2f} GHz a core draws {one['core']:.2f} × as much"
        _line(console, f"{core}, the package {one['package_w']:.1f} W")
    if model["idle_w"] is not None:
        _line(console, f"idle package: {model['idle_w']:.1f} W")
    for warning in model["warnings"]:
        _line(console, f"warning: {warning}")
    for name in model["left_out"]:
        _line(console, f"warning: {name} was left out: no counter shows the {MEANINGS[name][0]}")


def show_counters(found: Mapping[str, Any]) -> None:
    """Print a fit to any counters."""
    console = _console()
    rows = [
        (name, value, "W" if name == "constant" else "W per unit", name)
        for name, value in found["coefficients"].items()
    ]
    _coefficients(console, f"Power by counters, {clean(found['source'])}", rows, found, set())
    _errors(
        console,
        [
            ("a straight line", found["line_error"]),
            ("a curve (trees and kernels)", found["curve_error"]),
            ("predict the mean", found["mean_error"]),
        ],
        heading=f"mean error, each of {found['groups']} groups left out in turn",
    )
    _line(console, _chosen(found))
    _line(console, f"R² of the line {found['r2']:.3f} on {found['rows']:,} rows")
    worst = sorted(found["by_group"].items(), key=lambda item: -item[1])
    _line(console, f"the {found['chosen']} by group: " + ", ".join(f"{name} {percent(error)}" for name, error in worst))
    for warning in found["warnings"]:
        _line(console, f"warning: {warning}")


def _chosen(found: Mapping[str, Any]) -> str:
    """Return which of the line and the curve predicts groups that were left out better, and by how much."""
    best = found["chosen"]
    other = "curve" if best == "line" else "line"
    return (
        f"the {best} predicts: {percent(found[f'{best}_error'])} against {percent(found[f'{other}_error'])} of the "
        f"{other}, and better in {found['better_groups']} of {found['groups']} groups"
    )


def show_prediction(found: Prediction, by: str) -> None:
    """Print the predicted watts of a table's rows, or of its groups if they are many, and how good they are."""
    from rich.table import Table
    from rich.text import Text

    console = _console()
    table = Table(title=Text(f"Watts predicted by {clean(by)}"), title_justify="left")
    rows = len(found.power_w)
    table.add_column("row" if rows <= MOST_ROWS else "group, mean of its rows", overflow="fold")
    for heading in ("predicted", "95 % interval of a run", "measured", "error", "in the interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cells in _predicted_rows(found):
        table.add_row(*map(Text, cells))
    console.print(table)
    if found.error is None:
        _line(console, f"{rows:,} rows, of which no watts are known: errors cannot be given")
    else:
        held = "the interval is not known (one group)" if found.covered is None else (
            f"95 % intervals hold {percent(found.covered)} of them"
        )  # fmt: skip
        _line(console, f"mean error {percent(found.error)} over {rows:,} rows; {held}")
    if found.outside:
        _line(
            console,
            f"warning: {found.outside:,} of {rows:,} rows have a counter outside of the range that was fitted; what is "
            "predicted there is extrapolated, and the interval does not include that",
        )


def _predicted_rows(found: Prediction) -> Iterator[tuple[str, ...]]:
    single = len(found.power_w) <= MOST_ROWS
    names = [f"{row} ({name})" for row, name in enumerate(found.group, 1)] if single else list(np.unique(found.group))
    for place, name in enumerate(names):
        rows = np.arange(len(found.group)) == place if single else found.group == name
        part = found.where(rows)
        low, high = part.low_w.mean(), part.high_w.mean()
        yield (
            clean(name),
            f"{part.power_w.mean():.4g} W",
            DASH if np.isnan(low) else f"{low:.3g} … {high:.3g} W",
            DASH if part.measured_w is None else f"{part.measured_w.mean():.4g} W",
            DASH if part.error is None else percent(part.error),
            DASH if part.covered is None else percent(part.covered),
        )


def _console() -> Console:
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 140)


def _coefficients(
    console: Console,
    title: str,
    rows: list[tuple[str, float, str, str]],
    goodness: Mapping[str, Any],
    left_out: set[str],
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    table.add_column("coefficient", overflow="fold")
    for heading in ("value", "unit", "95 % interval", "inflation"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, value, unit, name in rows:
        low, high = goodness["intervals"][name]
        factor = goodness["inflation"].get(name)
        known = name not in left_out
        table.add_row(
            Text(clean(label)),
            f"{value:.4g}" if known else "not known",
            unit,
            f"{low:.3g} … {high:.3g}" if known else "",
            "" if factor is None else f"{factor:.3g}",
        )
    console.print(table)


def _errors(
    console: Console, rows: list[tuple[str, float | None]], heading: str = "mean error, each kernel left out in turn"
) -> None:
    from rich.table import Table

    table = Table()
    table.add_column("predicted by")
    table.add_column(heading, justify="right")
    for name, error in rows:
        table.add_row(name, "not known" if error is None else percent(error))
    console.print(table)


def _line(console: Console, text: str) -> None:
    from rich.text import Text

    console.print(Text(clean(text)))
