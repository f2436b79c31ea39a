"""A fitted power model as tables for a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .tables import clean, percent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

MEANINGS = {
    "a": ("IPC of a core", "W"),
    "b": ("L2 traffic", "W per GB/s"),
    "c": ("LLC traffic", "W per GB/s"),
    "C1": ("an active core", "W"),
    "C2": ("the package", "W"),
}


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
        _line(console, f"warning: {name} was left out: no counter tells the {MEANINGS[name][0]}")


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
    _line(console, f"R² of the line {found['r2']:.3f} on {found['rows']:,} rows")
    worst = sorted(found["by_group"].items(), key=lambda item: -item[1])
    _line(console, "the curve by group: " + ", ".join(f"{name} {percent(error)}" for name, error in worst))
    for warning in found["warnings"]:
        _line(console, f"warning: {warning}")


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
