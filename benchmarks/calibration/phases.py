"""What a calibration runs: each kernel on each number of cores, in an order that hides no drift."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.benchmarks.kernels import Kernel

    from tprof.sensors.topology import Cpu


@dataclass(frozen=True)
class Phase:
    """One kernel on some processors at once; its task is called `<kernel>@<how many>`."""

    kernel: Kernel
    cpus: tuple[int, ...]

    @property
    def name(self) -> str:
        """Of the task."""
        return f"{self.kernel.name}@{len(self.cpus)}"


def one_a_core(topology: Sequence[Cpu]) -> tuple[int, ...]:
    """Return one usable processor of each core of the first package: a sensor covers one package."""
    usable = os.sched_getaffinity(0)
    found = [cpu for cpu in topology if cpu.cpu in usable]
    first = min((cpu.package for cpu in found), default=0)
    cores: dict[int, int] = {}
    for cpu in found:
        if cpu.package == first:
            cores.setdefault(cpu.core, cpu.cpu)
    return tuple(cores.values())


def plan_phases(kernels: Sequence[Kernel], cpus: Sequence[int], *, seed: int = 0) -> list[Phase]:
    """Return each kernel on one, two, half and all of the processors, shuffled."""
    counts = sorted({1, 2, max(len(cpus) // 2, 1), len(cpus)} & set(range(1, len(cpus) + 1)))
    phases = [Phase(kernel, tuple(cpus[:count])) for kernel in kernels for count in counts]
    order = np.random.default_rng(seed).permutation(len(phases))
    return [phases[place] for place in order]
