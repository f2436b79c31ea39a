"""GPUs of a recording that is read window by window.

Where streams are marked (`tprof.gpu`), or no process used a GPU, joules are shared before: marks name their instances,
and all of them are in memory. Otherwise each window shares the joules of its own quanta, as it does for processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    from tprof.analysis.attribution.instances import InstanceRows, Joined
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.windows import Reach, Window

    from tprof.trace import Trace

    from .recipe import Recipe


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


class GpuTally:
    """What instances took of GPUs in all windows so far.

    Attributes
    ----------
    variance_j2 : by distinct name, of the sum of their joules
    """

    def __init__(self, gpus: WindowGpus) -> None:
        """Begin before the first window."""
        self._gpus = gpus
        self._open = {number: OpenClaims(one) for number, one in gpus.unmarked.items()}
        self._joules = np.zeros(len(gpus.shares) + len(gpus.unmarked))
        self._found = np.zeros(len(gpus.shares), np.int64)
        self.variance_j2 = np.zeros(gpus.names)

    def share(self, window: Window, ran: JoinedSegments, joined: Joined) -> None:
        """Add a window; they come in their order."""
        for number, gpu in self._gpus.unmarked.items():
            own = window.quanta[number]
            worked, claims = gpu.part(own).share(ran, joined)
            has_any = np.flatnonzero(claims.first <= claims.last)
            self._open[number].add(own, worked, joined.rows["instance"][has_any], claims.taken(has_any))

    def take(self, rows: InstanceRows, totals: Totals) -> None:
        """Let the instances take their joules that have ended with a window, of the GPUs that count."""
        gpus = self._gpus
        found: list[tuple[Quanta, GpuTotals, NDArray[np.bool_]]] = []
        for number, one in enumerate(gpus.shares):
            joules, is_known = one.of_rows(rows)
            self._found[number] += np.count_nonzero(is_known)
            found.append((one.quanta, joules, one.covers(rows)))
        found += [(gpus.unmarked[number].quanta, *claims.take(rows)) for number, claims in self._open.items()]
        for quanta, joules, covered in found:
            if quanta.counted:
                totals.add_gpu(joules, covered)
        self._joules += [float(joules.joules.sum()) for _, joules, _ in found]
        if totals.gpu is not None:
            # An instance's bounds hold to 95 %.
            at = np.flatnonzero(rows.task < len(gpus.codes))
            error_j = (totals.gpu.most - totals.gpu.least)[at] / 2 / NORMAL_95
            self.variance_j2 += sum_by(gpus.codes[rows.task[at]], error_j**2, gpus.names)

    def settled(self) -> tuple[dict[str, Account], dict[str, list[str]]]:
        """Return the accounts and the warnings of all GPUs, by their names."""
        accounts: dict[str, Account] = {}
        warnings: dict[str, list[str]] = {}
        joules = self._joules.tolist()
        for one, took_j, found in zip(self._gpus.shares, joules, self._found.tolist(), strict=False):
            accounts[one.quanta.name], warnings[one.quanta.name] = one.settled(took_j, found)
        for (number, gpu), took_j in zip(self._gpus.unmarked.items(), joules[len(self._gpus.shares) :], strict=True):
            name = gpu.quanta.name
            accounts[name], warnings[name] = gpu.settled(self._open[number].worked, took_j)
        return accounts, warnings


def without_gpus(domains: tuple[Quanta, ...]) -> tuple[Quanta, ...]:
    """Return the same domains, those of GPUs without quanta."""
    return tuple(one.part(slice(0, 0)) if one.scope == SCOPE else one for one in domains)


def reaches_of_gpus(gpus: WindowGpus | None, domains: Sequence[Quanta]) -> dict[int, Reach]:
    """Return, for each GPU whose quanta windows share, from when to when what ran shows whose their joules are."""
    begins_ns = [int(one.edges_ns[0]) for one in domains if len(one)]
    found = {} if gpus is None else gpus.unmarked
    return {number: reach_of_unmarked(one.quanta, min(begins_ns)) for number, one in found.items()}
