"""What makes a run's rows doubtful that its profile does not say: a busy host, joules that are in no task's row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.analysis import Profile

HAD_PROCESSOR = 0.9
"""Below this part of their time on a processor, the times of simulated tasks are more the host's than their law's."""
OUTSIDE = 0.05
"""Above this part of the program's joules, what runs outside its tasks is worth a word."""


def host_doubts(profile: Profile) -> list[str]:
    """Return a warning where the tasks of a simulated machine waited for a processor, else nothing.

    The load before a run would tell less: it still holds the run before, and not what begins later.
    """
    own_s = float(profile.own_s.sum())
    cpu_s = float(profile.tasks["cpu_s"].sum(min_count=1))
    if not cpu_s < HAD_PROCESSOR * own_s:
        return []
    part = f"tasks had a processor for {cpu_s / own_s:.0%} of their time only"
    return [f"{part}: this host is too busy for the simulated machine's times to be trusted"]


def outside_tasks(profile: Profile) -> list[str]:
    """Return a warning where more than `OUTSIDE` of the program's joules are no task's, else nothing.

    The sentence holds no figure: a page then names all such runs together.
    """
    if not any(one.counted for one in profile.quanta):
        return []  # without a sensor there are no joules to miss
    accounts = profile.counted_accounts
    tasks_j, outside_j = accounts["tasks_j"], accounts["runtime_j"]
    if not (tasks_j > 0 and outside_j > OUTSIDE * (tasks_j + outside_j)):
        return []
    where = "imports and code between tasks, see `runtime` in tprof summary"
    return [f"more than {OUTSIDE:.0%} of the program's joules are in no task's row ({where})"]
