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
program's part. Cost: O(segments + quanta).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .accounts import Account, GpuTotals
from .gpu_use import split_joules, takes_all_that_ran
from .segment_energy import LocatedSegments, Rate, gather, locate, padded, rates, spread, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.trace.gpu import GpuSegments

    from .accounts import Totals
    from .gpu_use import GpuUse
    from .instances import InstanceRows, Joined
    from .quanta import Quanta
    from .segments import Segments

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
UNMARKED_SHARE = 0.05
MARK = "mark it with @tprof.task(gpu=True), or put `with tprof.gpu():` around what launches"
NONE, SEVERAL = -1, -2


@dataclass(frozen=True)
class _Stream:
    """When one stream worked for which row of some instances, without gaps; row -1: of no instance."""

    located: LocatedSegments
    row: NDArray[np.int64]

    @classmethod
    def of(cls, part: GpuSegments, chosen: slice, row: NDArray[np.int64], edges_ns: Times) -> _Stream:
        """Fill the gaps between a stream's segments with segments that have no share."""
        begin_ns = np.maximum.accumulate(part.begin_ns[chosen])
        end_ns = np.maximum(part.end_ns[chosen], begin_ns)
        # The program of another clock may write segments that overlap: each ends where the next begins.
        end_ns[:-1] = np.minimum(end_ns[:-1], begin_ns[1:])
        t_ns = np.column_stack((begin_ns, end_ns)).reshape(-1)
        works_s = np.zeros(len(t_ns) - 1)
        works_s[::2] = (end_ns - begin_ns) * 1e-9
        rows = np.full(len(works_s), -1)
        rows[::2] = row[chosen]
        return cls(LocatedSegments(t_ns, works_s, locate(t_ns, edges_ns)), rows)


@dataclass(frozen=True)
class GpuShares:
    """One GPU's joules, shared among instances; those that a trace does not have leave theirs to `runtime`.

    Attributes
    ----------
    quanta : of the GPU
    ids : (m,) uint64, of the instances
    totals : what each of them may take
    account : of the others; `runtime_j` are joules of no instance
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
        return GpuTotals(*(np.where(is_known, one[place], 0.0) for one in of_ids)), is_known

    def covers(self, rows: InstanceRows) -> NDArray[np.bool_]:
        """Return which instances a valid quantum covers, at least in part."""
        first = np.searchsorted(self.quanta.edges_ns, rows.start_ns, side="right")
        last = np.maximum(np.searchsorted(self.quanta.edges_ns, rows.end_ns, side="left"), first)
        return np.asarray(self._valid[last] > self._valid[np.maximum(first - 1, 0)])

    def settled(self, tasks_j: float, found: int) -> tuple[Account, list[str]]:
        """Return the GPU's account and warnings, where so many instances were found, with so many joules."""
        if not self.quanta.valid.any():
            return self.account, list(self.warnings)
        missed_j = max(float(self.totals.joules.sum()) - tasks_j, 0.0)
        account = replace(self.account, tasks_j=tasks_j, runtime_j=self.account.runtime_j + missed_j)
        warnings = list(self.warnings)
        if self.is_window and found < len(self.ids) and missed_j > 0:
            late = f"{missed_j:.3g} J on {self.quanta.name} in this window are of work whose tasks ran before it"
            warnings.append(f"{late} (in `runtime`): the whole recording gives them to these tasks")
        return account, warnings

    @cached_property
    def _valid(self) -> NDArray[np.int64]:
        return np.cumsum(np.concatenate(([False], self.quanta.valid, [False])))


def share_marked(quanta: Quanta, use: GpuUse, idle_w: float | None) -> GpuShares | None:
    """Share one GPU's joules among the instances for which streams are marked; None: it takes all that ran to tell."""
    if takes_all_that_ran(use):
        return None
    ids = np.unique(np.concatenate([np.empty(0, np.uint64), *(part.instance for part in use.parts)]))
    ids = ids[ids != 0]
    streams = _streams(use, ids, quanta.edges_ns)
    return _shares(quanta, use, idle_w, ids, streams, np.ones(len(quanta), bool))


