"""The sampled stacks of a recording by thread and time, and the pieces of segments between them.

Records are read a block at a time. Of each block the first and the last sample of each thread stay in memory, so a
window of time knows its own samples and the next ones around it: with these its pieces of segments are known, however
many samples a segment has elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace.metadata import MAX_NS

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from tprof.trace.stacks import Function, StackFile

    from .segments import Segments

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BLOCK = 1 << 16
"""Records that are read at a time."""


class ThreadStacks(NamedTuple):
    """Sampled stacks of one thread, (n,) each, in order of time.

    Attributes
    ----------
    t_ns : when each was sampled
    clock_ns : CPU time of the thread until then, which does not decrease; None: not known
    used_ns : CPU time since the sample before, or the time itself where that is not known; of the first one no more
    gap_ns : since the sample before, or since the thread's first segment
    around_ns : CPU time from the sample before to the one after, `MAX_NS` if that is not known
    stack : as of `SampledStacks.functions`
    """

    t_ns: Integers
    clock_ns: Integers | None
    used_ns: Integers
    gap_ns: Integers
    around_ns: Integers
    stack: Integers


_NONE = np.empty(0, np.int64)
NO_SAMPLES = ThreadStacks(_NONE, None, _NONE, _NONE, _NONE, _NONE)


class ThreadReach(NamedTuple):
    """A thread whose stacks are sought, and from when to when it has segments or was followed."""

    key: Hashable
    process: int
    tid: int
    begin_ns: int
    end_ns: int
    has_clock: bool

    @property
    def number(self) -> int:
        """Its number among the threads that were sampled."""
        return (self.process << 32) + self.tid


class _Block(NamedTuple):
    """Some records of a file, from the `first` one on, with samples from when to when."""

    file: int
    first: int
    begin_ns: int
    end_ns: int


class SampledStacks:
    """The sampled stacks of a recording's threads, numbered one process after the other."""

    def __init__(self, files: Sequence[StackFile], reaches: Sequence[ThreadReach]) -> None:
        """Look through the stacks of threads. Raises TraceError."""
        self._reaches, self._numbers = reaches, np.unique(np.array([one.number for one in reaches], np.int64))
        self._files = [(one, one.calls()) for one in files]
        self._firsts = np.cumsum([0, *(len(calls.function) for _, calls in self._files)])
        self._ends: dict[_Block, pd.DataFrame] = {}
        self._held: dict[_Block, pd.DataFrame] = {}
        for at, file in enumerate(files):
            for first in range(0, file.count, BLOCK):
                samples = self._read(at, first)
                if len(samples):
                    block = _Block(at, first, int(samples["t_ns"].min()), int(samples["t_ns"].max()))
                    same = samples["number"].duplicated(), samples["number"].duplicated("last")
                    self._ends[block] = samples[~(same[0] & same[1])]

    def _read(self, at: int, first: int) -> pd.DataFrame:
        """Read the samples of a block's threads that are sought, in order of time."""
        file, calls = self._files[at]
        samples = file.samples(calls, first, first + BLOCK)
        found = pd.DataFrame({
            "number": (file.process << 32) + samples.tid, "t_ns": samples.t_ns, "clock_ns": samples.cpu_ns,
            "stack": samples.stack + self._firsts[at],
        })  # fmt: skip
        return found.loc[np.isin(found["number"], self._numbers)].sort_values("t_ns", kind="stable")

    def functions(self, stack: int) -> list[Function]:
        """Return the functions of a stack, the outermost first."""
        at = int(np.searchsorted(self._firsts, stack, side="right")) - 1
        _, calls = self._files[at]
        return [calls.functions[one] for one in calls.path(stack - int(self._firsts[at]))]

    def between(self, begin_ns: int, until_ns: int) -> dict[Hashable, ThreadStacks]:
        """Return the samples from a time to another one and one on each side, by threads that ran then.

        Of these all that were sampled at any time are there.
        """
        here = [one for one in self._ends if one.begin_ns < until_ns and one.end_ns >= begin_ns]
        self._held = {one: self._held[one] if one in self._held else self._read(*one[:2]) for one in here}
        near = (self._ends | self._held).values()
        found: dict[Hashable, ThreadStacks] = {}
        if not near:
            return found
        samples = pd.concat(near).sort_values(["number", "t_ns"], kind="stable")
        number = samples["number"].to_numpy()
        for one in self._reaches:
            if one.begin_ns < until_ns and one.end_ns >= begin_ns:
                of_thread = samples.iloc[slice(*np.searchsorted(number, [one.number, one.number + 1]))]
                inside = of_thread[(of_thread["t_ns"] > one.begin_ns) & (of_thread["t_ns"] < one.end_ns)]
                if len(inside):
                    found[one.key] = _of_thread(one, inside, begin_ns, until_ns)
        return found


