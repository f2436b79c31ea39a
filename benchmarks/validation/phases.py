"""Runs kernels on several virtual cores at once, a phase each, named as a calibration names its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.models.calibration import observe
from tprof.benchmarks.virtual import ICE_LAKE, Run, length_s, side_by_side, write
from tprof.benchmarks.virtual.schedule import IDLE_S

from tprof.trace import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from tprof.analysis import Coefficients
    from tprof.analysis.models.calibration import Observations
    from tprof.benchmarks.virtual import Kernel, Package

    from tprof.trace import Trace

PHASE_S = 0.25


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

    def observed(self, path: Path, package: Package, *, seed: int) -> Observations:
        """Run them and return what was observed, the idle time before them left out."""
        seen = observe(self.record(path, package, seed=seed))
        return seen.where(seen.active_cores > 0)

    def record(self, path: Path, package: Package, *, seed: int) -> Trace:
        """Run them on a package and write the trace."""
        runs = [[place] * busy for place, busy in enumerate(list(self.busy) * len(self.kernels))]
        cores = side_by_side(runs, instance_s=self.phase_s, phase_s=self.phase_s, idle_s=IDLE_S)
        kernels = [kernel for kernel in self.kernels for _ in self.busy]
        run = Run(package, kernels, cores, length_s(len(runs), self.phase_s, IDLE_S))
        write(path, self.names, run, sensor=ICE_LAKE, seed=seed)
        return load(path)


def predicted_w(model: Coefficients, seen: Observations) -> NDArray[np.float64]:
    """Return the package's power by equation 1."""
    return np.asarray(
        model.a * seen.ipc + model.b * seen.l2_gbs + model.c * seen.llc_gbs + model.c1 * seen.active_cores + model.c2
    )
