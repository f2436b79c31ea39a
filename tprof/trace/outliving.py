"""Leaves out what processes that outlived a recording wrote after its end.

Resource trackers, forkservers and daemons record on until they end. The recording's end has their CPU time at that
moment, of which a later sample says nothing: CPU time counts as evenly spent between two samples, so that of a segment
across the end would be shared by its length. Without later samples the segment is open, and gets the CPU time that is
known. So a session has the same figures while these processes still run, and when they have ended.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kinds, layout
from .gpu import GpuTrace
from .manifest import LENGTHS
from .metadata import MAX_NS, process_ends, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from .decisions import Decision
    from .gpu import GpuNote, GpuSegments
    from .graph import EventFile
    from .native import NativeFile
    from .stacks import StackFile
    from .stream import Stream
    from .thread import Thread

WRITTEN = (*LENGTHS.values(), "native_records")


@dataclass(frozen=True)
class Outliving:
    """The end of a recording for the processes that recorded on.

    Each method returns one part of a trace as it was at the end, None if it began later; a part of another process
    stays as it is.

    Attributes
    ----------
    end_ns : of the recording
    left : ordinals of the processes that had left when the end was written; None: not known, and nothing is left out
    written : how much each had written, by what it is and its ordinal: of what has no time, or is noted late
    """

    end_ns: int
    left: frozenset[int] | None
    written: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, end: dict[str, Any] | None) -> Self:
        """Read it from a session's end, which a killed recording does not have, and other writers leave empty."""
        there = {what: written(end or {}, what) for what in WRITTEN}
        if not end or not end.get("processes") or "end_ns" not in end:
            return cls(MAX_NS, None, there)
        return cls(end["end_ns"], frozenset(process_ends(end)), there)

    def length(self, what: str, process: int) -> int:
        """Return how much of a process's file counts, all of it unless the end says less; `what` is in `WRITTEN`."""
        return self.written.get(what, {}).get(process, sys.maxsize)

    def thread(self, one: Thread) -> Thread | None:
        """Return the samples of a thread; if it ended later, it is open."""
        if self._had_left(one) or (one.end_ns is not None and one.end_ns <= self.end_ns):
            return one
        if self._began_later(one.stream):
            return None
        count = one.stream.first_at(one.dtype, self.end_ns + 1)
        found = replace(
            one, stream=replace(one.stream, count=count), count=count,
            end_reason=kinds.EndReason.OPEN, end_ns=None, end_columns={},
        )  # fmt: skip
        drops_later = one.first_drop_ns is not None and one.first_drop_ns > self.end_ns
        return replace(found, dropped={}, first_drop_ns=None) if drops_later else found

    def events(self, one: EventFile) -> EventFile | None:
        """Return the events of a thread."""
        if self._had_left(one):
            return one
        if self._began_later(one.stream):
            return None
        count = one.stream.first_at(layout.EVENT, self.end_ns + 1)
        return replace(one, stream=replace(one.stream, count=count), count=count, dropped=self._dropped(one))

    def native(self, one: NativeFile) -> NativeFile | None:
        """Return the native threads of a process."""
        if self._had_left(one):
            return one
        if self._began_later(one.stream):
            return None
        count = min(one.count, self.length("native_records", one.process))
        stream = replace(one.stream, count=count)
        return replace(one, stream=stream, count=count, until_ns=self.end_ns, dropped=self._dropped(one))

    def stacks(self, one: StackFile) -> StackFile | None:
        """Return the sampled stacks of a process."""
        if self._had_left(one):
            return one
        return None if self._began_later(one.stream) else replace(one, until_ns=self.end_ns, dropped=self._dropped(one))

    def decisions(self, found: Iterable[Decision]) -> list[Decision]:
        """Return decisions without later ones."""
        return [one for one in found if self._had_left(one) or one.t_ns <= self.end_ns]

    def gpu(self, found: GpuTrace) -> GpuTrace:
        """Return work on GPUs without later one, of which earlier traces do not say what was written at the end.

        A process writes its note when it leaves, so that is later.
        """
        notes = tuple(one for one in found.notes if self._had_left(one))
        return GpuTrace(tuple(map(self._gpu_segments, found.segments)), found.users, notes)

    def _gpu_segments(self, one: GpuSegments) -> GpuSegments:
        if self._had_left(one):
            return one
        kept = slice(0, int(np.searchsorted(one.begin_ns, self.end_ns, side="right")))
        columns = {name: getattr(one, name)[kept] for name in ("stream", "begin_ns", "end_ns", "instance", "task")}
        return replace(one, **columns)

    def _had_left(self, one: Thread | EventFile | NativeFile | StackFile | Decision | GpuSegments | GpuNote) -> bool:
        return self.left is None or one.process in self.left

    def _began_later(self, stream: Stream) -> bool:
        return stream.number("start_ns") > self.end_ns

    def _dropped(self, one: EventFile | NativeFile | StackFile) -> int:
        return 0 if one.stream.number("first_drop_ns") > self.end_ns else one.dropped
