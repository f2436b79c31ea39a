"""Selects the tasks that use most of the energy; only these get advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .measured import PROGRAM

if TYPE_CHECKING:
    import pandas as pd

MOST_TASKS = 30


def significant_tasks(rows: pd.DataFrame, most: int = MOST_TASKS) -> tuple[list[str], int, float]:
    """Return the program and the tasks with the most energy, the number of other tasks, and their share of the energy.

    Parameters
    ----------
    rows
        As `table.read` returns them.
    most
        Greatest number of tasks, the program not counted.
    """
    known = rows[rows["energy_j"].notna()]
    energy_j = known[known["task"] != PROGRAM].groupby("task")["energy_j"].sum().sort_values(ascending=False)
    names = [*([PROGRAM] if (known["task"] == PROGRAM).any() else []), *map(str, energy_j.index[:most])]
    left = energy_j.iloc[most:]
    return names, len(left), float(left.sum() / energy_j.sum()) if len(left) else 0.0
