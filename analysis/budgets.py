"""Counts instances over their task's budget, `tprof.task(budget_j=…)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .names import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tprof.trace import TaskEntry


def with_budgets(table: pd.DataFrame, tasks: pd.DataFrame, entries: Sequence[TaskEntry]) -> pd.DataFrame:
    """Add `budget_j` and `over_budget` (number of instances over it) to a summary, if any task has a budget.

    Parameters
    ----------
    table : one row per task, index its name
    tasks : one row per instance
    entries : of the trace; tasks of the same name get the smallest of their budgets
    """
    budgets: dict[str, float] = {}
    for entry in entries:
        if entry.budget_j is not None:
            name = shown(entry.name)
            budgets[name] = min(entry.budget_j, budgets.get(name, np.inf))
    if not budgets:
        return table
    categories = tasks["task"].cat.categories
    limit_j = np.array([*(budgets.get(str(name), np.inf) for name in categories), np.inf])
    codes = tasks["task"].cat.codes.to_numpy()
    over = np.bincount(codes[tasks["energy_j"].to_numpy() > limit_j[codes]], minlength=len(categories))
    counts = dict(zip(categories, over, strict=True))
    return table.assign(
        budget_j=[budgets.get(str(name), np.nan) for name in table.index],
        over_budget=[float(counts[name]) if name in budgets else np.nan for name in table.index],
    )
