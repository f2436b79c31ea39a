"""The page's section on a task runtime: waits by task, time of each worker, the critical path by task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from tprof.analysis.profile import Profile

TASKS = 40
WORKERS = 256
LINKS = 200  # entries of the longest chain in the list; the figures by task include all of it


def runtime_data(profile: Profile) -> dict[str, Any] | None:
    """Return the section's figures; None without a runtime."""
    facts = profile.runtime
    if facts is None:
        return None
    path = profile.critical_path()
    return {
        "facts": facts,
        "waits": _records(profile.waits().head(TASKS).reset_index()),
        "workers": _records(profile.starvation.head(WORKERS)),
        "chain": _by_task(path.chain),
        "heaviest": _by_task(path.heaviest),
        "links": _records(path.chain.head(LINKS)),
        "links_left_out": max(len(path.chain) - LINKS, 0),
    }


def _by_task(chain: pd.DataFrame) -> list[dict[str, Any]]:
    grouped = chain.groupby("task", sort=False)
    table = grouped.agg(instances=("instance", "nunique"), path_s=("path_s", "sum"))
    table["energy_j"] = grouped["energy_j"].sum(min_count=1)
    return _records(table.sort_values("path_s", ascending=False).head(TASKS).reset_index())


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]
