"""The watts of each run of a recording, all counted domains together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.analysis import build_profile
from tprof.analysis.calibration.observe import mean_watts

from tprof.trace import load

if TYPE_CHECKING:
    from pathlib import Path


def watts_of(session: Path) -> dict[str, float]:
    """Return the mean watts of each task while all of its instances ran.

    A run in which a domain was read too seldom, or not validly, is left out.

    Parameters
    ----------
    session
        In which each task ran once, on all cores at the same time.
    """
    trace = load(session)
    profile = build_profile(trace, model="cputime")
    domains = [one for one in profile.quanta if one.counted]
    watts = {}
    for name, run in profile.tasks.groupby("task", observed=True):
        begin_s, end_s = run["start_s"].max(), (run["start_s"] + run["duration_s"]).min()
        each = [mean_watts(one, trace.start_ns + begin_s * 1e9, trace.start_ns + end_s * 1e9) for one in domains]
        if all(value is not None for value in each):
            watts[str(name)] = float(sum(value for value in each if value is not None))
    return watts
