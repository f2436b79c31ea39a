"""What each sampled stack stands for: the joules and seconds of its thread since the sample before.

Segments are cut where stacks were sampled and share the joules once more, so that a stack gets the power of its own
time, not its segment's mean. A stack in a segment shorter than the time between samples stands for the others like it:
its weight is its segment's power times the whole time since the sample before, though for no more than the CPU time
that its thread's clock shows around it.

A segment may lie in several windows, each of which gives a part. `OpenStacks` adds these in their order: of a segment
its joules and those of its pieces, whose ratio scales the weights of its stacks, and of a stack the power of its piece.
Distinct stacks of an instance are few, so sums are kept by instance and stack, O(n log n) for n samples of a window.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.stack_cuts import Cuts, cut_at

from tprof.trace.array_file import ArrayFile

from .stack_rows import StackRows, added, joined, pool_stacks
from .tables import divided

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.attribution.stack_samples import Key, SampledStacks, ThreadStacks
    from tprof.analysis.attribution.windows import Window

    from tprof.trace.array_file import Place

    from .recipe import Again

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_NO_SPACE = (
    "cannot write a temporary file of 56 bytes a sampled stack into {folder}, which a long recording needs (set TMPDIR "
    "to another folder)"
)


class _OpenSegments(NamedTuple):
    """Parts of segments, of which other windows may have parts too: which they are, (n,) each, and (2, n) joules.

    The joules are those of the segments and of their pieces.
    """

    thread: Integers
    begin_ns: Integers
    end_ns: Integers
    sums: Floats


class _OpenStacks(NamedTuple):
    """Stacks in such segments.

    Attributes
    ----------
    thread, begin_ns : (n,) of their segment
    number : (n,) of each among the samples of its thread
    end_ns : (n,) when the piece ends whose power they have
    instance, stack : (n,) as of `StackRows`
    sums : (3, n) joules before they are scaled, seconds and number, as far as this window knows them
    """

    thread: Integers
    begin_ns: Integers
    number: Integers
    end_ns: Integers
    instance: NDArray[np.uint64]
    stack: Integers
    sums: Floats


@dataclass(frozen=True)
class StackShares:
    """What a window gives of sampled stacks.

    Attributes
    ----------
    of_pools : stacks of threads that work for instances
    segments, stacks : parts of segments, and stacks in them
    outside : by ordinal of a thread, its joules outside tasks and its CPU seconds there
    """

    of_pools: StackRows
    segments: _OpenSegments
    stacks: _OpenStacks
    outside: dict[int, tuple[float, float]]


def share_stacks(
    window: Window,
    activity: Activity,
    stacks: Mapping[Key, ThreadStacks],
    plans: Sequence[tuple[Sharing, Again]],
) -> StackShares:
    """Weigh the stacks that were sampled in a window.

    Parameters
    ----------
    window, activity : what ran in it
    stacks : its samples by thread, of threads that have any at any time
    plans : the shares of each domain that counts, and what computes them among pieces
    """
    threads = activity.segments
    pools = [pool.segments for pool in activity.pools]
    whole_counts = [*(len(one.slot) for one in threads), *(len(one.slot) for one in pools)]
    whole_j = _energies((plan for plan, _ in plans), whole_counts)
    whole_j, pools_j = whole_j[: len(threads)], whole_j[len(threads) :]
    cuts = deque(cut_at(one, stacks[one.thread.ordinal]) if one.thread.ordinal in stacks else None for one in threads)
    part_j = whole_j
    if any(cut is not None and len(cut.before) for cut in cuts):
        segments = [one if cut is None else cut.segments for one, cut in zip(threads, cuts, strict=True)]
        owners, counts = [None if cut is None else cut.owner for cut in cuts], [len(one.slot) for one in segments]
        pieces = activity.ran.replaced(segments)
        del segments
        part_j = _energies((again(replace(activity, ran=pieces), owners) for _, again in plans), counts)
        del pieces, owners
    outside: dict[int, tuple[float, float]] = {}
    found = []
    for one, energy_j, piece_j in zip(threads, whole_j, part_j, strict=True):
        is_outside = one.slot == 0
        own = is_outside & (one.t_ns[:-1] >= window.own_ns[0]) & (one.t_ns[:-1] < window.own_ns[1])
        outside[one.thread.ordinal] = float(energy_j[is_outside].sum()), float(one.cpu_s[own].sum())
        cut = cuts.popleft()  # its arrays are as large as all segments
        if cut is not None:
            found.append(_of_thread(window, one, stacks[one.thread.ordinal], cut, energy_j, piece_j))
    segments_of, stacks_of = zip(_nothing(), *found, strict=True)
    of_pools = pool_stacks(window, activity, stacks, pools_j)
    return StackShares(of_pools, _OpenSegments(*joined(*segments_of)), _OpenStacks(*joined(*stacks_of)), outside)


def _energies(sharings: Iterable[Sharing], counts: Sequence[int]) -> list[Floats]:
    """Return the joules of each thread's segments, of which there are so many."""
    found = [np.zeros(count) for count in counts]
    for sharing in sharings:
        for total_j, energy_j in zip(found, sharing.energies(), strict=False):
            np.add(total_j, energy_j, out=total_j)
    return found


