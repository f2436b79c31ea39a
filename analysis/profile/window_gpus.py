"""GPUs of a recording that is read window by window.

Where streams are marked (`tprof.gpu`), or no process used a GPU, joules are shared before: marks name their instances,
and all of them are in memory. Otherwise each window shares the joules of its own quanta, as it does for processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.gpu import Gpu, GpuShares
from tprof.analysis.attribution.quanta import GPU
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.names import places
from tprof.analysis.operating_points.scales import NORMAL_95

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.accounts import Account
    from tprof.analysis.attribution.instances import Ended
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.windows import Reach, Window

    from tprof.trace import Trace

    from .recipe import Recipe


@dataclass(frozen=True)
class WindowGpus:
    """The GPUs of a recording.

    Attributes
    ----------
    gpus : by their numbers among the domains
    codes, names : the distinct name of each task, and how many there are
    """

    gpus: dict[int, Gpu]
    codes: NDArray[np.int64]
    names: int

    @classmethod
    def of(cls, trace: Trace, recipe: Recipe) -> WindowGpus | None:
        """Look at all GPUs; None: there are none."""
        gpus = {
            number: Gpu.of(trace, domain, recipe.static_power_w.get(domain.name))
            for number, domain in enumerate(recipe.quanta)
            if domain.scope == GPU and len(domain)
        }
        unique, codes = places([entry.name for entry in trace.tasks])
        return cls(gpus, np.asarray(codes, np.int64), len(unique)) if gpus else None

    def reaches(self, begin_ns: int) -> dict[int, Reach]:
        """Return, for each GPU whose quanta windows share, from when to when what ran shows whose their joules are."""
        return {number: one.reach(begin_ns) for number, one in self.gpus.items() if one.takes_all_that_ran}


class GpuTally:
    """What instances took of GPUs in all windows so far.

    Attributes
    ----------
    variance_j2 : by distinct name, of the sum of their joules
    """

    def __init__(self, gpus: WindowGpus) -> None:
        """Begin before the first window."""
        self._shares = {number: GpuShares(one) for number, one in gpus.gpus.items()}
        self._codes = gpus.codes
        self.variance_j2 = np.zeros(gpus.names)

    def share(self, window: Window, ran: JoinedSegments) -> None:
        """Add a window; they come in their order."""
        for number, one in self._shares.items():
            one.share(window.quanta[number], ran)

    def take(self, ended: Ended) -> None:
        """Let the instances take their joules that have ended with a window, of the GPUs that count."""
        for one in self._shares.values():
            found, covered = one.take(ended.records)
            if one.gpu.quanta.counted:
                for name, more_j in zip(("gpu_j", "gpu_low_j", "gpu_high_j"), found, strict=True):
                    ended.joules[name] = ended.joules.get(name, 0.0) + more_j
                ended.joules["covered"] |= covered
        if "gpu_j" in ended.joules:
            # An instance's bounds hold to 95 %.
            task = ended.records["task"]
            at = np.flatnonzero(task < len(self._codes))
            error_j = (ended.joules["gpu_high_j"] - ended.joules["gpu_low_j"])[at] / 2 / NORMAL_95
            self.variance_j2 += sum_by(self._codes[task[at]], error_j**2, len(self.variance_j2))

    def settled(self) -> tuple[dict[str, Account], dict[str, list[str]]]:
        """Return the accounts and the warnings of all GPUs, by their names."""
        found = {one.gpu.quanta.name: one.settled() for one in self._shares.values()}
        return {name: account for name, (account, _) in found.items()}, {
            name: said for name, (_, said) in found.items()
        }


def without_gpus(domains: Sequence[Quanta]) -> tuple[Quanta, ...]:
    """Return the same domains, those of GPUs without quanta."""
    return tuple(one.part(slice(0, 0)) if one.scope == GPU else one for one in domains)
