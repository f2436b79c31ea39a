"""The pools of a window of a recording: their users are learnt from the window and some seconds on either side.

A clock of a native thread that was read before the window and in it has CPU time of both; a pool may spin in the window
after a call before it; and few onsets in a short window tell nothing. So pools are found in what lies around too, and
then cut. Windows that tile a recording have the pools of the whole, if this is not much longer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .native_users import find_pools
from .segment_reader import read_segments
from .segments import each_thread, find_cut_off

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.trace import Trace

    from .native_users import Pool
    from .segments import Model, Segments

Floats = NDArray[np.float64]
AROUND_NS = 10_000_000_000
"""On either side: at the shortest interval of readings thousands of them, and far longer than any pool spins."""
Rows = NDArray[np.int64]


class _ByCpuTime:
    columns: tuple[str, ...] = ()

    @staticmethod
    def modelled(_: Mapping[str, Floats], cpu_s: Floats) -> Floats:
        return cpu_s


BY_CPU_TIME = _ByCpuTime()
"""A model that needs no counters, for what only asks when threads ran."""


def pools_of_window(trace: Trace, segments: Sequence[Segments], model: Model, *, packages: bool) -> list[Pool]:
    """Return the pools that tasks use, with their CPU time in the window; as `find_pools`. Raises TraceError."""
    whole = trace if trace.recorded is None else trace.recorded
    if trace is whole or not trace.native_threads:
        return find_pools(trace, segments, model, packages=packages)
    wide = surroundings(trace, whole)
    around = each_thread(read_segments(wide, wide.threads, model, packages=packages, cut_off=find_cut_off(wide)))
    rows = _rows_in(segments, around)
    found = find_pools(wide, around, model, packages=packages)
    cut = (replace(pool, segments=pool.segments.between(*trace.reach_ns, rows)) for pool in found)
    return [pool for pool in cut if pool.segments.cpu_s.any()]


def surroundings(trace: Trace, whole: Trace) -> Trace:
    """Return the window with what lies around it."""
    begin_ns = max(trace.start_ns - AROUND_NS, whole.kept_ns)
    return whole.window(begin_ns, min(trace.end_ns + AROUND_NS, whole.end_ns))


def _rows_in(segments: Sequence[Segments], around: Sequence[Segments]) -> Rows:
    """Return for each row of threads around the window its number among those of the window, -1 without."""
    rows = np.full(sum(len(one.rows) for one in around), -1)
    first, offset = {}, 0
    for one in segments:
        first[one.thread.ordinal] = (offset, one)
        offset += len(one.rows)
    offset = 0
    for wide in around:
        if wide.thread.ordinal in first:
            start, one = first[wide.thread.ordinal]
            # Rows of a thread are in the order of their ids.
            at = np.searchsorted(wide.rows.instance, one.rows.instance)
            rows[offset + at] = start + np.arange(len(at))
        offset += len(wide.rows)
    return rows
