"""Shares a GPU's joules by the time in which it worked for each instance; the processors' load has no part in it.

In each quantum the idle power goes to the account `idle` first, as it was before the program began. The rest is
dynamic:

- `other` gets the part of other processes, by the utilisation of each process that the driver samples.
- What remains is this program's. It goes to the instances for which streams worked in that quantum, in proportion to
  the time (`tprof.gpu`, CUDA events). A stream that waits for its program counts as working, so two tasks that overlap
  share by the length of their segments, not by their kernels.
- Where no stream is marked it goes to `idle` if the driver says that nobody used the GPU, else to `runtime`. A program
  that marks nothing at all is an exception: if in a quantum and in the one before only one task ran in the processes
  that use GPUs, kernels can only be that task's, and its instances share by their time.

An instance's joules are certain in quanta that it has for itself. In the others they are between 0 and all of the
program's part. Cost: O(segments + quanta) time; memory holds some quanta and the marks of their time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tprof.trace.long_arrays import is_any, release, total

from .accounts import Account, GpuTotals
from .gpu_marks import MarkedClaims, marked_ids, marked_work
from .gpu_use import Booked, GpuSplit, takes_all_that_ran, warnings_of
from .unmarked_gpu import covers, valid_up_to

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .gpu_use import GpuUse
    from .instances import InstanceRows
    from .quanta import Quanta


@dataclass(frozen=True)
class GpuShares:
    """One GPU's joules, shared among instances; those that a trace does not have leave theirs to `runtime`.

    Long arrays are those of `long_arrays`.

    Attributes
    ----------
    quanta : of the GPU
    ids : (m,) uint64, of the instances
    totals : what each of them may take
    account : if all of them are there
    warnings : whatever instances there are
    is_window : whether the trace is a window of a recording
    """

    quanta: Quanta
    ids: NDArray[np.uint64]
    totals: GpuTotals
    account: Account
    warnings: tuple[str, ...]
    is_window: bool

    def of_rows(self, rows: InstanceRows) -> tuple[GpuTotals, NDArray[np.bool_]]:
        """Return the joules of a table's instances, and which of them have any share; the ids must increase."""
        if not len(self.ids):
            return GpuTotals(*np.zeros((3, len(rows)))), np.zeros(len(rows), bool)
        place = np.minimum(np.searchsorted(self.ids, rows.instance), len(self.ids) - 1)
        is_known = self.ids[place] == rows.instance
        of_ids = (self.totals.joules, self.totals.least, self.totals.most)
        found = GpuTotals(*(np.where(is_known, one[place], 0.0) for one in of_ids))
        release(self.ids, *of_ids)
        return found, is_known

    def covers(self, rows: InstanceRows) -> NDArray[np.bool_]:
        """Return which instances a valid quantum covers, at least in part."""
        return covers(self.quanta.edges_ns, self._valid, rows)

    def settled(self, tasks_j: float, found: int) -> tuple[Account, list[str]]:
        """Return the GPU's account and warnings, where so many instances were found, with so many joules."""
        if not is_any(self.quanta.valid):
            return self.account, list(self.warnings)
        missed_j = max(total(self.totals.joules) - tasks_j, 0.0)
        account = replace(self.account, tasks_j=tasks_j, runtime_j=self.account.runtime_j + missed_j)
        warnings = list(self.warnings)
        if self.is_window and found < len(self.ids) and missed_j > 0:
            late = f"{missed_j:.3g} J on {self.quanta.name} in this window are of work whose tasks ran before it"
            warnings.append(f"{late} (in `runtime`): the whole recording gives them to these tasks")
        return account, warnings

    @cached_property
    def _valid(self) -> NDArray[np.int64]:
        return valid_up_to(self.quanta.valid)


def share_marked(quanta: Quanta, use: GpuUse, idle_w: float | None) -> GpuShares | None:
    """Share one GPU's joules among the instances for which streams are marked; None: it takes all that ran to tell."""
    if takes_all_that_ran(use):
        return None
    claims, booked = MarkedClaims(marked_ids(use.parts), len(quanta)), Booked()
    for own, ids, work in marked_work(use.parts, quanta.edges_ns):
        split, worked = GpuSplit.of(quanta.part(own), use, idle_w), work.worked_s[1:-1] > 0
        claims.add(own, ids, work, np.where(worked, split.own, 0.0))
        booked = booked.plus(split.booked(worked))
    totals = claims.totals()
    account, warnings = booked.settled(quanta, total(totals.joules), marked=bool(use.parts))
    warnings = (*warnings_of(quanta.name, use, idle_w), *warnings)
    return GpuShares(quanta, claims.ids, totals, account, warnings, use.is_window)