def _nothing() -> tuple[_OpenSegments, _OpenStacks]:
    ids, whole = np.empty(0, np.uint64), np.empty(0, np.int64)
    segments = _OpenSegments(whole, whole, whole, np.empty((2, 0)))
    return segments, _OpenStacks(whole, whole, whole, whole, ids, whole, np.empty((3, 0)))


def _of_thread(
    window: Window,
    one: Segments,
    stacks: ThreadStacks,
    cut: Cuts,
    energy_j: Floats,
    piece_j: Floats,
) -> tuple[_OpenSegments, _OpenStacks]:
    """Return what a thread gives, whose segments and pieces have these joules."""
    begin_ns, end_ns = one.t_ns[:-1], one.t_ns[1:]
    sum_j = sum_by(cut.owner, piece_j, len(energy_j))
    open_ = np.flatnonzero((end_ns > begin_ns) & (end_ns > window.own_ns[0]))
    length_ns = np.diff(cut.segments.t_ns)
    # A sample at the very begin of its segment ends a piece of the one before, or none.
    at = np.where(length_ns[cut.before] > 0, cut.before, np.minimum(cut.before + 1, len(length_ns) - 1))
    of_segment = cut.owner[at]
    gap_s = stacks.gap_ns[cut.sample] * 1e-9
    times = divided(gap_s, length_ns[at] * 1e-9, 0.0)
    if stacks.around_ns is not None:
        most = divided(stacks.around_ns[cut.sample] * 1e-9, cut.segments.cpu_s[at], 0.0)
        times = np.minimum(times, np.maximum(most, 1.0))
    t_ns = stacks.t_ns[cut.sample]
    own = (t_ns >= window.own_ns[0]) & (t_ns < window.own_ns[1])
    instance = np.append(np.uint64(0), one.rows.instance)[one.slot[of_segment]]
    stack = stacks.stack[cut.sample].astype(np.int64)
    joules, seconds, count = piece_j[at] * times, np.where(own, gap_s, 0.0), own.astype(np.float64)
    kept = np.flatnonzero(own | (joules > 0))
    number = stacks.first + cut.sample.start + kept
    ordinal = one.thread.ordinal
    segments = np.full(len(open_), ordinal), begin_ns[open_], end_ns[open_], np.stack((energy_j, sum_j))[:, open_]
    return _OpenSegments(*segments), _OpenStacks(
        np.full(len(kept), ordinal), begin_ns[of_segment[kept]], number, cut.segments.t_ns[at[kept] + 1],
        instance[kept], stack[kept], np.stack((joules, seconds, count))[:, kept],
    )  # fmt: skip


