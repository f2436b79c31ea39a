"""Samples whose times go backwards, put in order: a time is at least that of the sample before it.

A recorder reads one clock, so such files are damaged, or other programs wrote them. The order of the samples is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .long_arrays import empty, release
from .stream import PIECE, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .thread import Thread
    from .trace import Trace

    Records = np.ndarray[Any, np.dtype[np.void]]


@dataclass(frozen=True)
class OrderedStream(Stream):
    """A file of samples, of which some are in memory, or in a temporary file if they are many, with times in order.

    Attributes
    ----------
    records : (n,) the samples from the first one on that is needed
    begin : number of that one
    """

    records: Records = field(kw_only=True, repr=False)
    begin: int = field(kw_only=True)

    def read_part(self, dtype: np.dtype[np.void], first: int, stop: int) -> Records:  # noqa: ARG002 - it is known
        """Return copies of some samples; as of a file."""
        return self.records[max(first - self.begin, 0) : max(stop - self.begin, 0)].copy()

    def read_pieces(self, dtype: np.dtype[np.void], first: int, stop: int) -> Iterator[Records]:
        """Yield them in pieces; as of a file."""
        for begin in range(first, min(stop, self.count), PIECE):
            yield self.read_part(dtype, begin, min(begin + PIECE, stop))

    def read_every(self, dtype: np.dtype[np.void], places: range) -> Records:  # noqa: ARG002 - it is known
        """Return copies of single ones; as of a file."""
        return self.records[np.asarray(places, np.intp) - self.begin]


def in_order_of_time(trace: Trace) -> Trace:
    """Return a trace with all times in order; `Thread.disordered` counts what went backwards. Raises TraceError."""
    threads = tuple(map(_in_order, trace.threads))
    return replace(
        trace, threads=threads, recorded=None if trace.recorded is None else in_order_of_time(trace.recorded)
    )


def _in_order(thread: Thread) -> Thread:
    fallen = 0
    before_ns = latest_ns = np.uint64(0)
    stop = thread.first + thread.count
    for piece in thread.stream.read_pieces(thread.dtype, thread.first, stop):
        t_ns = piece["t_ns"]
        fallen += int((np.concatenate(([before_ns], t_ns[:-1])) > t_ns).sum()) if len(t_ns) else 0
        before_ns = t_ns[-1] if len(t_ns) else before_ns
    if not fallen:
        return thread
    records, done = empty(thread.count, thread.dtype), 0
    for piece in thread.stream.read_pieces(thread.dtype, thread.first, stop):
        if not len(piece):
            break  # the file was cut meanwhile
        at = slice(done, done + len(piece))
        records[at] = piece
        records["t_ns"][at] = np.maximum.accumulate(np.append(latest_ns, piece["t_ns"]))[1:]
        latest_ns, done = records["t_ns"][at.stop - 1], at.stop
        release(records)
    known = {one.name: getattr(thread.stream, one.name) for one in fields(Stream)}
    stream = OrderedStream(**known, records=records[:done], begin=thread.first)
    return replace(thread, stream=stream, disordered=fallen)
