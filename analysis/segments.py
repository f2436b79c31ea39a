"""A thread's samples as segments: who ran from when to when, and what that took.

Unordered time stamps are sorted (stably) and counted; equal ones give segments of no length. The last segment
ends where the file says, else where the process, else the trace ended. Cost: O(samples).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof.trace import EndReason, Flag, Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from tprof.trace import Thread, Trace


@dataclass
class Segments:
    """The n segments of a thread: segment i runs from edges_ns[i] to edges_ns[i + 1].

    Attributes
    ----------
    edges_ns : (n + 1,) int64, not decreasing.
    instance : (n,) uint64; 0: nobody.
    task : (n,) uint32.
    cpu, package : (n,) uint16 and int16 where it began; package -1: not known.
    start : (n,) bool, the instance begins here.
    failed : (n,) bool, this segment's instance ended with an exception at the segment's end.
    running_s : (n,) float64, time on a processor: CPU time, where it was not recorded the length.
    counters : name to (n,) float64 increments; NaN where they were not counted.
    unordered : samples whose time was before their predecessor's.
    scaled : whether a counter was scaled up from a part of the time.
    aborted : the instance that was open when the thread ended, or 0.
    """

    edges_ns: npt.NDArray[np.int64]
    instance: npt.NDArray[np.uint64]
    task: npt.NDArray[np.uint32]
    cpu: npt.NDArray[np.uint16]
    package: npt.NDArray[np.int16]
    start: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]
    running_s: npt.NDArray[np.float64]
    counters: dict[str, npt.NDArray[np.float64]]
    unordered: int
    scaled: bool
    aborted: int

    @property
    def moved(self) -> npt.NDArray[np.int64]:
        """Indices of the segments that ended on another package than they began on."""
        after = np.append(self.package[1:], self.package[-1:])
        return np.flatnonzero((after != self.package) & (after >= 0) & (self.package >= 0))


def make_segments(trace: Trace, thread: Thread, wanted: tuple[str, ...]) -> Segments | None:
    """Read a thread's segments.

    Parameters
    ----------
    trace, thread
        Of which.
    wanted
        Names of counter columns to keep; those the thread lacks are left out.

    Returns
    -------
    Segments, or None for a thread without samples.
    """
    samples = thread.read()
    if not len(samples):
        return None
    t_ns = np.minimum(samples["t_ns"], np.uint64(2**63 - 1)).astype(np.int64)
    unordered = int((t_ns[1:] < t_ns[:-1]).sum())
    if unordered:
        order = np.argsort(t_ns, kind="stable")
        samples, t_ns = samples[order], t_ns[order]
    end_ns = _end_ns(trace, thread, int(t_ns[-1]))
    edges_ns = np.append(t_ns, end_ns)
    flags = samples["flags"]
    failed = np.zeros(len(samples), bool)
    ended = (samples["kind"][1:] == Kind.FINISH) & ((flags[1:] & Flag.FAILED) != 0)
    failed[:-1] = ended
    instance = samples["instance"].copy()
    open_at_end = thread.end_reason in {EndReason.OPEN, EndReason.ABORTED} and not thread.first_drop_ns
    aborted = instance[-2:-1] if thread.end_reason == EndReason.ABORTED else instance[-1:]
    return Segments(
        edges_ns=edges_ns,
        instance=instance,
        task=samples["task"].copy(),
        cpu=samples["cpu"].copy(),
        package=thread.package(samples),
        start=samples["kind"] == Kind.START,
        failed=failed,
        running_s=_running_s(thread, samples, edges_ns, instance),
        counters={name: _increments(thread, samples, name) for name in wanted if name in thread.columns},
        unordered=unordered,
        scaled=bool((flags & Flag.SCALED).any()),
        aborted=int(aborted[0]) if open_at_end and len(aborted) else 0,
    )


def _end_ns(trace: Trace, thread: Thread, last_ns: int) -> int:
    """Return where the last segment ends: the first of these that the trace knows."""
    for known in (thread.first_drop_ns, thread.end_ns, trace.process_end_ns.get(thread.process), trace.end_ns):
        if known is not None:
            return max(known, last_ns)
    return last_ns


def _running_s(
    thread: Thread,
    samples: npt.NDArray[np.void],
    edges_ns: npt.NDArray[np.int64],
    instance: npt.NDArray[np.uint64],
) -> npt.NDArray[np.float64]:
    length_s = np.diff(edges_ns) * 1e-9
    if "cpu_ns" not in thread.columns:
        return np.where(instance != 0, length_s, 0.0)
    used = samples["cpu_ns"]
    running_s = np.empty(len(samples))
    steps = used[1:] - used[:-1]
    running_s[:-1] = np.where(used[1:] >= used[:-1], steps, 0) * 1e-9
    last = thread.end_columns.get("cpu_ns")
    if last is not None and last >= int(used[-1]):
        running_s[-1] = (last - int(used[-1])) * 1e-9
    else:
        # Killed, or dropped from here on: what its last instance used is not known, so it counts as running.
        running_s[-1] = length_s[-1] if instance[-1] != 0 else 0.0
    # Two clocks read one after the other: a thread cannot run longer than time has passed.
    return np.minimum(running_s, length_s, out=running_s)


def _increments(thread: Thread, samples: npt.NDArray[np.void], name: str) -> npt.NDArray[np.float64]:
    values = samples[name]
    increments = np.empty(len(values))
    increments[:-1] = np.where(values[1:] >= values[:-1], values[1:] - values[:-1], 0)
    last = thread.end_columns.get(name, 0)
    increments[-1] = max(last - int(values[-1]), 0)
    uncounted = (samples["flags"] & Flag.UNCOUNTED) != 0
    if uncounted.any():
        increments[uncounted] = np.nan
        increments[:-1][uncounted[1:]] = np.nan
    return increments