def settle_gpu(
    quanta: Quanta,
    use: GpuUse,
    idle_w: float | None,
    segments: Sequence[Segments],
    joined: Joined,
    totals: Totals | None,
) -> tuple[Account, list[str]]:
    """Distribute one GPU's joules and return its account and warnings; adds to `totals` if the domain counts."""
    rows = joined.rows
    shares = share_marked(quanta, use, idle_w)
    if shares is None:
        shares = _shares(quanta, use, idle_w, rows.instance, *_only_task(quanta, use, segments, joined))
        of_rows, found = shares.totals, len(rows)
    else:
        of_rows, is_known = shares.of_rows(rows)
        found = int(is_known.sum())
    if totals is not None:
        totals.add_gpu(of_rows, shares.covers(rows))
    return shares.settled(float(of_rows.joules.sum()), found)


def _shares(
    quanta: Quanta,
    use: GpuUse,
    idle_w: float | None,
    ids: NDArray[np.uint64],
    streams: Sequence[_Stream],
    may: NDArray[np.bool_],
) -> GpuShares:
    """Share the joules among the instances for which streams worked, in the quanta in which they may have any."""
    warnings = list(use.warnings)
    if idle_w is None:
        warnings.append(
            f"the idle power of {quanta.name} is not known, and counts as the program's: record some idle time before "
            "the block (idle_s=0.5)"
        )
    split = split_joules(quanta, use, idle_w or 0.0)
    claimed_s = sum((spread(one.located, quanta.edges_ns) for one in streams), np.zeros(len(quanta) + 2))
    worked = (claimed_s[1:-1] > 0) & may
    nobody = split.nobody & ~worked
    shared_j = np.where(worked, split.own, 0.0)
    totals = _of_instances(quanta, shared_j, claimed_s, streams, len(ids))
    loose_j = float(split.own[~worked & ~nobody].sum())
    account = Account(quanta.name, *[float("nan")] * 7)
    if quanta.valid.any():
        warnings += _unmarked(quanta.name, loose_j, float(split.own.sum()), marked=bool(use.parts))
        outside_j = max(float(shared_j.sum()) - float(totals.joules.sum()), 0.0)
        idle_j = float(split.idle.sum()) + float(split.own[nobody].sum())
        other_j = float(split.other.sum())
        account = Account(quanta.name, quanta.measured_j, 0.0, outside_j + loose_j, other_j, idle_j)
    return GpuShares(quanta, ids, totals, account, tuple(warnings), use.is_window)


def _unmarked(name: str, loose_j: float, own_j: float, *, marked: bool) -> list[str]:
    if loose_j <= UNMARKED_SHARE * own_j or own_j <= 0:
        return []
    part = f"{loose_j / own_j:.0%} of this program's joules on {name} (in `runtime`)"
    why = "are of times in which no task was marked on it" if marked else "could be of several tasks"
    return [f"{part} {why}: if it is a task's work, {MARK}"]


def _streams(use: GpuUse, ids: NDArray[np.uint64], edges_ns: Times) -> list[_Stream]:
    """Return the marked streams; their rows are the places of their instances in `ids`, which increase."""
    streams = []
    for part in use.parts:
        row = np.where(part.instance != 0, np.searchsorted(ids, part.instance), -1)
        bounds = np.flatnonzero(np.diff(part.stream)) + 1
        starts, ends = np.concatenate(([0], bounds)), np.concatenate((bounds, [len(part.stream)]))
        streams += [
            _Stream.of(part, slice(a, b), row, edges_ns) for a, b in zip(starts, ends, strict=True) if b > a
        ]  # fmt: skip
    return streams


