"""What the page of a job shows of its hosts, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.profile.flame_tree import joined
from tprof.analysis.profile.part import tree_of

from .profile_data import TIME_BINS, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.cluster import Job
    from tprof.analysis.profile.flame_tree import Flame

    from .job_timeline import PartLanes

MOST_HOSTS_DRAWN = 256
MOST_LINKS = 200


def hosts(profile: Profile) -> dict[str, Any] | None:
    """Return the hosts, their tasks and how their clocks were compared; None for the recording of one host."""
    if profile.job is None:
        return None
    return {
        "hosts": records(profile.hosts.reset_index()),
        "by_host": records(profile.by_host().reset_index()),
        "offsets": offsets(profile.job),
    }


def flame_of(job: Job, lanes: Sequence[PartLanes]) -> Flame:
    """Return the tree of all hosts; of parts that were read in windows it came with their lanes."""
    read = {one.host: one.flame for one in lanes}
    known = [(one, one.known.get(tree_of) or read.get(one.name)) for one in job.parts]
    return joined([(part, one) for part, one in known if one is not None], {"host"})


def power(job: Job, duration_s: float) -> dict[str, Any]:
    """Return the mean watts of each host in even slices of the job's time; NaN where it was not recorded."""
    edges_s = np.linspace(0.0, max(duration_s, 1e-9), TIME_BINS + 1)
    watts = {one.host: _sliced(one.power, one.late_s, edges_s) for one in job.parts[:MOST_HOSTS_DRAWN]}
    return {"x": edges_s.tolist(), "watts": watts}


def path(profile: Profile) -> dict[str, Any] | None:
    """Return the longest chain over all hosts: its figures, its sums and its first links; None without dependences."""
    if profile.job is None or not profile.job.has_path:
        return None  # the tasks of dask may be too many
    path = profile.critical_path()
    return {
        "facts": path.facts(),
        "quality": path.quality,
        "host_changes": path.host_changes,
        "chain": records(path.sums("host", "task").head(MOST_LINKS).reset_index()),
        "links": records(path.chain.head(MOST_LINKS)),
        "links_left_out": max(len(path.chain) - MOST_LINKS, 0),
    }


def _sliced(power: pd.DataFrame, late_s: float, edges_s: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """Return the mean power of slices; NaN outside of what was read and where a part of it is not known."""
    if power.empty:
        return [float("nan")] * (len(edges_s) - 1)
    begin_s, length_s, watts = (power[name].to_numpy(float) for name in ("time_s", "duration_s", "power_w"))
    times_s = np.append(begin_s, begin_s[-1] + length_s[-1]) + late_s
    energy_j = np.concatenate(([0.0], np.cumsum(np.nan_to_num(watts) * length_s)))
    unknown_s = np.concatenate(([0.0], np.cumsum(np.isnan(watts) * length_s)))
    known = (edges_s[1:] > times_s[0]) & (edges_s[:-1] < times_s[-1])
    covered_s = np.diff(np.clip(edges_s, times_s[0], times_s[-1]))
    means_w = np.diff(np.interp(edges_s, times_s, energy_j)) / np.where(covered_s > 0, covered_s, np.nan)
    lost = np.diff(np.interp(edges_s, times_s, unknown_s)) > 0
    return [float(value) for value in np.where(known & ~lost, means_w, np.nan)]


def offsets(job: Job) -> list[str]:
    """Return how clocks of hosts were compared, a sentence each."""
    by: dict[str, list[str]] = {}
    for host in job.trace.hosts:
        if host.path is not None:
            if host.offset is None:
                how = "no clock"
            elif host.offset.uncertainty_ns is None:
                how = f"its {host.offset.by}, whose error is not known"
            else:
                how = f"{host.offset.by}, within {host.offset.uncertainty_ns / 1e6:.3g} ms"
            by.setdefault(how, []).append(host.name)
    return [f"{', '.join(hosts[:8])}{' and more' if len(hosts) > 8 else ''}: {how}" for how, hosts in by.items()]
