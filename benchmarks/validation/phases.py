"""Runs kernels on several cores at once, a phase each, and says what was drawn and counted in each phase.

A phase is named `<kernel>@<cores>`, as a calibration names its tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.calibration import Observations
from tprof.benchmarks.virtual import ICE_LAKE, Run, length_s, side_by_side, write
from tprof.benchmarks.virtual.schedule import IDLE_S

from tprof.trace import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis import Coefficients, Profile
    from tprof.benchmarks.virtual import Kernel, Package

    from tprof.trace import Trace

PHASE_S = 0.25
_LINE_GB = 64e-9


@dataclass(frozen=True)
class Phases:
    """A session of phases: each kernel on each number of cores."""

    kernels: Sequence[Kernel]
    busy: Sequence[int] = (1, 2, 3, 4)
    phase_s: float = PHASE_S

    @property
    def names(self) -> list[str]:
        """Of the tasks."""
        return [f"{kernel.name}@{busy}" for kernel in self.kernels for busy in self.busy]

    def record(self, path: Path, package: Package, *, seed: int) -> Trace:
        """Run them on a package and write the trace."""
        runs = [[place] * busy for place, busy in enumerate(list(self.busy) * len(self.kernels))]
        cores = side_by_side(runs, instance_s=self.phase_s, phase_s=self.phase_s, idle_s=IDLE_S)
        kernels = [kernel for kernel in self.kernels for _ in self.busy]
        run = Run(package, kernels, cores, length_s(len(runs), self.phase_s, IDLE_S))
        write(path, self.names, run, sensor=ICE_LAKE, seed=seed)
        return load(path)


def observe(trace: Trace) -> Observations:
    """Return what the package drew and its cores counted in each phase, while all its instances ran."""
    profile = trace.profile(model="cputime")
    rows = [_observed(profile, group) for _, group in profile.tasks.groupby("task", observed=True, sort=False)]
    power_w, active, ipc, l2_gbs, llc_gbs, hz = np.array([row[1:] for row in rows], float).T
    return Observations(power_w, active, ipc, l2_gbs, llc_gbs, np.array([row[0] for row in rows]), hz)


def _observed(profile: Profile, group: pd.DataFrame) -> tuple[object, ...]:
    begin_s, end_s = group["start_s"].max(), (group["start_s"] + group["duration_s"]).min()
    time_s = group["duration_s"]
    return (
        str(group["task"].iloc[0]).rpartition("@")[0],
        _package_w(profile, begin_s, end_s),
        len(group),
        (group["instructions"] / group["cycles"]).sum(),
        (group["l2_refs"] / time_s).sum() * _LINE_GB,
        (group["llc_refs"] / time_s).sum() * _LINE_GB,
        group["cycles"].sum() / time_s.sum(),
    )


def _package_w(profile: Profile, begin_s: float, end_s: float) -> float:
    quanta = profile.quanta[0]
    at_s = (quanta.edges_ns - profile.trace.start_ns) * 1e-9
    total_j = np.append(0.0, np.cumsum(quanta.energy_j))
    return float(np.diff(np.interp([begin_s, end_s], at_s, total_j))[0] / (end_s - begin_s))


def predicted_w(model: Coefficients, seen: Observations) -> NDArray[np.float64]:
    """Return the package's power by equation 1."""
    return np.asarray(
        model.a * seen.ipc + model.b * seen.l2_gbs + model.c * seen.llc_gbs + model.c1 * seen.active_cores + model.c2
    )
