"""Windows of a recording that have not too many records of native threads either.

Windows are cut by samples and readings of sensors. Clocks of native threads may be read far more often than these, and
calls be noted: of such a recording windows have fewer samples, so that what a pool did in one fits into memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tprof.trace.long_arrays import blocks, release

from .native_calls import MOST_PIECES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tprof.trace import Trace

    from .windows import Window

MOST_RECORDS = 100_000
"""Of a window, about: each takes some hundred bytes while its CPU time is cut."""
TRIES = 4


def cut_by_natives(
    trace: Trace, samples: int, cut: Callable[[int], Sequence[Window]]
) -> tuple[tuple[Window, ...], int]:
    """Return windows of so many samples, or of fewer if native threads have many records in one; and how many.

    Parameters
    ----------
    trace : whose native threads are followed
    samples : of a window, about
    cut : returns windows of so many samples
    """
    windows = tuple(cut(samples))
    for _ in range(TRIES):
        most = int(_records_in(trace, windows).max())
        if most <= 2 * MOST_RECORDS or samples == 1:
            break
        samples = max(samples * MOST_RECORDS // most, 1)
        windows = tuple(cut(samples))
    return windows, samples


def _records_in(trace: Trace, windows: Sequence[Window]) -> NDArray[np.int64]:
    """Return how many readings and pieces of calls are in each window."""
    begins_ns = np.array([one.own_ns[0] for one in windows], np.int64)
    found = np.zeros(len(windows), np.int64)
    for thread in trace.native_threads:
        found += np.diff(np.searchsorted(thread.t_ns, begins_ns), append=len(thread.t_ns))
        release(thread.t_ns)
    first_ns, last_ns = trace.reach_ns
    for calls in trace.native_calls:
        for at in blocks(len(calls.begin_ns), calls.begin_ns):
            begin_ns = calls.begin_ns[at]
            inside = begin_ns[(begin_ns >= first_ns) & (begin_ns < last_ns)]
            place = np.maximum(np.searchsorted(begins_ns, inside, side="right") - 1, 0)
            found += MOST_PIECES * np.bincount(place, minlength=len(windows))
    return found
