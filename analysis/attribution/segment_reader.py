"""From threads' samples to their segments: intervals with a running task and counter increments.

Samples are read column by column, and only the columns of one long thread, or of a group of short ones, are in memory
at a time. `JoinedSegments`, 28 bytes each, and one row for each instance remain.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace import Flag, Kind
from tprof.trace.thread import read_fields

from . import _loops
from .instances import number_instances
from .known_counts import NOT_KNOWN, are_lost, fill
from .segments import JoinedSegments, thread_end_ns
from .short_threads import Joints, together

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

    from tprof.trace import Thread, Trace

    from .known_counts import Around
    from .segments import CutOff, Model

NOTHING = 1e-15
"""Modelled power of a segment to which a model gives none: if it gives none to any, segments share by CPU time."""
Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Fields = dict[str, NDArray[Any]]
_HEAD = ("t_ns", "instance", "task", "cpu", "kind", "flags")


def read_segments(
    trace: Trace,
    threads: Sequence[Thread],
    model: Model,
    *,
    packages: bool,
    cut_off: Mapping[int, CutOff] | None = None,
) -> Iterator[JoinedSegments]:
    """Yield the segments of threads, in their order; those without samples are left out. Raises TraceError.

    A thread's number is its place among those that have samples.

    Parameters
    ----------
    trace : for the end of a thread that was not closed
    threads : whose samples are read
    model : power model
    packages : whether the machine has more than one package
    cut_off : last segments that nothing in their file closes, by ordinal of the thread
    """
    there = [one for one in threads if one.count]
    kinds = [kind_of(one) for one in there]
    done = 0
    for part in together([one.count for one in there], kinds):
        fields, counts = read_fields(there[part], fields_of(there[part.start]))
        read = [(one, count) for one, count in zip(there[part], counts, strict=True) if count]
        if read:
            numbers = range(done, done + len(read))
            joined = Part([one for one, _ in read], numbers, [count for _, count in read], fields, [False] * len(read))
            yield make_segments(trace, joined, model, packages=packages, cut_off=cut_off)
            done += len(read)


def kind_of(thread: Thread) -> Hashable:
    """Return what must be equal of threads whose samples are read together."""
    return thread.process, thread.dtype, thread.columns


def fields_of(thread: Thread, columns: Collection[str] | None = None) -> list[str]:
    """Return the fields of samples that segments are made from, with CPU time and these counters; None: all."""
    known = (one for one in thread.columns if one != "energy_uj")
    return [*_HEAD, *(one for one in known if columns is None or one == "cpu_ns" or one in columns)]


class Part(NamedTuple):
    """Some samples of threads of one kind.

    Attributes
    ----------
    threads : one or more, each with samples
    numbers : of each among all that are read
    counts : how many samples of each
    fields : what `fields_of` names, (n,) each: after the samples of each thread is one place more; it is overwritten
    closed : for each thread, whether that place is the sample after these, where the thread's part ends
    means : of threads whose last segment is open, by ordinal, the modelled power per CPU second of the whole thread;
        without it that of these samples counts
    own_ns : only segments that begin between these times count in the instances, whose times are those of all samples
    around : by the thread's place here, the samples with known counts before and after its lost ones
    """

    threads: Sequence[Thread]
    numbers: Sequence[int]
    counts: Sequence[int]
    fields: Fields
    closed: Sequence[bool]
    means: Mapping[int, float] = MappingProxyType({})
    own_ns: tuple[int, int] | None = None
    around: Mapping[int, Around] = MappingProxyType({})


def make_segments(
    trace: Trace,
    part: Part,
    model: Model,
    *,
    packages: bool,
    cut_off: Mapping[int, CutOff] | None = None,
) -> JoinedSegments:
    """Turn some samples into segments; the other parameters are those of `read_segments`."""
    group = _Group.of(part, trace, packages=packages)
    joints, fields = group.joints, group.fields
    t_ns, disordered = _times(group)
    has_flags = fields["flags"].any()
    lost = None
    if has_flags or group.ends_lost.any():
        lost = are_lost(fields["flags"])
        lost[joints.end] = group.ends_lost
    kept = group.columns
    has_cpu = "cpu_ns" in kept
    earlier_s = fields["cpu_ns"][joints.begin] * 1e-9 if has_cpu else np.zeros(len(joints.end))
    if lost is not None and lost.any():
        _fill_lost(group, lost, t_ns, part.around)
    increments = {name: _increments(group, name, 1e-9 if name == "cpu_ns" else 1.0) for name in kept}
    segment_fields = {name: fields[name][:-1] for name in ("instance", "task", "cpu", "kind", "flags")}
    running = segment_fields["instance"] != 0
    wall_s = np.empty(len(t_ns) - 1)
    _loops.increase(t_ns.view(np.uint64), 1e-9, wall_s)
    wall_s[joints.between] = 0.0
    cpu_s = increments.pop("cpu_ns") if has_cpu else np.where(running, wall_s, 0.0)
    counted = set(model.columns) <= set(increments)
    modelled = model.modelled(increments, cpu_s) if counted else cpu_s
    modelled = modelled.copy() if modelled is cpu_s else modelled
    guesses = _estimate_open(group, cut_off or {}, running, wall_s, cpu_s, modelled, part.means)
    if trace.recorded is not None:
        earlier_s = earlier_s + np.add.reduceat(cpu_s * _before(t_ns, trace.reach_ns[0]), joints.begin)
        parts = _cut(t_ns, trace.reach_ns)
        wall_s, cpu_s, modelled = np.diff(t_ns) * 1e-9, cpu_s * parts, modelled * parts
        increments = {name: values * parts for name, values in increments.items()}
    # A segment of no length lies in no quantum; its counts stay with its instance.
    _loops.weigh(t_ns, cpu_s, NOTHING, modelled)
    modelled[joints.between] = 0.0
    outside = [] if part.own_ns is None else list(_outside(t_ns, joints, part.own_ns))
    sums = {"own_s": wall_s, "cpu_s": cpu_s, **increments}
    package = group.package
    slot, rows, bounds = number_instances(segment_fields, t_ns, sums, package, outside, joints, part.numbers)
    starts = joints.counts(segment_fields["kind"] == Kind.START, outside)
    aborted = joints.counts((segment_fields["flags"] & Flag.ABORTED) != 0, outside) if has_flags else [0] * len(starts)
    moved = [0] * len(starts)
    if package is not None:
        moved = joints.counts((package[:-1] != package[1:]) & running, [*outside, joints.between])
    begin, end = (None, None) if package is None else (package[:-1], package[1:])
    return JoinedSegments(
        group.threads, part.numbers, joints, t_ns, slot, cpu_s, modelled, counted, segment_fields["cpu"], begin, end,
        rows, bounds, disordered, aborted, starts, moved, earlier_s.tolist(), guesses,
    )  # fmt: skip


@dataclass(frozen=True)
class _Group:
    """The samples of some threads by column; after those of each thread is a place for its end.

    Attributes
    ----------
    threads : those that have samples
    joints : where the threads are
    fields : by name, (n,)
    package : (n,), at an end that no sample follows that of the last sample; None with one package
    end_ns : (threads,)
    ends : the columns at the end of each thread; empty if not known; None where a sample there has them
    ends_lost : (threads,) whether a sample there has no counts
    """

    threads: Sequence[Thread]
    joints: Joints
    fields: Fields
    package: NDArray[np.int16] | None
    end_ns: Times
    ends: list[dict[str, int] | None]
    ends_lost: NDArray[np.bool_]

    @classmethod
    def of(cls, part: Part, trace: Trace, *, packages: bool) -> _Group:
        """Take the samples of threads, and find out how each ends."""
        threads, fields, joints = part.threads, part.fields, Joints.of(part.counts)
        closed = np.array(part.closed)
        open_ends = joints.end[~closed]
        package = None
        if packages:
            package = threads[0].package(fields)
            package[open_ends] = package[open_ends - 1]
        # The owner of counts after dropped samples is unknown.
        ends = [
            None if is_closed else one.end_columns if one.first_drop_ns is None else {}
            for one, is_closed in zip(threads, part.closed, strict=True)
        ]
        fields["t_ns"][open_ends] = np.iinfo(np.uint64).max
        limits_ns = np.array([max(thread_end_ns(trace, one), 0) for one in threads], np.uint64)
        end_ns = np.minimum(fields["t_ns"][joints.end], limits_ns).astype(np.int64)
        ends_lost = are_lost(fields["flags"][joints.end]) & closed
        for name in _HEAD:
            fields[name][joints.end] = 0
        return cls(threads, joints, fields, package, end_ns, ends, ends_lost)

    @property
    def columns(self) -> list[str]:
        """The columns that were read."""
        return [one for one in self.fields if one not in _HEAD]


def _outside(t_ns: Times, joints: Joints, own_ns: tuple[int, int]) -> Iterator[slice]:
    """Yield where segments are that do not begin between two times."""
    found = np.empty((len(joints.end), 2), np.intp)
    _loops.search(t_ns, joints.begin, joints.end, own_ns, found)
    for part, (first, stop) in zip(joints.parts(), found.tolist(), strict=True):
        if first > part.start:
            yield slice(part.start, first)
        if stop < part.stop:
            yield slice(stop, part.stop)


def _times(group: _Group) -> tuple[Times, list[int]]:
    """Close the last segments and make times non-decreasing in each thread; the order of the records is right."""
    joints = group.joints
    t_ns, falls = limited_times(group.fields["t_ns"], joints, group.end_ns)
    for number in np.flatnonzero(falls):
        own = t_ns[joints.begin[number] : joints.end[number] + 1]
        np.maximum.accumulate(own, out=own)
    return t_ns, falls.tolist()


def limited_times(t_ns: NDArray[np.uint64], joints: Joints, ends_ns: Times) -> tuple[Times, NDArray[np.intp]]:
    """Return the times of threads, none after its thread's end, which follows them, and how many fall in each."""
    limited, falls = np.empty(len(t_ns), np.int64), np.empty(len(ends_ns), np.intp)
    _loops.limit(t_ns, joints.begin, joints.end, ends_ns, limited, falls)
    return limited, falls