@dataclass
class OpenStacks:
    """Stacks whose segments may run on from one window into the next.

    Attributes
    ----------
    outside : by ordinal of a thread, its joules outside tasks and its CPU seconds there, of all windows so far
    """

    outside: dict[int, Floats] = field(default_factory=dict)
    _segments: _OpenSegments = field(default_factory=lambda: _nothing()[0])
    _stacks: _OpenStacks = field(default_factory=lambda: _nothing()[1])
    _known: list[NDArray[Any]] = field(default_factory=list)
    _sums: Floats = field(default_factory=lambda: np.empty((4, 0)))

    def __post_init__(self) -> None:
        """Begin without stacks of segments that go on."""
        none = self._stacks
        self._known = [none[0], none[1], none[4], none[5]]

    def advance(self, window: Window, shares: StackShares) -> StackRows:
        """Add what the next window gives; returns the stacks whose weights are known now."""
        for ordinal, values in shares.outside.items():
            self.outside[ordinal] = self.outside.get(ordinal, np.zeros(2)) + values
        end_ns = window.own_ns[1]
        self._end_pieces(shares.stacks, end_ns)
        thread, begin_ns, ends_ns, sums = joined(self._segments, shares.segments)
        (thread, begin_ns, ends_ns), sums = added((thread, begin_ns, ends_ns), sums)
        over = ends_ns <= end_ns
        of_segment = _places((self._known[0], self._known[1]), (thread, begin_ns))
        done = over[of_segment]
        scale = divided(sums[0], sums[1], 0.0)[of_segment][done]
        factors = np.stack((scale, np.ones(len(scale)), scale**2, np.ones(len(scale))))
        of_thread, _, instance, stack = (one[done] for one in self._known)
        found = StackRows.of(instance, of_thread, stack, self._sums[:, done] * factors)
        self._known, self._sums = [one[~done] for one in self._known], self._sums[:, ~done]
        self._segments = _OpenSegments(thread[~over], begin_ns[~over], ends_ns[~over], sums[:, ~over])
        return shares.of_pools.plus(found)

    def _end_pieces(self, stacks: _OpenStacks, end_ns: int) -> None:
        """Add stacks by segment once the piece has ended whose power they have: no later window has a part of it."""
        *keys, sums = joined(self._stacks, stacks)
        keys, sums = added(keys, sums)
        _, _, _, ends_ns, _, _ = keys
        done = ends_ns <= end_ns
        self._stacks = _OpenStacks(*(one[..., ~done] for one in (*keys, sums)))
        thread, begin_ns, _, _, instance, stack = (one[done] for one in keys)
        joules, seconds, count = sums[:, done]
        ended = np.stack((joules, seconds, joules**2, count))
        known = joined(self._known, (thread, begin_ns, instance, stack))
        self._known, self._sums = added(known, np.concatenate((self._sums, ended), axis=1))


def _places(keys: Sequence[Integers], among: Sequence[Integers]) -> NDArray[np.intp]:
    """Return where pairs are among distinct pairs in order, which hold them all."""
    order = np.lexsort(joined(among, keys)[::-1])
    number = np.empty(len(order), np.intp)
    is_first = order < len(among[0])
    number[order] = np.cumsum(is_first) - 1
    return number[len(among[0]) :]


class StoredStacks:
    """The sampled stacks of a recording that is read in windows, in a file, by the window in which they were known.

    Attributes
    ----------
    sampled : the samples
    outside : as of `OpenStacks`
    """

    def __init__(self, sampled: SampledStacks) -> None:
        """Begin without windows."""
        self.sampled = sampled
        self._open, self._file = OpenStacks(), ArrayFile(_NO_SPACE)
        self._places: list[Place] = []

    def add(self, window: Window, shares: StackShares) -> None:
        """Add what the next window gives. Raises TprofError if there is no space."""
        self._places.append(self._file.add(*self._open.advance(window, shares)))

    def rows(self, number: int) -> StackRows:
        """Return the stacks whose weights were known after a window."""
        return StackRows(*self._file.read(self._places[number]))

    @property
    def outside(self) -> dict[int, Floats]:
        """Those of all windows so far."""
        return self._open.outside
