"""Reads a calibration's session: for each phase the package's watts and its cores' counters.

A phase is a group of overlapping instances of one task called `<kernel>@<number of cores>`. Only the time in which all
of them ran counts, which excludes the starts and ends of single cores.

Idle time precedes the first thread: the recording's own thread joins after the recording has read idle time, and only
then prepares the first phase, with seconds of work outside tasks. Quanta with busy time of any process are not idle.

Cores on which other programs ran during a phase are active too. Their counters are not known: they count with C1 only.

Power is that of the quanta wholly inside a phase. A quantum across the end of a phase has joules of both sides; sharing
it by time would bias the phase towards its neighbour.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.attribution.hidden import machine_busy_s
from tprof.analysis.profile.build import build_profile

from tprof.errors import UsageError
from tprof.trace.bounds import LEAST_BUSY_CORES

if TYPE_CHECKING:
    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Trace

Floats = NDArray[np.float64]
NAME = re.compile(r"(?P<kernel>.+)@(?P<cores>\d+)")
LINE_GB = 64 / 1e9
LEAST_QUANTA = 5
IDLE_LEAST_S = 0.05


@dataclass(frozen=True)
class Observations:
    """The columns of equation 1 (TProf), summed over the active cores; all (n,).

    Attributes
    ----------
    power_w : of the package.
    active_cores : number of running cores; a core that ran half of the time counts as half.
    ipc : sum of the active cores' instructions per cycle, each weighted by the part of the time it was active, since
        an idle core has no IPC.
    l2_gbs, llc_gbs : references times 64 bytes a second, GB/s.
    kernel : (n,) str; cross-validation leaves out a whole kernel at a time.
    hz : mean frequency of the active cores; NaN where it is not known.
    """

    power_w: Floats
    active_cores: Floats
    ipc: Floats
    l2_gbs: Floats
    llc_gbs: Floats
    kernel: NDArray[np.str_]
    hz: Floats

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.power_w)

    def where(self, kept: NDArray[np.bool_]) -> Observations:
        """Return the selected runs."""
        return Observations(*(getattr(self, field.name)[kept] for field in fields(self)))


def observe(trace: Trace) -> Observations:
    """Return the observations of a calibration's session.

    Parameters
    ----------
    trace
        With instances of tasks `<kernel>@<n>`. The watts are those of the package on which a phase ran; a phase on
        several packages, and one whose readings were not all valid, is left out.

    Raises
    ------
    UsageError
        If it has no such phase.
    """
    profile = build_profile(trace, model="cputime")
    tasks = profile.tasks[profile.tasks["task"].astype(str).str.fullmatch(NAME.pattern)]
    packages = [one for one in profile.recipe.whole if one.counted and one.scope == "package"]
    rows = [
        row
        for _, phase in tasks.groupby(phase_of(tasks), sort=True)
        if (row := _observed(phase, packages, trace)) is not None
    ]
    if not rows:
        raise UsageError(
            f"{trace.path} holds no phase of a calibration with a measured power: its tasks would be called "
            'kernel@cores; record one with "tprof calibrate --session DIR"'
        )
    idle = _idle(trace, packages, trace.start_ns + round(tasks["start_s"].min() * 1e9))
    return _joined(rows + ([idle] if idle is not None else []))


def phase_of(tasks: pd.DataFrame) -> NDArray[np.intp]:
    """Number the phases: a new one begins when all earlier instances have ended, or with another task."""
    order = np.argsort(tasks["start_s"].to_numpy(), kind="stable")
    start_s, end_s = tasks["start_s"].to_numpy()[order], (tasks["start_s"] + tasks["duration_s"]).to_numpy()[order]
    code = tasks["task"].astype("category").cat.codes.to_numpy()[order]
    after = start_s[1:] >= np.maximum.accumulate(end_s)[:-1]
    number = np.empty(len(tasks), np.intp)
    number[order] = np.concatenate(([0], np.cumsum(after | (code[1:] != code[:-1]))))
    return number


def _observed(phase: pd.DataFrame, packages: list[Quanta], trace: Trace) -> dict[str, object] | None:
    found = NAME.fullmatch(str(phase["task"].iloc[0]))
    numbers = phase["package"].unique()
    quanta = _quanta_of(packages, int(numbers[0])) if len(numbers) == 1 else None
    begin_s, end_s = phase["start_s"].max(), (phase["start_s"] + phase["duration_s"]).min()
    begin_ns, end_ns = trace.start_ns + begin_s * 1e9, trace.start_ns + end_s * 1e9
    power_w = mean_watts(quanta, begin_ns, end_ns) if quanta is not None else None
    if power_w is None or quanta is None or found is None:
        return None
    part = (phase["cpu_s"] / phase["duration_s"]).to_numpy()
    ipc, cycles = phase["ipc"].to_numpy(), _rates(phase, "cycles")
    return {
        "power_w": power_w,
        "active_cores": max(part.sum(), _busy_cores(trace, quanta.package, begin_ns, end_ns)),
        "ipc": float((ipc * part).sum()),
        "l2_gbs": _rates(phase, "l2_refs").sum() * LINE_GB,
        "llc_gbs": _rates(phase, "llc_refs").sum() * LINE_GB,
        "kernel": found["kernel"],
        "hz": cycles.sum() / part.sum(),
    }


def _busy_cores(trace: Trace, package: int | None, begin_ns: float, end_ns: float) -> float:
    """Return how many cores of a package all programs kept busy between two times; 0 without readings of them."""
    busy = [one for one in trace.readings.values() if package is None or one.package == package]
    edges_ns = np.array([begin_ns, end_ns]).astype(np.int64)
    return float(machine_busy_s(busy, edges_ns)[0]) / max((end_ns - begin_ns) * 1e-9, 1e-9)


def _rates(phase: pd.DataFrame, column: str) -> Floats:
    """Return counts per second of each instance; NaN if the trace does not have the counter."""
    if column not in phase:
        return np.full(len(phase), np.nan)
    return np.asarray((phase[column] / phase["duration_s"]).to_numpy(float))


def _quanta_of(packages: list[Quanta], number: int) -> Quanta | None:
    known = [one for one in packages if one.package == number]
    return known[0] if known else (packages[0] if len(packages) == 1 and number < 0 else None)


def mean_watts(quanta: Quanta, begin_ns: float, end_ns: float) -> float | None:
    """Return the mean watts between two times; None if quanta are too few or not all valid."""
    inside = _whole(quanta, begin_ns, end_ns)
    if inside.stop - inside.start < LEAST_QUANTA or not quanta.valid[inside].all():
        return None
    length_s = float(quanta.edges_ns[inside.stop] - quanta.edges_ns[inside.start]) * 1e-9
    return float(quanta.energy_j[inside].sum()) / length_s


def _whole(quanta: Quanta, begin_ns: float, end_ns: float) -> slice:
    """Return the quanta that lie between two times for any place of their edges in their windows.

    The first and the last reading are not edges: their values may be old.
    """
    half_ns = quanta.window_s * 5e8
    first = max(int(np.searchsorted(quanta.edges_ns - half_ns, begin_ns, side="left")), 1)
    last = min(int(np.searchsorted(quanta.edges_ns + half_ns, end_ns, side="right")) - 1, len(quanta) - 1)
    return slice(first, max(first, last))


def _idle(trace: Trace, packages: list[Quanta], phase_ns: int) -> dict[str, object] | None:
    """Return the power of a package in idle time before the first phase; None without any."""
    if len(packages) != 1 or not len(packages[0]):
        return None
    quanta = packages[0]
    inside = _whole(quanta, quanta.edges_ns[0], min(phase_ns, _first_sample_ns(trace)))
    length_s = np.diff(quanta.edges_ns) * 1e-9
    quiet = (quanta.valid & (machine_busy_s(trace.readings.values(), quanta.edges_ns) < LEAST_BUSY_CORES * length_s))[
        inside
    ]
    total_s = float(length_s[inside][quiet].sum())
    if quiet.sum() < LEAST_QUANTA or total_s < IDLE_LEAST_S:
        return None
    nothing = dict.fromkeys(("active_cores", "ipc", "l2_gbs", "llc_gbs"), 0.0)
    power_w = float(quanta.energy_j[inside][quiet].sum()) / total_s
    return {"power_w": power_w, **nothing, "kernel": "idle", "hz": np.nan}


def _first_sample_ns(trace: Trace) -> int:
    times_ns = (thread.read()["t_ns"] for thread in trace.threads)
    return min(int(one[0]) for one in times_ns if len(one))


def _joined(rows: list[dict[str, object]]) -> Observations:
    frame = pd.DataFrame(rows)
    numbers = ("power_w", "active_cores", "ipc", "l2_gbs", "llc_gbs", "hz")
    columns = {name: frame[name].to_numpy(float) for name in numbers}
    return Observations(kernel=frame["kernel"].to_numpy(str), **columns)
