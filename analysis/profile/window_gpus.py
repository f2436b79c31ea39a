"""GPUs of a recording that is read window by window.

Where streams are marked (`tprof.gpu`), or no process used a GPU, joules are shared before: marks name their instances,
and all of them are in memory. Otherwise each window shares the joules of its own quanta, as it does for processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tprof.analysis.attribution.gpu import share_marked
from tprof.analysis.attribution.gpu_use import SCOPE, gpu_use
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.unmarked_gpu import OpenClaims, UnmarkedGpu, reach_of_unmarked
from tprof.analysis.names import places
from tprof.analysis.operating_points.scales import NORMAL_95

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.accounts import Account, GpuTotals, Totals
    from tprof.analysis.attribution.gpu import GpuShares
    from tprof.analysis.attribution.gpu_streams import Claims
    from tprof.analysis.attribution.instances import InstanceRows, Joined
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.windows import Reach, Window

    from tprof.trace import Trace

    from .recipe import Recipe

    Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class GpuSums:
    """What instances took.

    Attributes
    ----------
    joules : (d,) of each GPU, those with marks first
    found : (m,) of each GPU with marks, how many of the marked instances there were
    variance_j2 : by distinct name, of the sum of their joules
    """

    joules: NDArray[np.float64]
    found: NDArray[np.int64]
    variance_j2: NDArray[np.float64]

    def plus(self, later: GpuSums) -> GpuSums:
        """Return the sums of both."""
        return GpuSums(self.joules + later.joules, self.found + later.found, self.variance_j2 + later.variance_j2)


class OpenPart(NamedTuple):
    """What a window gives of a GPU without marks: of its quanta those that worked, and claims of instances."""

    worked: Mask
    ids: NDArray[np.uint64]
    claims: Claims


class _Took(NamedTuple):
    """What instances took of a GPU, which of them it covers, and whether it counts."""

    joules: GpuTotals
    covered: Mask
    counted: bool


@dataclass(frozen=True)
class WindowGpus:
    """The GPUs of a recording, and what their instances may take.

    Attributes
    ----------
    shares : of each GPU with marks
    unmarked : each GPU without, by its number among the domains
    codes, names : the distinct name of each task, and how many there are
    """

    shares: tuple[GpuShares, ...]
    unmarked: dict[int, UnmarkedGpu]
    codes: NDArray[np.int64]
    names: int

    @classmethod
    def of(cls, trace: Trace, recipe: Recipe) -> WindowGpus | None:
        """Share the joules of GPUs with marks; None: there are no GPUs."""
        shares, unmarked = [], {}
        for number, domain in enumerate(recipe.quanta):
            if domain.scope == SCOPE and len(domain):
                use, idle_w = gpu_use(trace, domain.name), recipe.static_power_w.get(domain.name)
                found = share_marked(domain, use, idle_w)
                if found is None:
                    unmarked[number] = UnmarkedGpu.of(domain, use, idle_w)
                else:
                    shares.append(found)
        unique, codes = places([entry.name for entry in trace.tasks])
        return cls(tuple(shares), unmarked, np.asarray(codes, np.int64), len(unique)) if shares or unmarked else None

    def share(self, window: Window, ran: JoinedSegments, joined: Joined) -> tuple[OpenPart, ...]:
        """Return what a window gives of GPUs without marks."""
        found = []
        for number, gpu in self.unmarked.items():
            shared = gpu.part(window.quanta[number]).share(ran, joined)
            has_any = np.flatnonzero(shared.claims.first <= shared.claims.last)
            found.append(OpenPart(shared.worked, joined.rows["instance"][has_any], shared.claims.taken(has_any)))
        return tuple(found)

    def taken(self, rows: InstanceRows, totals: Totals, unmarked: Sequence[_Took]) -> GpuSums:
        """Let instances take their joules of the GPUs that count; returns what they took of all."""
        of_rows = [one.of_rows(rows) for one in self.shares]
        took = [
            _Took(joules, one.covers(rows), one.quanta.counted)
            for one, (joules, _) in zip(self.shares, of_rows, strict=True)
        ]
        took += unmarked
        for one in took:
            if one.counted:
                totals.add_gpu(one.joules, one.covered)
        variance_j2 = np.zeros(self.names)
        if totals.gpu is not None:
            variance_j2 = _variance(totals.gpu, rows.task, self.codes, self.names)
        joules = np.array([float(one.joules.joules.sum()) for one in took])
        found = np.array([np.count_nonzero(is_known) for _, is_known in of_rows], np.int64)
        return GpuSums(joules, found, variance_j2)


class GpuTally:
    """What instances took of GPUs in all windows so far."""

    def __init__(self, gpus: WindowGpus) -> None:
        """Begin before the first window."""
        self._gpus = gpus
        self._open = {number: OpenClaims(one) for number, one in gpus.unmarked.items()}
        self.sums: GpuSums | None = None

    def share(self, window: Window, ran: JoinedSegments, joined: Joined) -> None:
        """Add a window; they come in their order."""
        parts = self._gpus.share(window, ran, joined)
        for (number, one), part in zip(self._open.items(), parts, strict=True):
            one.add(window.quanta[number], *part)

    def take(self, rows: InstanceRows, totals: Totals) -> None:
        """Let the instances take theirs that have ended with a window."""
        took = [
            _Took(*one.take(rows), self._gpus.unmarked[number].quanta.counted) for number, one in self._open.items()
        ]
        sums = self._gpus.taken(rows, totals, took)
        self.sums = sums if self.sums is None else self.sums.plus(sums)

    def settled(self) -> tuple[dict[str, Account], dict[str, list[str]]]:
        """Return the accounts and the warnings of all GPUs, by their names."""
        accounts: dict[str, Account] = {}
        warnings: dict[str, list[str]] = {}
        if self.sums is None:
            return accounts, warnings
        joules = self.sums.joules.tolist()
        for one, took_j, found in zip(self._gpus.shares, joules, self.sums.found.tolist(), strict=False):
            accounts[one.quanta.name], warnings[one.quanta.name] = one.settled(took_j, found)
        for (number, gpu), took_j in zip(self._gpus.unmarked.items(), joules[len(self._gpus.shares) :], strict=True):
            name = gpu.quanta.name
            accounts[name], warnings[name] = gpu.settled(self._open[number].worked, took_j)
        return accounts, warnings


def _variance(gpu: GpuTotals, task: NDArray[np.uint32], codes: NDArray[np.int64], names: int) -> NDArray[np.float64]:
    """Return by distinct name the variance of the joules of instances, J²: an instance's bounds hold to 95 %."""
    at = np.flatnonzero(task < len(codes))
    return sum_by(codes[task[at]], ((gpu.most - gpu.least)[at] / 2 / NORMAL_95) ** 2, names)


def gpu_errors(variance_j2: NDArray[np.float64], instances: NDArray[np.floating | np.integer]) -> NDArray[np.float64]:
    """Return the standard error of the mean GPU joules of so many instances."""
    return np.asarray(np.sqrt(variance_j2) / np.maximum(instances, 1))


def without_gpus(domains: tuple[Quanta, ...]) -> tuple[Quanta, ...]:
    """Return the same domains, those of GPUs without quanta."""
    return tuple(one.part(slice(0, 0)) if one.scope == SCOPE else one for one in domains)


def reaches_of_gpus(gpus: WindowGpus | None, domains: Sequence[Quanta]) -> dict[int, Reach]:
    """Return, for each GPU whose quanta windows share, from when to when what ran shows whose their joules are."""
    begins_ns = [int(one.edges_ns[0]) for one in domains if len(one)]
    found = {} if gpus is None else gpus.unmarked
    return {number: reach_of_unmarked(one.quanta, min(begins_ns)) for number, one in found.items()}
