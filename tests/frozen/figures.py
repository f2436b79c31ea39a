"""What a profile says, as plain values that can be stored, and how two of these are compared."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ROWS = 120
"""Of a longer table so many rows, evenly spaced, and the sums of all."""
RELATIVE, FITTED, SMALLEST = 1e-9, 1e-6, 1e-12
OF_INTERVAL = 0.01
"""Of half its 95 % interval a fitted energy may differ."""
INFO = ("quality", "model", "warnings", "complete", "dropped", "static_power_w", "domains", "native", "findings")


def figures_of(profile: Any) -> dict[str, Any]:
    """Return the tables, facts and trees of a profile as plain values."""
    found = {
        "summary": table(profile.summary().reset_index()),
        "summary_without_common_error": table(profile.summary(common=False).reset_index()),
        "accounts": table(profile.accounts.reset_index()),
        "info": {name: plain(profile.info[name]) for name in INFO if name in profile.info} | _removed(profile),
    }
    with suppress(UsageError):  # of sums alone
        found["tasks"] = table(profile.tasks.sort_values(["instance", "start_s"], kind="stable"))
        found["flame"] = _flame(profile)
    if hasattr(profile, "power"):
        found["power"] = table(profile.power)
    if getattr(profile, "has_graph", False):
        path = profile.critical_path()
        found["path"] = plain(path.facts()) | {"chain": table(path.chain), "observed": table(path.observed)}
    return found


def _removed(profile: Any) -> dict[str, Any]:
    """Return what a size limit removed, without sizes of folders, which differ between file systems."""
    found = profile.info.get("removed")
    return {} if found is None else {"removed": {name: plain(found[name]) for name in found if "bytes" not in name}}


def _flame(profile: Any) -> dict[str, Any]:
    tree = profile.flame()
    paths = {row: " / ".join(path) for row, path in tree.paths()}
    nodes = tree.nodes.drop(columns="parent").astype({"kind": str}).rename(index={0: "all", **paths})
    return {"nodes": table(nodes.sort_index(kind="stable").reset_index()), "functions": table(tree.functions())}


def table(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a table by columns; of a long one some rows and the sums."""
    columns = {str(name): _column(frame[name]) for name in frame}
    rows = len(frame)
    found: dict[str, Any] = {"rows": rows}
    if rows > MOST_ROWS:
        numbers = frame.select_dtypes(["number", "bool"])
        found["sums"] = {str(name): plain(float(np.nansum(numbers[name].astype(float)))) for name in numbers}
        at = np.linspace(0, rows - 1, MOST_ROWS).astype(int).tolist()
        columns = {name: [values[place] for place in at] for name, values in columns.items()}
    return found | {"columns": columns}


def _column(values: pd.Series[Any]) -> list[Any]:
    return [plain(value) for value in values.astype(object)]


def plain(value: Any) -> Any:
    """Return a value as JSON has it; what is absent is None."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is pd.NA or value is pd.NaT:
        return None
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def differences(before: Any, now: Any, *, is_fitted: bool, at: str = "") -> Iterator[str]:
    """Yield one line for each value that differs: energies to 1e-9, fitted ones to a hundredth of their interval."""
    if isinstance(before, dict) and isinstance(now, dict):
        now = _within_intervals(now, before) if is_fitted and "columns" in before else now
        yield from (f"{at}.{name} is gone" for name in before.keys() - now.keys())
        yield from (f"{at}.{name} is new" for name in now.keys() - before.keys())
        pairs = [(f"{at}.{name}", before[name], now[name]) for name in before if name in now]
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{at} has {len(now)} values, {len(before)} before"
        pairs = [(f"{at}[{place}]", *both) for place, both in enumerate(zip(before, now, strict=False))]
    else:
        pairs = []
        if not _is_same(before, now, FITTED if is_fitted else RELATIVE):
            yield f"{at} is {now!r}, {before!r} before"
    for where, one, other in pairs:
        yield from differences(one, other, is_fitted=is_fitted, at=where)


def _is_same(before: Any, now: Any, relative: float) -> bool:
    if isinstance(before, float) and isinstance(now, float):
        return math.isclose(before, now, rel_tol=relative, abs_tol=SMALLEST)
    return bool(before == now)


INTERVALS = (
    ("energy_low_j", "energy_high_j", ("energy_j", "energy_low_j", "energy_high_j", "dynamic_j", "static_j")),
    ("dynamic_low_j", "dynamic_high_j", ("dynamic_low_j", "dynamic_high_j")),
    ("energy_mean_low_j", "energy_mean_high_j", ("energy_mean_j", "energy_mean_low_j", "energy_mean_high_j")),
)


def _within_intervals(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the table with each energy that is near enough replaced by what it was."""
    old, new = before["columns"], dict(now["columns"])
    for low, high, names in INTERVALS:
        for name in names if low in old and low in new else ():
            if name not in old or name not in new or len(old[name]) != len(new[name]):
                continue
            new[name] = [
                was if _is_near(was, one, least, most) else one
                for was, one, least, most in zip(old[name], new[name], old[low], old[high], strict=True)
            ]
    return now | {"columns": new}


def _is_near(was: Any, now: Any, low: Any, high: Any) -> bool:
    if None in (was, now, low, high):
        return False
    return abs(now - was) <= OF_INTERVAL * (high - low) / 2
