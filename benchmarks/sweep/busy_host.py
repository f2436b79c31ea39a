"""Whether the host left a simulated machine's tasks the processors that their laws count on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.analysis import Profile

HAD_PROCESSOR = 0.9
"""Below this part of their time on a processor, the times of simulated tasks are more the host's than their law's."""


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