def _before(t_ns: Times, begin_ns: int) -> Floats:
    """Return the part of each segment before a time; one of no length is before it or not."""
    length_ns, before_ns = np.diff(t_ns), np.maximum(begin_ns - t_ns[:-1], 0)
    none = (before_ns > 0).astype(np.float64)
    return np.divide(np.minimum(before_ns, length_ns), length_ns, out=none, where=length_ns > 0)


def _cut(t_ns: Times, reach_ns: tuple[int, int]) -> Floats:
    """Limit times to a window, in place; returns the part of each segment in it; one of no length is there or not."""
    length_ns = np.diff(t_ns)
    begin_ns, end_ns = reach_ns
    inside = ((t_ns[:-1] >= begin_ns) & (t_ns[:-1] < end_ns)).astype(np.float64)
    np.clip(t_ns, begin_ns, end_ns, out=t_ns)
    return np.divide(np.diff(t_ns), length_ns, out=inside, where=length_ns > 0)


def _fill_lost(group: _Group, lost: NDArray[np.bool_], t_ns: Times, around: Mapping[int, Around]) -> None:
    """Set the counts of lost samples, in place."""
    names = [one for one in group.columns if one != "cpu_ns"]
    for name in names:
        group.fields[name] = group.fields[name].astype(np.uint64, copy=False)
    for place, (part, columns) in enumerate(zip(group.joints.parts(), group.ends, strict=True)):
        at = slice(part.start, part.stop + 1) if columns is None else part
        if lost[at].any():
            for name in names:
                fill(group.fields[name][at], lost[at], t_ns[at], name, around.get(place, NOT_KNOWN))


