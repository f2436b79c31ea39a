"""Tables of a profile that a notebook shows with bars; in every other way they are pandas frames.

What is selected or computed from one is a plain frame, which pandas shows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd
from tprof.analysis.quantities import DASH, at_most, mean_energy, percent, quantity

from tprof.trace.plain_values import counted

from .markup import badge, bar, output, shares, table, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Row = Mapping[Any, Any]

SHOWN = 20
WIDEST = 1.6
"""Intervals are drawn so far beyond the longest bar: those of estimates are much wider."""
PARTS = ("tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j")


class _Shown(pd.DataFrame):
    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame


class SummaryTable(_Shown):
    """The table of `Profile.summary`."""

    def _repr_html_(self) -> str:
        return output(tasks_table(self), whole_table(self))


class AccountsTable(_Shown):
    """The table `Profile.accounts`."""

    def _repr_html_(self) -> str:
        return output(accounts_table(self))


def tasks_table(summary: pd.DataFrame, most: int = SHOWN) -> str:
    """Return the rows of most energy, with a bar for the energy of each and its interval."""
    if summary.empty:
        return "<p>No task ran.</p>"
    rows: list[Row] = list(summary.head(most).to_dict("records"))
    longest = max((float(row["energy_j"]) for row in rows if math.isfinite(row["energy_j"])), default=0.0)
    headings = ("task", "instances", "energy", "", "share", "mean (95 %)", "time", "power")
    qualities = [str(one) for one in summary["quality"].unique()]
    is_mixed = len(qualities) > 1
    cells = [
        (
            text(name),
            f"{int(row['instances']):,}",
            _known(row["energy_j"], "J"),
            _energy_bar(row, WIDEST * longest),
            percent(float(row["share"])),
            mean_energy(row),
            _known(row["duration_mean_s"], "s"),
            _power(row),
            *([badge(row["quality"])] if is_mixed else []),
        )
        for name, row in zip(summary.index, rows, strict=False)
    ]
    more = len(summary) - len(cells)
    rest = f"<p class='quiet'>and {counted(more, 'more task')}, of less energy each</p>" if more > 0 else ""
    caption = "tasks" if is_mixed else f"tasks {badge(qualities[0])}"
    return table((*headings, "quality") if is_mixed else headings, cells, caption) + rest


def _energy_bar(row: Row, longest: float) -> str:
    """Return a bar of a task's energy with its interval."""
    energy_j, low_j, high_j = (float(row[f"energy_{end}j"]) for end in ("", "low_", "high_"))
    label = f"{_known(energy_j, 'J')}, 95 % interval {_known(low_j, 'J')} to {_known(high_j, 'J')}"
    return bar(energy_j, low_j, high_j, longest, label)


def _power(row: Row) -> str:
    value, high = float(row["power_w"]), float(row["power_high_w"])
    if math.isnan(value) or math.isnan(high):
        return DASH
    return quantity(value, "W") if row["resolved"] else at_most(high, "W")


def accounts_table(accounts: pd.DataFrame) -> str:
    """Return the joules of each domain, by whom they went to."""
    names = [str(name) for name in accounts.index.names]
    parts = [name for name in PARTS if name in accounts and (accounts[name] > 0).any()]
    headings = (*map(text, names), "energy", *(text(_spoken(name)) for name in parts), "quality")
    cells = []
    for key, row in zip(accounts.index, accounts.to_dict("records"), strict=True):
        keys = key if isinstance(key, tuple) else (key,)
        figures = [quantity(float(row["measured_j"]), "J"), *(_known(row[name], "J") for name in parts)]
        cells.append((*map(text, keys), *figures, badge(row["quality"])))
    return table(headings, cells)


def account_bar(counted: Mapping[str, float]) -> str:
    """Return where all counted joules went, as one bar."""
    return shares([(_spoken(name), float(counted.get(name, math.nan))) for name in PARTS])


def _spoken(name: str) -> str:
    return "spinning" if name == "spin_j" else name.removesuffix("_j")


def _known(value: Any, unit: str) -> str:
    return DASH if math.isnan(float(value)) else quantity(float(value), unit)


def whole_table(frame: pd.DataFrame) -> str:
    """Return all columns as pandas shows them, to unfold; names of tasks are escaped there too."""
    shown = (
        frame.head(SHOWN).rename(index=text).to_html(escape=False, border=0, float_format=lambda value: f"{value:.4g}")
    )
    return f"<details><summary>all columns of the frame</summary>{shown}</details>"
