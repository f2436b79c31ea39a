"""What each sampled stack stands for: the joules and seconds of its thread since the sample before.

Segments are cut where stacks were sampled and share the joules once more, so that a stack gets the power of its own
time, not its segment's mean. A stack in a segment shorter than the time between samples stands for the others like it:
its weight is its segment's power times the whole time since the sample before, though for no more than the CPU time
that its thread's clock shows around it.

A segment may lie in several windows, each of which gives a part. `StackShares` adds these in their order: of a segment
its joules and those of its pieces, whose ratio scales the weights of its stacks, and of a stack the power of its piece.
Distinct stacks of an instance are few, so sums are kept by instance and stack, O(n log n) for n samples of a window.

Threads that Python started and that have no samples are under the instances that they work for. What such a thread runs
is its own, not its caller's: of the joules that its pool took for an instance, each of its stacks has the part of the
CPU time since the sample before. Their sums are of CPU seconds therefore, beside one row an instance with these joules
(`NO_STACK`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.attribution.natives.segments import OF_TASK
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.segments import begun_in
from tprof.analysis.attribution.stack_samples import NO_SAMPLES, Cuts, SampledStacks, cut_at

from .tables import divided

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.attribution.stack_samples import ThreadStacks
    from tprof.analysis.attribution.windows import Window

    from .fits import Planned

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
NO_THREAD, POOL = -1, -2
NO_STACK = -1
SUMS = ["joules", "seconds", "squares", "count"]
OWNERS = ["instance", "thread", "stack"]
_STACK = ["thread", "begin_ns", "end_ns", "instance", "stack", "t_ns", "until_ns"]
_SEGMENT = _STACK[:3]
_PARTS = ["whole_j", "pieces_j", "piece_j", "times", *SUMS]


def _none(keys: Sequence[str], sums: Sequence[str]) -> pd.DataFrame:
    """Return no rows of some keys, and of sums."""
    kinds = {name: np.uint64 if name == "instance" else np.int64 for name in keys} | dict.fromkeys(sums, np.float64)
    return pd.DataFrame({name: np.empty(0, kind) for name, kind in kinds.items()})


def _added(parts: Iterable[pd.DataFrame], keys: Sequence[str]) -> pd.DataFrame:
    """Return the sums of all rows with the same keys."""
    return pd.concat(parts).groupby([*keys], as_index=False).sum()


class StackShares:
    """The sampled stacks of a recording, weighed window after window.

    Attributes
    ----------
    outside : by ordinal of a thread, its joules outside tasks and its CPU seconds there, of all windows so far
    """

    def __init__(self, sampled: SampledStacks) -> None:
        """Begin without windows."""
        self.functions = sampled.functions
        self.outside: dict[int, Floats] = {}
        self._sampled = sampled
        self._open, self._known = _none(_STACK, _PARTS), [_none(OWNERS, SUMS)]

    @property
    def rows(self) -> pd.DataFrame:
        """The stacks by what ran them.

        `instance` (uint64, 0: none), `thread` (ordinal of the thread if no instance ran, else `NO_THREAD`, or `POOL`
        for a thread without samples that works for the instance), `stack` (as of `functions`), `joules` and `seconds`
        that they stand for, `squares` of these joules, and `count`.
        """
        self._known = [_added(self._known, OWNERS)]
        return self._known[0]

    def add(self, window: Window, activity: Activity, plans: Sequence[Planned]) -> None:
        """Weigh the stacks that were sampled in the next window.

        Parameters
        ----------
        window, activity : what ran in it
        plans : the shares of each domain that counts
        """
        stacks, threads = self._sampled.between(window.own_ns[0], window.until_ns), activity.segments
        whole_j = _energies((one.sharing for one in plans), [*threads, *(pool.segments for pool in activity.pools)])
        sampled = [stacks.get(one.thread.ordinal, NO_SAMPLES) for one in threads]
        cuts, pieces_j = [cut_at(one, of) for one, of in zip(threads, sampled, strict=True)], whole_j
        if any(len(cut.before) for cut in cuts):
            pieces = [cut.segments for cut in cuts]
            cut_up = replace(activity, ran=activity.ran.replaced(pieces))
            pieces_j = _energies((one.again(cut_up, [cut.owner for cut in cuts]) for one in plans), pieces)
        parts = [self._open]
        for one, of, cut, energy_j, piece_j in zip(threads, sampled, cuts, whole_j, pieces_j, strict=False):
            own, ordinal = begun_in(one.t_ns, window.own_ns), one.thread.ordinal
            sums = energy_j[one.slot == 0].sum(), one.cpu_s[own][one.slot[own] == 0].sum()
            self.outside[ordinal] = self.outside.get(ordinal, 0.0) + np.array(sums)
            parts += _of_thread(window, one, of, cut, energy_j, piece_j)
        self._known += _pool_stacks(window, activity, stacks, whole_j[len(threads) :])
        self._advance(_added(parts, _STACK), window.own_ns[1])
        if sum(map(len, self._known[1:])) > len(self._known[0]):
            self._known = [self.rows]

    def _advance(self, parts: pd.DataFrame, end_ns: int) -> None:
        """Note the stacks whose weights are known at a time, when no later window has a part of them.

        Of a stack whose piece has ended by then stays in what its segment and its instance have of all such stacks.
        """
        ended = (parts["until_ns"] <= end_ns) & (parts["t_ns"] < end_ns)
        joules = (parts["piece_j"] * parts["times"]).where(ended, 0.0)
        parts = parts.assign(joules=parts["joules"] + joules, squares=parts["squares"] + joules**2)
        parts.loc[ended, ["t_ns", "until_ns", "piece_j", "times"]] = 0
        over = parts["end_ns"] <= end_ns
        self._open, known = parts[~over], parts[over]
        whole_j, pieces_j = (known.groupby(_SEGMENT)[name].transform("sum") for name in ("whole_j", "pieces_j"))
        scale = (whole_j / pieces_j).where(pieces_j > 0, 0.0)
        known = known.assign(joules=known["joules"] * scale, squares=known["squares"] * scale**2)
        known["thread"] = known["thread"].where(known["instance"] == 0, NO_THREAD)
        self._known.append(_added([known.loc[known["stack"] != NO_STACK, [*OWNERS, *SUMS]]], OWNERS))


def _energies(sharings: Iterable[Sharing], ran: Sequence[Segments | NativeSegments]) -> list[Floats]:
    """Return the joules of each thread's segments, then of each pool's."""
    found = [np.zeros(len(one.cpu_s)) for one in ran]
    for sharing in sharings:
        for total_j, energy_j in zip(found, sharing.energies(), strict=False):
            np.add(total_j, energy_j, out=total_j)
    return found


def _of_thread(
    window: Window, one: Segments, stacks: ThreadStacks, cut: Cuts, energy_j: Floats, piece_j: Floats
) -> list[pd.DataFrame]:
    """Return what a window gives of a thread's segments with stacks, and of these stacks.

    Of a segment its joules and those of its pieces, beside `NO_STACK`. Of a stack which piece has its power
    (`until_ns`: its end), the joules of this piece, and if it was sampled in the window for how many times these it
    stands, and for how many seconds.
    """
    length_ns = np.diff(cut.segments.t_ns)
    # A sample at the very begin of its segment ends a piece of the one before, or none.
    at = np.where(length_ns[cut.before] > 0, cut.before, np.minimum(cut.before + 1, len(length_ns) - 1))
    gap_s, around_s = (column[cut.sample] * 1e-9 for column in (stacks.gap_ns, stacks.around_ns))
    times = divided(gap_s, length_ns[at] * 1e-9, 0.0)
    if stacks.clock_ns is not None:
        times = np.minimum(times, np.maximum(divided(around_s, cut.segments.cpu_s[at], 0.0), 1.0))
    t_ns, piece_end_ns, segment = stacks.t_ns[cut.sample], cut.segments.t_ns[at + 1], cut.owner[at]
    own = (t_ns >= window.own_ns[0]) & (t_ns < window.own_ns[1])
    found = pd.DataFrame({
        "thread": one.thread.ordinal, "begin_ns": one.t_ns[segment], "end_ns": one.t_ns[segment + 1],
        "instance": one.owners.instance[one.slot[segment]], "stack": stacks.stack[cut.sample],
        "t_ns": t_ns, "until_ns": piece_end_ns, "piece_j": piece_j[at], "times": times * own, "seconds": gap_s * own,
        "count": own.astype(float),
    })  # fmt: skip
    segments = pd.DataFrame({
        "thread": one.thread.ordinal, "begin_ns": one.t_ns[:-1], "end_ns": one.t_ns[1:], "instance": np.uint64(0),
        "stack": NO_STACK, "t_ns": 0, "until_ns": 0, "whole_j": energy_j,
        "pieces_j": sum_by(cut.owner, piece_j, len(energy_j)),
    })  # fmt: skip
    # Segments that are in other windows too may have stacks there.
    taken = (one.t_ns[:-1] < window.own_ns[0]) | (one.t_ns[1:] > window.own_ns[1])
    taken[segment] = True
    return [segments[taken & (np.diff(one.t_ns) > 0)], found[own | (found["piece_j"] > 0)]]


def _pool_stacks(
    window: Window, activity: Activity, stacks: Mapping[Hashable, ThreadStacks], pools_j: Sequence[Floats]
) -> Iterator[pd.DataFrame]:
    """Yield the joules of pools that Python started by instance, and their stacks.

    Parameters
    ----------
    window, activity : what ran in it
    stacks : its samples by thread
    pools_j : of each pool the joules of its segments
    """
    for pool, energy_j in zip(activity.pools, pools_j, strict=True):
        if pool.found.python:
            native = pool.segments
            ids, code = np.unique(native.runs["instance"], return_inverse=True)
            own_j = sum_by(code, native.of_runs(native.of_task(energy_j)), len(ids))
            yield _of_pool(ids[own_j > 0], NO_STACK, joules=own_j[own_j > 0])
            yield from (_sampled(window, native, stacks[one]) for one in pool.found.python if one in stacks)


def _sampled(window: Window, native: NativeSegments, one: ThreadStacks) -> pd.DataFrame:
    """Return the stacks of a thread that were sampled in the window, while its pool worked for an instance."""
    runs = native.runs[np.argsort(native.runs["begin_ns"], kind="stable")]
    segment, run = (np.searchsorted(begins_ns, one.t_ns) - 1 for begins_ns in (native.t_ns, runs["begin_ns"]))
    inside = (one.t_ns >= window.own_ns[0]) & (one.t_ns < window.own_ns[1])
    inside &= (segment >= 0) & (segment < len(native)) & (run >= 0)
    in_task, goes_on = native.kind[segment[inside]] == OF_TASK, runs["end_ns"][run[inside]] >= one.t_ns[inside]
    inside[inside] = in_task & goes_on
    return _of_pool(runs["instance"][run[inside]], one.stack[inside], joules=one.used_ns[inside] * 1e-9, count=1.0)


def _of_pool(
    instance: NDArray[np.uint64], stack: Integers | int, *, joules: NDArray[np.floating[Any]], count: float = 0.0
) -> pd.DataFrame:
    squares = joules**2 * count
    rows = pd.DataFrame({"instance": instance, "thread": POOL, "stack": stack, "joules": joules, "seconds": 0.0})
    return rows.assign(squares=squares, count=count)
