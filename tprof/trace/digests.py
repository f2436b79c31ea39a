"""What is kept of removed segments whose records later ones need: sparser readings, facts on threads, names of stacks.

Readings are cumulative, so that a part of them has the same joules over its whole time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .kinds import NativeKind, StackKind, StreamKind

if TYPE_CHECKING:
    from .block_content import Bytes

Records = np.ndarray[Any, np.dtype[np.void]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
_LONGEST_NS = 2**32 - 1
"""Of a reading's window."""
_LAST = (NativeKind.CLOCK, NativeKind.COUNTS)
_FACTS = (NativeKind.APPEAR, NativeKind.CREATOR, NativeKind.NAME, NativeKind.BEGIN)
_OF_PROCESS = (NativeKind.PATH, NativeKind.NOTED, NativeKind.MISSED)


def digest(kind: StreamKind, records: Bytes, gap_ns: int) -> Bytes:
    """Return what is kept of the first records of a stream.

    Parameters
    ----------
    kind : of the stream
    records : (n, 32) uint8
    gap_ns : least time between two readings that are kept
    """
    if kind == StreamKind.READINGS:
        return thinned(records.view(layout.READING)[:, 0], gap_ns).view(np.uint8).reshape(-1, records.shape[1])
    if kind == StreamKind.NATIVE:
        return np.compress(_native(records.view(layout.NATIVE)[:, 0]), records, axis=0)
    return np.compress(records.view(layout.STACK)[:, 0]["kind"] != StackKind.SAMPLE, records, axis=0)


def thinned(readings: Records, gap_ns: int) -> Records:
    """Return readings at least `gap_ns` apart; the first, the last and those with flags stay.

    What was read between two of them is not known any more, so the window of each reaches back to the one before.
    """
    t_ns = readings["t_ns"].astype(np.int64)
    kept = readings["flags"] != 0
    kept[:1] = kept[-1:] = True
    cells = (t_ns - t_ns[:1]) // max(gap_ns, 1)
    kept[1:] |= cells[1:] != cells[:-1]
    found: Records = readings[kept]
    found["window_ns"][1:] = np.clip(np.diff(found["t_ns"].astype(np.int64)), 0, _LONGEST_NS)
    return found


def _native(records: Records) -> Flags:
    """Return which records of native threads stay: facts of threads that go on, and their last clock and counts."""
    kind, thread = records["kind"], records["thread"]
    ended = np.unique(thread[kind == NativeKind.END])
    goes_on = ~np.isin(thread, ended)
    kept = np.isin(kind, _OF_PROCESS) | (np.isin(kind, _FACTS) & goes_on)
    last_ns = np.zeros(int(thread.max(initial=0)) + 1, np.uint64)
    clocks = np.isin(kind, _LAST) & goes_on
    np.maximum.at(last_ns, thread[clocks], records["t_ns"][clocks])
    found: Flags = kept | (clocks & (records["t_ns"] == last_ns[thread]))
    return found
