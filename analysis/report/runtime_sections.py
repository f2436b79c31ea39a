"""The page's sections on a task runtime: waits, workers and critical path; what its policy decided, and frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile


TASKS = 40
WORKERS = 256
LINKS = 200  # entries of the longest chain in the list; the figures by task include all of it
CONTROLS = 64
STEPS = 4_000  # more make a browser slow: only the first and the last are drawn


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


def operating_data(profile: Profile) -> dict[str, Any] | None:
    """Return the section's figures; None without decisions of a policy."""
    table = profile.decisions
    if table.empty:
        return None
    chosen = table[table["kind"] == "chosen"]
    changes = table[table["kind"] == "set"]
    return {
        "policies": list(dict.fromkeys(table.loc[table["kind"] != "acted", "policy"])),
        "chosen": [_last(task, rows, changes) for task, rows in list(chosen.groupby("task", sort=False))[:TASKS]],
        "lines": _lines(table, float(profile.info["duration_s"])),
        "acted": _columns(table[table["kind"] == "acted"].iloc[:TASKS], ("time_s", "why")),
        "workers": _columns(table[table["kind"] == "workers"], ("time_s", "workers")),
        "changes": int((changes["why"] != "held").sum()),
    }


def _last(task: Any, rows: pd.DataFrame, changes: pd.DataFrame) -> dict[str, Any]:
    last = rows.iloc[-1]
    kept = ("frequency_hz", "energy_j", "instance_s", "quality", "why", "time_s")
    return {"task": task, "times": len(rows), "changes": int((changes["task"] == task).sum())} | {
        name: last[name] for name in kept
    }


def _lines(table: pd.DataFrame, duration_s: float) -> list[dict[str, Any]]:
    """Return each frequency over time as steps: of the processors, and the limit of a power cap."""
    released_s = table.loc[table["kind"] == "released", "time_s"].to_numpy()
    kinds = [(f"processors {cpus}", rows) for cpus, rows in table[table["kind"] == "set"].groupby("cpus", sort=False)]
    allowed = table[table["kind"] == "allowed"]
    lines = [_steps(name, rows, released_s, duration_s) for name, rows in kinds[:CONTROLS]]
    if len(allowed):
        lines.append(_steps("allowed by the cap", allowed, released_s, duration_s) | {"bound": True})
    return lines


def _steps(name: str, rows: pd.DataFrame, released_s: NDArray[np.float64], duration_s: float) -> dict[str, Any]:
    kept = rows if len(rows) <= STEPS else rows.iloc[[*range(STEPS // 2), *range(-STEPS // 2, 0)]]
    changes = [*zip(kept["time_s"], kept["frequency_hz"], strict=True), *((ended_s, None) for ended_s in released_s)]
    steps: list[tuple[float, float | None]] = []
    for when_s, hz in sorted([*changes, (duration_s, None)], key=lambda change: change[0]):
        if hz is None and steps:
            steps.append((when_s, steps[-1][1]))  # to where it ends
        steps.append((when_s, hz))
    times_s, frequencies_hz = zip(*steps, strict=True)
    return {"name": name, "left_out": len(rows) - len(kept), "time_s": times_s, "frequency_hz": frequencies_hz}


def _columns(rows: pd.DataFrame, names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: rows[name].tolist() for name in names}
