"""Reads a calibration's session: of each phase the package's watts and what its cores did meanwhile.

A phase is a group of overlapping instances of one task called `<kernel>@<number of cores>`. Only the time in which
all of them ran counts, so that beginnings and ends of single cores do not blur it. The time before the first phase, in
which nobody ran, is the idle observation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.build import build_profile

from tprof.errors import UsageError

from .observations import Observations

if TYPE_CHECKING:
    from tprof.analysis.quanta import Quanta

    from tprof.trace import Trace

Floats = NDArray[np.float64]
NAME = re.compile(r"(?P<kernel>.+)@(?P<cores>\d+)")
LINE_GB = 64 / 1e9
LEAST_QUANTA = 5
IDLE_LEAST_S = 0.05


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
    packages = [one for one in profile.quanta if one.counted and one.scope == "package"]
    rows = [
        row
        for _, phase in tasks.groupby(_phase_of(tasks), sort=True)
        if (row := _observed(phase, packages, trace.start_ns)) is not None
    ]
    if not rows:
        message = (
            f"{trace.path} holds no phase of a calibration with a measured power: its tasks would be called "
            'kernel@cores; record one with "tprof calibrate --session DIR"'
        )
        raise UsageError(message)
    idle = _idle(tasks, packages, trace.start_ns)
    return _joined(rows + ([idle] if idle is not None else []))


def _phase_of(tasks: pd.DataFrame) -> NDArray[np.intp]:
    """Number the phases: a new one begins where all before has ended, or another task begins."""
    order = np.argsort(tasks["start_s"].to_numpy(), kind="stable")
    start_s, end_s = tasks["start_s"].to_numpy()[order], (tasks["start_s"] + tasks["duration_s"]).to_numpy()[order]
    code = tasks["task"].astype("category").cat.codes.to_numpy()[order]
    after = start_s[1:] >= np.maximum.accumulate(end_s)[:-1]
    number = np.empty(len(tasks), np.intp)
    number[order] = np.concatenate(([0], np.cumsum(after | (code[1:] != code[:-1]))))
    return number


def _observed(phase: pd.DataFrame, packages: list[Quanta], start_ns: int) -> dict[str, object] | None:
    found = NAME.fullmatch(str(phase["task"].iloc[0]))
    numbers = phase["package"].unique()
    quanta = _quanta_of(packages, int(numbers[0])) if len(numbers) == 1 else None
    begin_s, end_s = phase["start_s"].max(), (phase["start_s"] + phase["duration_s"]).min()
    power_w = _watts(quanta, start_ns + begin_s * 1e9, start_ns + end_s * 1e9) if quanta is not None else None
    if power_w is None or found is None:
        return None
    part = (phase["cpu_s"] / phase["duration_s"]).to_numpy()
    ipc, cycles = phase["ipc"].to_numpy(), _rates(phase, "cycles")
    return {
        "power_w": power_w,
        "active_cores": part.sum(),
        "ipc": float((ipc * part).sum()),
        "l2_gbs": _rates(phase, "l2_refs").sum() * LINE_GB,
        "llc_gbs": _rates(phase, "llc_refs").sum() * LINE_GB,
        "kernel": found["kernel"],
        "hz": cycles.sum() / part.sum(),
    }


def _rates(phase: pd.DataFrame, column: str) -> Floats:
    """Return counts a second of each instance; NaN where the trace has no such counter."""
    if column not in phase:
        return np.full(len(phase), np.nan)
    return np.asarray((phase[column] / phase["duration_s"]).to_numpy(float))


def _quanta_of(packages: list[Quanta], number: int) -> Quanta | None:
    known = [one for one in packages if one.package == number]
    return known[0] if known else (packages[0] if len(packages) == 1 and number < 0 else None)


def _watts(quanta: Quanta, begin_ns: float, end_ns: float) -> float | None:
    """Return the mean watts between two times; None where readings are too few or not all valid."""
    first, last = np.searchsorted(quanta.edges_ns, (begin_ns, end_ns))
    if last - first <= LEAST_QUANTA or first == 0 or last >= len(quanta.edges_ns):
        return None
    if not quanta.valid[first - 1 : last].all():
        return None
    joules = np.concatenate(([0.0], np.cumsum(quanta.energy_j)))
    at = np.interp((begin_ns, end_ns), quanta.edges_ns, joules)
    return float((at[1] - at[0]) / ((end_ns - begin_ns) * 1e-9))


def _idle(tasks: pd.DataFrame, packages: list[Quanta], start_ns: int) -> dict[str, object] | None:
    """Return what a package draws before the first phase."""
    if len(packages) != 1 or not len(packages[0]):
        return None
    begin_ns = float(packages[0].edges_ns[0]) + 1.0
    end_ns = start_ns + float(tasks["start_s"].min()) * 1e9
    power_w = _watts(packages[0], begin_ns, end_ns) if end_ns - begin_ns > IDLE_LEAST_S * 1e9 else None
    if power_w is None:
        return None
    nothing = dict.fromkeys(("active_cores", "ipc", "l2_gbs", "llc_gbs"), 0.0)
    return {"power_w": power_w, **nothing, "kernel": "idle", "hz": np.nan}


def _joined(rows: list[dict[str, object]]) -> Observations:
    frame = pd.DataFrame(rows)
    numbers = ("power_w", "active_cores", "ipc", "l2_gbs", "llc_gbs", "hz")
    columns = {name: frame[name].to_numpy(float) for name in numbers}
    return Observations(kernel=frame["kernel"].to_numpy(str), **columns)
