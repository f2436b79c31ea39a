"""What a calibration runs: each kernel on each number of cores, in an order that hides no drift.

Kernels that run at once have a processor each and stand under a task of their name.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.benchmarks import polybench
from tprof.benchmarks.kernels import kernels

import tprof
from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.benchmarks.kernels import Caches, Kernel

    from tprof.sensors.topology import Cpu

SETS = ("stress", "polybench", "all")


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


@dataclass(frozen=True)
class Part:
    """What one processor runs, and what the task is called."""

    task: str
    kernel: Kernel
    cpu: int


def run_together(parts: Sequence[Part], seconds: float) -> None:
    """Run them: all begin together, each with a working set of its own that it has touched itself."""
    together = threading.Barrier(len(parts))
    failed: list[BaseException] = []

    def work(part: Part) -> None:
        try:
            os.sched_setaffinity(0, {part.cpu})
            kernel = part.kernel.prepare()
            together.wait()
            with tprof.region(part.task):
                kernel(seconds)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            together.abort()
            failed.append(error)

    threads = [threading.Thread(target=work, args=(part,), name=f"kernel-{part.cpu}") for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = next((error for error in failed if not isinstance(error, threading.BrokenBarrierError)), None)
    if first is not None:
        raise first


def chosen(name: str, caches: Caches, cores: int) -> tuple[Kernel, ...]:
    """Return the kernels of a set.

    Parameters
    ----------
    name
        ``"stress"``, ``"polybench"`` or ``"all"``.
    caches, cores
        Decide over the working sets of the stress kernels; PolyBench's have their own.

    Raises
    ------
    UsageError
        If there is no such set.
    """
    check_set(name)
    stress = () if name == "polybench" else kernels(caches, cores)
    return stress if name == "stress" else stress + polybench.loads()


def check_set(name: str) -> None:
    """Refuse what is none of `SETS`. Raises UsageError."""
    if name not in SETS:
        raise UsageError(f'kernels must be {", ".join(SETS[:-1])} or {SETS[-1]}; got "{name}"')
