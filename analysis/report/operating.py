"""What the page shows of operating points: what a policy chose for each task, and each frequency over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from tprof.analysis.profile import Profile

TASKS = 40
CONTROLS = 64
STEPS = 4_000  # beyond it a browser is slow: the first and the last of them are drawn


def operating_data(profile: Profile) -> dict[str, Any] | None:
    """Return the section's figures; None where no policy decided anything."""
    table = profile.decisions
    if table.empty:
        return None
    chosen = table[table["kind"] == "chosen"]
    changes = table[table["kind"] == "set"]
    return {
        "policies": list(dict.fromkeys(table["policy"])),
        "chosen": [_last(task, rows, changes) for task, rows in list(chosen.groupby("task", sort=False))[:TASKS]],
        "controls": [_steps(cpus, rows) for cpus, rows in list(changes.groupby("cpus", sort=False))[:CONTROLS]],
        "allowed": _columns(table[table["kind"] == "allowed"].iloc[:STEPS], ("time_s", "frequency_hz", "former_hz")),
        "workers": _columns(table[table["kind"] == "workers"], ("time_s", "workers")),
        "duration_s": float(profile.info["duration_s"]),
        "changes": len(changes),
    }


def _last(task: Any, rows: pd.DataFrame, changes: pd.DataFrame) -> dict[str, Any]:
    last = rows.iloc[-1]
    kept = ("frequency_hz", "energy_j", "instance_s", "why", "time_s")
    return {"task": task, "times": len(rows), "changes": int((changes["task"] == task).sum())} | {
        name: last[name] for name in kept
    }


def _steps(cpus: Any, rows: pd.DataFrame) -> dict[str, Any]:
    kept = rows if len(rows) <= STEPS else rows.iloc[[*range(STEPS // 2), *range(-STEPS // 2, 0)]]
    return {"cpus": cpus, "left_out": len(rows) - len(kept)} | _columns(kept, ("time_s", "frequency_hz", "former_hz"))


def _columns(rows: pd.DataFrame, names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: rows[name].tolist() for name in names}