def _of_thread(one: ThreadReach, samples: pd.DataFrame, begin_ns: int, until_ns: int) -> ThreadStacks:
    """Return a thread's samples; a clock that was not read counts as that before it."""
    t_ns, clock_ns, stack = (samples[name].to_numpy() for name in ("t_ns", "clock_ns", "stack"))
    clock_ns = np.maximum.accumulate(clock_ns)
    gap_ns = used_ns = np.diff(t_ns, prepend=one.begin_ns)
    around_ns = np.full(len(t_ns), MAX_NS)
    has_clock = one.has_clock and clock_ns[-1] > 0
    if has_clock:
        used_ns = np.diff(clock_ns, prepend=max(clock_ns[0] - gap_ns[0], 0))
        around_ns[1:-1] = clock_ns[2:] - clock_ns[:-2]
    first, stop = np.searchsorted(t_ns, [begin_ns, until_ns]).tolist()
    at = slice(max(first - 1, 0), stop + 1)
    columns = (used_ns, gap_ns, around_ns, stack)
    return ThreadStacks(t_ns[at], clock_ns[at] if has_clock else None, *(column[at] for column in columns))


class Cuts(NamedTuple):
    """A thread's segments in pieces.

    Attributes
    ----------
    segments : the pieces, as segments
    owner : (m,) int64, of which segment each piece is
    sample : the samples that lie in the thread's segments
    before : (n,) int64, the piece that ends with each of them
    """

    segments: Segments
    owner: Integers
    sample: slice
    before: Integers


def cut_at(one: Segments, stacks: ThreadStacks) -> Cuts:
    """Cut a thread's segments where its stack was sampled, so that joules can be shared between two samples.

    The sampled CPU clocks say how a segment's CPU time is spread over it: a thread that waits in one function and
    computes in another is credited in the latter. All sums of a segment stay as they are.
    """
    sample = slice(*np.searchsorted(stacks.t_ns, one.t_ns[[0, -1]]).tolist())
    when_ns = stacks.t_ns[sample]
    # After all edges of the same time: a segment of no length has no sample.
    segment = np.searchsorted(one.t_ns, when_ns, side="right") - 1
    edges_ns = np.insert(one.t_ns, segment + 1, when_ns)
    owner = np.repeat(np.arange(len(one.slot)), 1 + np.bincount(segment, minlength=len(one.slot)))
    length_ns, whole_ns = np.diff(edges_ns), np.diff(one.t_ns)[owner]
    part = np.divide(length_ns, whole_ns, out=np.ones(len(owner)), where=whole_ns > 0)
    if stacks.clock_ns is not None and len(when_ns):
        # Clocks are whole nanoseconds, which sums of seconds in extended precision give exactly, wherever they begin.
        sums_s = np.cumsum(np.append(0.0, one.cpu_s).astype(np.longdouble)) + one.earlier_s
        used_ns = np.rint(sums_s * 1e9).astype(np.int64)
        # A sampled clock lies between those of its segment's ends, so a piece depends on no sample but those at its
        # ends.
        sampled_ns = np.clip(stacks.clock_ns[sample], used_ns[segment], used_ns[segment + 1])
        sampled_ns = np.where(when_ns == one.t_ns[segment], used_ns[segment], sampled_ns)
        all_ns = np.diff(used_ns)[owner]
        np.divide(np.diff(np.insert(used_ns, segment + 1, sampled_ns)), all_ns, out=part, where=all_ns > 0)
    pieces = replace(
        one, t_ns=edges_ns, slot=one.slot[owner], cpu_s=one.cpu_s[owner] * part, modelled=one.modelled[owner] * part,
        cpu=one.cpu[owner], package=None if one.package is None else one.package[owner],
        package_end=None if one.package_end is None else one.package_end[owner],
    )  # fmt: skip
    return Cuts(pieces, owner, sample, segment + np.arange(len(segment)))
