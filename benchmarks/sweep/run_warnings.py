"""Warnings of a run beyond those of its profile: a busy host, joules outside tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.analysis import Profile

HAD_PROCESSOR = 0.9
"""If simulated tasks run for less than this part of their time, the host dominates their times."""
OUTSIDE = 0.05
"""Part of the program's joules outside tasks above which a run gets a warning."""


def host_warnings(profile: Profile) -> list[str]:
    """Return a warning if the tasks of a simulated machine waited for a processor.

    The load before a run would be a worse measure: it includes the run before, but no later load.
    """
    own_s = float(profile.own_s.sum())
    cpu_s = float(profile.tasks["cpu_s"].sum(min_count=1))
    if not cpu_s < HAD_PROCESSOR * own_s:
        return []
    part = f"tasks had a processor for {cpu_s / own_s:.0%} of their time only"
    return [f"{part}: this host is too busy for the simulated machine's times to be trusted"]


def outside_tasks(profile: Profile) -> list[str]:
    """Return a warning if more than `OUTSIDE` of the program's joules are outside tasks.

    The sentence has no figure, so that a page can name all such runs together.
    """
    if not any(one.counted for one in profile.quanta):
        return []  # without a sensor there are no joules to miss
    accounts = profile.counted_accounts
    tasks_j, outside_j = accounts["tasks_j"], accounts["runtime_j"]
    if not (tasks_j > 0 and outside_j > OUTSIDE * (tasks_j + outside_j)):
        return []
    where = "imports and code between tasks, see `runtime` in tprof summary"
    return [f"more than {OUTSIDE:.0%} of the program's joules are in no task's row ({where})"]
