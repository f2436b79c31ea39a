"""The figures of a critical path, and its chains summed by task or host, as reports show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from .critical_path import CriticalPath


def path_facts(path: CriticalPath) -> dict[str, float | int]:
    """Return the figures of a path.

    Returns
    -------
    makespan_s, work_s, span_s, share, parallelism, path_j, heaviest_j as in `CriticalPath` (path_j: its energy_j);
    run_running_s, run_data_s, … : its `parts`; contradicting
    """
    return {
        "makespan_s": path.makespan_s,
        "work_s": path.work_s,
        "span_s": path.span_s,
        "share": path.share,
        "parallelism": path.parallelism,
        "path_j": path.energy_j,
        "heaviest_j": path.heaviest_j,
        **{f"run_{part}": seconds for part, seconds in path.parts.items()},
        "contradicting": path.contradicting,
    }


def chain_by(chain: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return a chain summed by columns such as host: instances, path_s, energy_j; by falling time."""
    grouped = chain.groupby(list(names), sort=False, observed=True)
    table = grouped.agg(instances=("instance", "nunique"), path_s=("path_s", "sum"))
    table["energy_j"] = grouped["energy_j"].sum(min_count=1)
    return table.sort_values("path_s", ascending=False, kind="stable")
