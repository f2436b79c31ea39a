"""Summary figures of a task runtime, for the terminal, for JSON and for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile

SERVICE = ("served_s", "running_s", "suspended_s", "starved_s", "overhead_s")


def runtime_facts(profile: Profile) -> dict[str, float | int] | None:
    """Return the figures; None for a trace without a runtime's events.

    Returns
    -------
    makespan_s, work_s, span_s, share, parallelism, path_j, heaviest_j as in `CriticalPath` (path_j: its energy_j);
    run_running_s, run_data_s, … : its `parts`; workers, and over all of them served_s, running_s, suspended_s,
    starved_s, overhead_s as in `starvation`; steals, cancelled, contradicting
    """
    if not len(profile.trace.graph):
        return None
    path, workers, tasks = profile.critical_path(), profile.starvation, profile.waits()
    return {
        "makespan_s": path.makespan_s,
        "work_s": path.work_s,
        "span_s": path.span_s,
        "share": path.share,
        "parallelism": path.parallelism,
        "path_j": path.energy_j,
        "heaviest_j": path.heaviest_j,
        **{f"run_{part}": seconds for part, seconds in path.parts.items()},
        "workers": len(workers),
        **{name: float(workers[name].sum()) for name in SERVICE},
        "steals": int(tasks["steals"].sum()),
        "cancelled": int(tasks["cancelled"].sum()),
        "contradicting": path.contradicting,
    }