def _only_task(
    quanta: Quanta, use: GpuUse, segments: Sequence[Segments], joined: Joined
) -> tuple[list[_Stream], NDArray[np.bool_]]:
    """Return what ran in processes that use GPUs, and in which quanta it was one task only, as in those before."""
    edges_ns = quanta.edges_ns
    streams: list[_Stream] = []
    only = np.full(len(quanta) + 2, NONE)
    for index, thread in enumerate(segments):
        if use.launchers is not None and thread.thread.process not in use.launchers:
            continue
        runs_s = np.where(thread.slot > 0, np.diff(thread.t_ns) * 1e-9, 0.0)
        located = LocatedSegments(thread.t_ns, runs_s, locate(thread.t_ns, edges_ns))
        place = joined.places[index]
        rows = np.arange(place.start, place.stop) if isinstance(place, slice) else place
        row = np.concatenate(([-1], rows))[thread.slot]
        streams.append(_Stream(located, row))
        at = np.flatnonzero(runs_s > 0)
        _merge(only, *_span(located, at, edges_ns), joined.rows.task[row[at]].astype(np.int64))
    before = np.concatenate(([NONE], only[:-1]))
    # Kernels may run on after the task that launched them has returned.
    both = np.where((before == only) | (before == NONE), only, SEVERAL)
    return streams, both[1:-1] >= 0


def _span(located: LocatedSegments, at: NDArray[np.intp], edges_ns: Times) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the first and the last quantum of some segments; one that ends on an edge is not in the next quantum."""
    last = located.quantum[at + 1].astype(np.int64)
    last -= (last > 0) & (edges_ns[np.maximum(last - 1, 0)] == located.t_ns[at + 1])
    first = located.quantum[at].astype(np.int64)
    return first, np.maximum(last, first)


def _merge(only: NDArray[np.int64], first: NDArray[Any], last: NDArray[Any], value: NDArray[np.int64]) -> None:
    """Note in each quantum from the first to the last of segments their value, or that there are several."""
    counts = last - first + 1
    owner = np.repeat(np.arange(len(counts)), counts)
    quantum = first[owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    least, most = np.full(len(only), np.iinfo(np.int64).max), np.full(len(only), -1)
    np.minimum.at(least, quantum, value[owner])
    np.maximum.at(most, quantum, value[owner])
    there = most >= 0
    one = there & (least == most) & ((only == NONE) | (only == most))
    only[there & ~one] = SEVERAL
    only[one] = most[one]


def _of_instances(
    quanta: Quanta, shared_j: Floats, claimed_s: Floats, streams: Sequence[_Stream], count: int
) -> GpuTotals:
    """Share the joules of quanta among so many rows of the streams, by time; the rest is of no instance."""
    edges_ns = quanta.edges_ns
    owner = np.full(len(quanta) + 2, NONE)
    for one in streams:
        at = np.flatnonzero(one.located.modelled > 0)
        _merge(owner, *_span(one.located, at, edges_ns), one.row[at] + 1)
    per_s = rates(padded(shared_j), claimed_s)
    rate, alone = Rate.of(per_s, edges_ns), Rate.of(np.where(owner > 0, per_s, 0.0), edges_ns)
    total = np.concatenate(([0.0], np.cumsum(padded(shared_j))))
    joules, least, most = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1)
    first, last = np.full(count + 1, len(quanta) + 1), np.zeros(count + 1, np.int64)
    for one in streams:
        at = np.flatnonzero(one.located.modelled > 0)
        row, (begin, end) = one.row + 1, _span(one.located, at, edges_ns)
        joules += sum_by(row, gather(one.located, edges_ns, rate).energy_j, count + 1)
        least += sum_by(row, gather(one.located, edges_ns, alone).energy_j, count + 1)
        most += sum_by(row[at], total[end + 1] - total[begin], count + 1)
        np.minimum.at(first, row[at], begin)
        np.maximum.at(last, row[at], end)
    extent_j = np.where(last >= first, total[last + 1] - total[np.minimum(first, last)], 0.0)
    most = np.maximum(np.minimum(most, extent_j), joules)
    return GpuTotals(joules[1:], np.minimum(least, joules)[1:], most[1:])