def _increments(group: _Group, name: str, scale: float) -> Floats:
    """Differences of a cumulative column: in integers, then float, times a scale; a fall counts as 0."""
    joints = group.joints
    values = group.fields.pop(name).astype(np.uint64, copy=False)
    for end, columns in zip(joints.end.tolist(), group.ends, strict=True):
        if columns is not None:
            values[end] = columns[name] if name in columns else values[end - 1]
    out = np.empty(len(values) - 1, np.float64)
    _loops.increase(values, scale, out)
    out[joints.between] = 0.0
    return out


def _estimate_open(
    group: _Group,
    cut_off: Mapping[int, CutOff],
    running: NDArray[np.bool_],
    wall_s: Floats,
    cpu_s: Floats,
    modelled: Floats,
    means: Mapping[int, float],
) -> dict[int, CutOff]:
    """Set the last segments of threads that were killed, or cut off by a full disk, inside a task, in place.

    Their counts are unknown, so they get the thread's mean, which is given by ordinal or that of these samples. Returns
    which estimates were used, by the thread's place.
    """
    used = {}
    for number, (begin, end) in enumerate(zip(group.joints.begin.tolist(), group.joints.end.tolist(), strict=True)):
        # Columns are known, at a sample or at an end; or nothing ran.
        if group.ends[number] != {} or not running[end - 1]:
            continue
        ordinal, total_s = group.threads[number].ordinal, cpu_s[begin:end].sum()
        own_mean = modelled[begin:end].sum() / total_s if total_s > 0 else 1.0
        known = cut_off.get(ordinal)
        last_s = wall_s[end - 1] if known is None else min(known.cpu_s, wall_s[end - 1])
        cpu_s[end - 1], modelled[end - 1] = last_s, means.get(ordinal, own_mean) * last_s
        if known is not None:
            used[number] = known
    return used
