"""The answer of a comparison in plain sentences: what the program took, what changed most, and what is open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.quantities import quantity

from .figure_texts import LEVEL, chance, change, counts_of, pair, result, signed

if TYPE_CHECKING:
    import pandas as pd

    from .comparison import Comparison

LESS, MORE, WITHIN, OPEN = "less", "more", "within noise", "not decided"
ENOUGH = 5
"""Runs a side from which on no more are asked for."""
LEAST_SHARE = 0.01
RECORD = "record each side three times or more, in turns: tprof compare A1 A2 A3 vs B1 B2 B3"


@dataclass(frozen=True)
class Headline:
    """The answer.

    Attributes
    ----------
    decision : on the program as a whole: "less", "more", "within noise", "not decided"
    program : what it took, in a sentence
    changed_most : the task or group whose sum changed most, in a sentence; "" if there is none
    to_do : what would decide what is open, in a sentence; "" if nothing is
    """

    decision: str
    program: str
    changed_most: str
    to_do: str

    @property
    def sentences(self) -> list[str]:
        """All sentences that there are."""
        return [text for text in (self.program, self.changed_most, self.to_do) if text]

    def as_plain(self) -> dict[str, str]:
        """Return it as plain values."""
        return dict(vars(self))


def headline(comparison: Comparison) -> Headline:
    """Return the answer of a comparison."""
    row: pd.Series[Any] = comparison.totals.T["program_j"]
    has_energy = not math.isnan(row["difference"])
    if not has_energy:
        row = comparison.totals.T["duration_s"]
    decision = _decision(float(row["chance"]), float(row["difference"]))
    unit, label = ("J", f" ({comparison.info['quality']})") if has_energy else ("s", "")
    took = pair({f"it_{side}_{unit.lower()}": row[side] for side in "ab"}, "it", unit)
    why = _reason(comparison, row) if decision == OPEN else f", chance of noise {chance(float(row['chance']))}"
    program = f"The program took {took}{label}, {change(row, '')}: {decision}{why}."
    return Headline(decision, program, _changed_most(comparison), _to_do(comparison, decision))


def _decision(noise: float, difference: float) -> str:
    if math.isnan(noise):
        return OPEN
    return WITHIN if noise >= LEVEL else MORE if difference > 0 else LESS


def _reason(comparison: Comparison, row: pd.Series[Any]) -> str:
    if comparison.info["within_run"]:
        return ", because one run a side does not show by how much runs of the same program differ"
    if math.isnan(row["difference"]):
        return ", because one side has no figure"
    return ", because both sides were measured differently"


def _changed_most(comparison: Comparison) -> str:
    """Return a sentence on what changed most of what surely changed, else of all; none if nothing is on both sides."""
    from .comparison import SURE, sums_of  # noqa: PLC0415 - comparisons hold their answer

    table, by = comparison.tasks, comparison.info["by"]
    sure = table[table["total_change"].isin(SURE)]
    chosen = sure if len(sure) else table
    if chosen.empty or not ((table["instances_a"] > 0) & (table["instances_b"] > 0)).any():
        return ""
    a, b = sums_of(chosen, by)
    place = int(np.argmax((b - a).abs().to_numpy()))
    row, away = chosen.iloc[place], float((b - a).iloc[place])
    unit = "J" if by.startswith("energy") else "s"
    ends = f"{quantity(float(a.iloc[place]), unit)} \u2192 {quantity(float(b.iloc[place]), unit)}"
    decision = result(str(row["total_change"]))
    counts = counts_of(row)
    many = f"all instances, {counts} of them" if "\u2192" in counts else "all instances"
    words = f"{chosen.index[place]}, {ends} in {many} ({signed(away, unit)}): {decision}"
    if not len(sure):
        return f"No {_kind(comparison)} surely changed; the largest difference is {words}."
    within = " within these two runs" if comparison.info["within_run"] else ""
    return f"Of the {_kind(comparison)}s that surely changed{within}, the largest difference is {words}."


def _kind(comparison: Comparison) -> str:
    return "group" if comparison.info["grouped_by"] else "task"


def _to_do(comparison: Comparison, decision: str) -> str:
    """Return a sentence on the recordings that would decide what is open."""
    changes = comparison.tasks["change"]
    if comparison.info["within_run"]:
        single = _single(comparison)
        too = f" and {single:,} {_kind(comparison)}{'s' * (single > 1)} with a single instance" if single else ""
        return f"To decide on the program{too}, {RECORD}."
    fewest = min(len(comparison.a), len(comparison.b))
    is_open = decision == WITHIN or changes.isin(["unclear", "unknown"]).any()
    return "Record more runs of each side, in turns, to see smaller differences." if is_open and fewest < ENOUGH else ""


def _single(comparison: Comparison) -> int:
    """Return how many tasks are not decided for want of a second instance, those below 1 % of the sum left out."""
    from .comparison import sums_of  # noqa: PLC0415 - comparisons hold their answer

    parts = [side / side.sum() for side in sums_of(comparison.tasks, comparison.info["by"])]
    large = (parts[0] >= LEAST_SHARE) | (parts[1] >= LEAST_SHARE)
    return int((large & (comparison.tasks["change"] == "unknown")).sum())
