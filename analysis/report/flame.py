"""The flame graph of a page: the nodes that are wide enough to be drawn, the others of each parent as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.profile.flame_tree import Flame

LEAST_SHARE = 0.001
MOST_NODES = 2_000
COLUMNS = ("energy_j", "energy_low_j", "energy_high_j", "time_s", "own_j", "own_s", "instances", "samples")
SUMMED = ("energy_j", "energy_low_j", "energy_high_j", "time_s", "own_j", "own_s", "instances", "samples")


def flame_data(flame: Flame) -> dict[str, Any] | None:
    """Return the nodes as columns, at most `MOST_NODES` and their rests; None without any task.

    A node is kept if it has a thousandth of the joules or of the time; what is smaller is one node of its parent.
    """
    nodes = flame.nodes
    if len(nodes) < 2:
        return None
    kept = _kept(flame)
    columns = {name: nodes[name].to_numpy(float) for name in COLUMNS}
    parents = nodes["parent"].to_numpy()
    place = np.full(len(nodes), -1)
    place[kept] = np.arange(int(kept.sum()))
    rest = np.flatnonzero(~kept & np.append(kept, False)[parents])
    owners = np.unique(parents[rest])
    merged = [rest[parents[rest] == owner] for owner in owners]
    with np.errstate(invalid="ignore"):
        further = {name: [_sum(columns[name][rows]) for rows in merged] for name in SUMMED}
    found: dict[str, Any] = {name: [*columns[name][kept].tolist(), *further[name]] for name in COLUMNS}
    found["parent"] = [*np.append(place, -1)[parents[kept]].tolist(), *place[owners].tolist()]
    names = [*nodes["name"].to_numpy()[kept].tolist()]
    found["name"] = [*names, *(f"({len(rows)} smaller)" for rows in merged)]
    found["kind"] = [*nodes["kind"].astype(str).to_numpy()[kept].tolist(), *["rest"] * len(merged)]
    found["place"] = [*nodes["place"].to_numpy()[kept].tolist(), *[""] * len(merged)]
    return {"nodes": found, "sampled": flame.sampled, "quality": flame.quality}


def _kept(flame: Flame) -> NDArray[np.bool_]:
    """Return which nodes are drawn; a node's parent always is, since it has at least as much."""
    shares = []
    for name in ("energy_j", "time_s"):
        values = np.nan_to_num(flame.nodes[name].to_numpy(float))
        shares.append(values / values[0] if values[0] > 0 else np.zeros(len(values)))
    share = np.maximum(*shares)
    least = LEAST_SHARE
    if int((share >= least).sum()) > MOST_NODES:
        least = float(np.partition(share, len(share) - MOST_NODES)[len(share) - MOST_NODES])
    kept = share >= least
    kept[0] = True
    return np.asarray(kept)


def _sum(values: NDArray[np.float64]) -> float:
    return float(np.nansum(values)) if np.isfinite(values).any() else float("nan")
