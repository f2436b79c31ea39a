"""GPUs of a recording that is read window by window: their joules are shared before, and instances take theirs.

For that streams must be marked (`tprof.gpu`), or no process may have used a GPU. Marks name their instances; all of
them are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.gpu import share_marked
from tprof.analysis.attribution.gpu_use import SCOPE, gpu_use
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.names import places
from tprof.analysis.operating_points.scales import NORMAL_95

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tprof.analysis.attribution.accounts import Account, GpuTotals, Totals
    from tprof.analysis.attribution.gpu import GpuShares
    from tprof.analysis.attribution.instances import InstanceRows
    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Trace

    from .recipe import Recipe


@dataclass(frozen=True)
class GpuSums:
    """What instances took.

    Attributes
    ----------
    joules : (d,) of each GPU
    found : (d,) how many of the marked instances there were
    variance_j2 : by distinct name, of the sum of their joules
    """

    joules: NDArray[np.float64]
    found: NDArray[np.int64]
    variance_j2: NDArray[np.float64]

    def plus(self, later: GpuSums) -> GpuSums:
        """Return the sums of both."""
        return GpuSums(self.joules + later.joules, self.found + later.found, self.variance_j2 + later.variance_j2)


@dataclass(frozen=True)
class WindowGpus:
    """The GPUs of a recording, and what marked instances may take.

    Attributes
    ----------
    shares : of each GPU
    codes, names : the distinct name of each task, and how many there are
    """

    shares: tuple[GpuShares, ...]
    codes: NDArray[np.int64]
    names: int

    @classmethod
    def of(cls, trace: Trace, recipe: Recipe) -> WindowGpus | None:
        """Share the joules of GPUs; None: there are none, or it takes all that ran to tell whose they are."""
        shares = []
        for domain in recipe.quanta:
            if domain.scope == SCOPE and len(domain):
                found = share_marked(domain, gpu_use(trace, domain.name), recipe.static_power_w.get(domain.name))
                if found is None:
                    return None
                shares.append(found)
        unique, codes = places([entry.name for entry in trace.tasks])
        return cls(tuple(shares), np.asarray(codes, np.int64), len(unique)) if shares else None

    def taken(self, rows: InstanceRows, totals: Totals, which: NDArray[np.bool_]) -> GpuSums:
        """Let instances take their joules of the GPUs that count; returns what some of them took of all."""
        joules, found = np.zeros(len(self.shares)), np.zeros(len(self.shares), np.int64)
        for number, one in enumerate(self.shares):
            of_rows, is_known = one.of_rows(rows)
            joules[number] = of_rows.joules[which].sum()
            found[number] = np.count_nonzero(is_known & which)
            if one.quanta.counted:
                totals.add_gpu(of_rows, one.covers(rows))
        variance_j2 = np.zeros(self.names)
        if totals.gpu is not None:
            variance_j2 = gpu_variance(totals.gpu, rows.task, which, self.codes, self.names)
        return GpuSums(joules, found, variance_j2)

    def settled(self, sums: GpuSums) -> tuple[dict[str, Account], dict[str, list[str]]]:
        """Return the accounts and the warnings of all GPUs, by their names."""
        settled = {
            one.quanta.name: one.settled(float(joules), int(found))
            for one, joules, found in zip(self.shares, sums.joules, sums.found, strict=True)
        }
        return {name: one[0] for name, one in settled.items()}, {name: one[1] for name, one in settled.items()}


def gpu_variance(
    gpu: GpuTotals, task: NDArray[np.uint32], which: NDArray[np.bool_], codes: NDArray[np.int64], names: int
) -> NDArray[np.float64]:
    """Return by distinct name the variance of the joules of some instances, J²: an instance's bounds hold to 95 %."""
    at = np.flatnonzero(which & (task < len(codes)))
    return sum_by(codes[task[at]], ((gpu.most - gpu.least)[at] / 2 / NORMAL_95) ** 2, names)


def gpu_errors(variance_j2: NDArray[np.float64], instances: NDArray[np.floating | np.integer]) -> NDArray[np.float64]:
    """Return the standard error of the mean GPU joules of so many instances."""
    return np.asarray(np.sqrt(variance_j2) / np.maximum(instances, 1))


def without_gpus(domains: tuple[Quanta, ...]) -> tuple[Quanta, ...]:
    """Return the same domains, those of GPUs without quanta."""
    return tuple(one.part(slice(0, 0)) if one.scope == SCOPE else one for one in domains)
