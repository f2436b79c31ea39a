"""The paper's figure 11: energy and time of each task over the frequency, against those at the highest."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

TASKS = 8
"""Drawn in each panel, those that take most energy; the table has all."""


def panels(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a panel for each number of workers; over workers instead, where no frequency was swept.

    A value is the mean over repeats of an instance's mean, as the paper takes it, with the least and the most of the
    repeats; all are divided by the value at the highest setting (frequency), or at the fewest workers. Means as in
    `summary`: figure and table agree.
    """
    if any(row["setting"] is not None for row in rows):
        counts = sorted({row["workers"] for row in rows})
        return [
            _panel(
                f"{count} worker{'s' if count > 1 else ''}", "setting", [row for row in rows if row["workers"] == count]
            )
            for count in counts
        ]
    return [_panel("over workers", "workers", rows)]


def _panel(title: str, over: str, rows: Sequence[Row]) -> dict[str, Any]:
    settings = sorted({row[over] for row in rows})
    reference = settings[-1] if over == "setting" else settings[0]
    tasks = sorted({row["task"] for row in rows}, key=lambda task: (task != "", -_energy_j(rows, task), task))
    kept = tasks[: TASKS + 1]
    return {
        "title": title,
        "over": "frequency" if over == "setting" else "workers",
        "left_out": len(tasks) - len(kept),
        "tasks": [
            {
                "name": task or "whole program",
                "x": settings,
                "energy": _curve([row for row in rows if row["task"] == task], over, settings, reference, "energy_j"),
                "time": _curve([row for row in rows if row["task"] == task], over, settings, reference, "time_s"),
            }
            for task in kept
        ],
    }


def _energy_j(rows: Sequence[Row], task: str) -> float:
    return sum(row["energy_j"] or 0.0 for row in rows if row["task"] == task)


def _curve(
    rows: Sequence[Row], over: str, settings: Sequence[int], reference: int, column: str
) -> dict[str, list[float | None]]:
    """Return value, least and most at each setting; None where it is not known."""
    known: dict[int, list[float]] = {setting: [] for setting in settings}
    for row in rows:
        if row[column] is not None and row["instances"]:
            known[row[over]].append(row[column] / row["instances"])
    unit = mean(known[reference]) if known[reference] else 0.0
    if unit <= 0:
        return {name: [None] * len(settings) for name in ("value", "least", "most")}
    kinds = {"value": mean, "least": min, "most": max}
    return {
        name: [take(known[setting]) / unit if known[setting] else None for setting in settings]  # type: ignore[operator]
        for name, take in kinds.items()
    }
