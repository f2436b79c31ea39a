"""Reads what threads ran, block after block of a recording: their samples become segments and instances, in C.

A block is a window: it holds the segments that its intervals overlap, and counts those that begin in its own time. Its
samples are read once. What the next block needs stays: the running sample of each thread, segments that overlap both,
and instances that may run on. So a sample's meaning depends on no block, and an instance's sums neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tprof.analysis.engine import _engine
from tprof.analysis.engine.instance_table import InstanceTable

from tprof.trace.metadata import MAX_NS

from .known_counts import KnownCounts
from .segments import JoinedSegments, Joints
from .windows import IndexedThread, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.engine._engine import Layout, ThreadState

    from tprof.trace import Thread, Trace
    from tprof.trace.thread import Samples

    from .segments import CutOff, Model

WHOLE = Window((0, MAX_NS), MAX_NS, ())
NOTHING = 1e-15
"""Modelled power of a segment to which a model gives none: if it gives none to any, segments share by CPU time."""
THREAD = np.dtype(
    [
        ("t_ns", "<i8"), ("raw_ns", "<i8"), ("end_ns", "<i8"), ("cpu_ns", "<u8"), ("instance", "<u8"),
        ("parent", "<u8"), ("earlier_ns", "<i8"), ("disordered", "<i8"), ("aborted", "<i8"), ("starts", "<i8"),
        ("moved", "<i8"), ("task", "<u4"), ("cpu", "<u2"), ("package", "<i2"), ("kind", "u1"), ("flags", "u1"),
        ("is_running", "?"), ("", "V5"),
    ]
)  # fmt: skip
"""The running sample of a thread, and what its samples showed so far."""
RUNS_ON, ENDS, IS_CLOSED, IS_THERE = range(4)
"""What comes after the samples of a thread that `_engine.follow` is given."""
_HEAD = ("t_ns", "instance", "task", "cpu", "kind", "flags")


class Arrays:
    """The segments of a block while they are written; see `JoinedSegments`."""

    def __init__(self, room: int, columns: int) -> None:
        self.t_ns = np.empty(room, np.int64)
        self.slot = np.empty(room, np.int32)
        self.cpu_s = np.empty(room)
        self.cpu = np.empty(room, np.uint16)
        self.package, self.package_end = np.empty((2, room), np.int16)
        self.increments = np.empty((columns, room))
        self.count = 0

    @property
    def given(self) -> tuple[Any, ...]:
        """What the loops take."""
        return (
            self.t_ns, self.slot, self.cpu_s, self.cpu, self.package, self.package_end, self.increments, self.count,
        )  # fmt: skip

    @property
    def segments_s(self) -> NDArray[np.float64]:
        """The CPU seconds of all segments, joints between threads too."""
        return self.cpu_s[: max(self.count - 1, 0)]

    def with_room(self, count: int) -> Arrays:
        """Return arrays without segments that have room for so many: these, if they have it."""
        found = self if len(self.t_ns) >= count else Arrays(count + count // 4, len(self.increments))
        found.count = 0
        return found

    def follow(
        self,
        instances: InstanceTable,
        threads: Sequence[tuple[Any, ...]],
        before: Arrays,
        block: tuple[int, ...],
    ) -> list[list[int]]:
        """Let threads go on here and in a table of instances, and return their places: see `_engine.follow`.

        There is room for an instance of each of their samples, and of each thread.
        """
        places = np.zeros((len(threads), 4), np.int64)
        instances.count, self.count = _engine.follow(
            tuple(threads), before.given, places, (block, instances.given, self.given)
        )
        return places.tolist()

    def forget(self, instances: InstanceTable, is_over: NDArray[np.bool_]) -> None:
        """Forget some instances, of which no later block has a segment."""
        if is_over.any():
            slots = np.append(np.int32(0), instances.keep(~is_over) + np.int32(1))
            self.slot[: self.count] = slots[self.slot[: self.count]]

    def joined(
        self,
        threads: Sequence[Thread],
        numbers: Sequence[int],
        places: Sequence[tuple[int, int]],
        modelled: NDArray[np.float64],
        instances: InstanceTable,
        *,
        counted: Sequence[bool],
        earlier_s: Sequence[float],
        packages: bool,
    ) -> JoinedSegments:
        """Return what was written; `places` are of each thread its first segment and its end."""
        at = slice(0, max(self.count - 1, 0))
        begin, end = np.array(places, np.int64).reshape(-1, 2).T
        t_ns, cpu_s, joints = self.t_ns[: self.count], self.cpu_s[at], Joints(begin.copy(), end.copy())
        if len(modelled):
            # A segment of no length lies in no quantum; its counts stay with its instance.
            np.copyto(modelled, cpu_s * NOTHING, where=~(modelled > 0))
            modelled[t_ns[1:] == t_ns[:-1]] = 0.0
            modelled[joints.end[:-1]] = 0.0
        package, package_end = (one[at] if packages else None for one in (self.package, self.package_end))
        return JoinedSegments(
            threads, numbers, joints, t_ns, self.slot[at], cpu_s, modelled, counted, self.cpu[at], package, package_end,
            instances, earlier_s,
        )  # fmt: skip


@dataclass
class _Course:
    """How far a thread was read.

    Attributes
    ----------
    indexed, layout : the thread, and how its records are read
    given : what the engine's loops take of it
    known : fills in counts; None: it has none
    at : number of its next sample
    begin, fresh, end : where its segments in the block are, and the first that the block before did not have
    sums : modelled energy and CPU seconds of its segments, if its end may not be known
    is_read : whether no sample of it comes after those that were read
    is_over, is_guessed : whether it has ended, and whether its last segment is a guess
    cut_off : that guess, if its process says something
    """

    indexed: IndexedThread
    layout: Layout
    given: ThreadState
    known: KnownCounts | None
    at: int
    begin: int = 0
    fresh: int = 0
    end: int = 0
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))
    is_read: bool = False
    is_over: bool = False
    is_guessed: bool = False
    cut_off: CutOff | None = None

    @property
    def thread(self) -> Thread:
        """The thread."""
        return self.indexed.thread

    @property
    def ends(self) -> Mapping[str, int]:
        """The columns at its end, as far as they are known: the owner of counts after dropped samples is not."""
        return self.thread.end_columns if self.thread.first_drop_ns is None else {}


class ReadFacts(NamedTuple):
    """What the samples that were read show.

    Attributes
    ----------
    disordered : times that were before that of the sample before
    aborted, starts : samples that end an instance by the thread's end, that begin an instance
    moved : segments of tasks that begin on one package and end on another
    bare, guessed : threads without the model's counters, whose end is a guess
    """

    disordered: int
    aborted: int
    starts: int
    moved: int
    bare: int
    guessed: int


@dataclass
class BlockReader:
    """Reads the segments of threads in windows, which come in their order, or from any one on.

    Attributes
    ----------
    trace : whose window of time cuts segments
    threads : whose segments are read, and whose numbers are their places here
    model : power model
    packages : whether the machine has more than one package
    columns : the counters of which instances have counts; None: all
    cut_off : last segments that nothing in their file closes, by ordinal of the thread
    uncounted : returns the modelled energy per CPU second of threads without the model's counters
    widths : further sums of instances, as of `InstanceTable`
    names : of the counters, in the order of a table of instances
    held : ids of instances that do not end with the window, even if they seem to have ended
    guessed : ids of instances that nothing closes: the CPU time of their last segment is at most what was assigned
    instances : that may run on
    """

    trace: Trace
    threads: Sequence[IndexedThread]
    model: Model
    packages: bool
    columns: Collection[str] | None = None
    cut_off: Mapping[int, CutOff] = field(default_factory=dict)
    uncounted: Callable[[], float] = lambda: 1.0
    widths: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = field(init=False)
    held: NDArray[np.uint64] = field(init=False)
    guessed: list[int] = field(init=False)
    instances: InstanceTable = field(init=False)

    def __post_init__(self) -> None:
        """Begin before the first window."""
        wanted = None if self.columns is None else {*self.columns, *self.model.columns}
        every = counters_of([one.thread for one in self.threads])
        self.names = tuple(name for name in every if wanted is None or name in wanted)
        self.held = np.empty(0, np.uint64)
        self._uncounted: float | None = None
        self._layouts: dict[tuple[Any, ...], Layout] = {}
        self._first_ns = np.array([one.t_ns[0] for one in self.threads], np.int64)
        self._window: Window | None = None
        self._over: NDArray[np.bool_] | None = None
        self._begin(0)

    def _begin(self, t_ns: int) -> None:
        """Begin before a window."""
        self.instances = InstanceTable(len(self.names), self.widths)
        self.guessed = []
        self._states = np.zeros(len(self.threads), THREAD)
        self._states["end_ns"] = [max(one.end_ns, 0) for one in self.threads]
        counts = np.zeros((len(self.threads), 2, len(self.names)), np.uint64)
        self._courses = [
            _Course(
                one, self._layout(one.thread),
                (self._states[number : number + 1].view(np.uint8), counts[number], number),
                KnownCounts.of(one.thread, self.names), one.before(t_ns),
            )
            for number, one in enumerate(self.threads)
        ]  # fmt: skip
        self._is_gone = np.zeros(len(self.threads), bool)
        self._arrays = self._spare = Arrays(1, len(self.names))

    def _layout(self, thread: Thread) -> Layout:
        """Return how a thread's samples are read; those of a process mostly in one way."""
        key = thread.process, thread.dtype, *thread.columns
        if key not in self._layouts:
            tasks = None if thread.has_known_tasks else thread.table.lookup(thread.process)
            self._layouts[key] = layout_of(thread, self.names, tasks, packages=self.packages)
        return self._layouts[key]

    @property
    def facts(self) -> ReadFacts:
        """What the samples show that were read."""
        disordered, aborted, starts, moved = (int(self._states[name].sum()) for name in ReadFacts._fields[:4])
        bare = sum(not self._is_counted(one.thread) for one in self._courses)
        guessed = sum(one.cut_off is not None and not one.cut_off.is_known for one in self._courses)
        return ReadFacts(disordered, aborted, starts, moved, bare, guessed)

    def _is_counted(self, thread: Thread) -> bool:
        return set(self.model.columns) <= set(thread.columns)

    def over(self) -> NDArray[np.bool_]:
        """Return which instances ended with the window and are not held: no later window has a part of them."""
        if self._over is None:
            records, window = self.instances.records, self._window
            self._over = np.ones(len(records), bool)
            if window is not None and not window.is_last:
                # Those that end there have a segment in the next window too.
                self._over = np.asarray(records["ended"] & (records["end_ns"] < window.own_ns[1]))
                held = self.instances.find(self.held)
                self._over[held[held >= 0]] = False
        return self._over

    def read(self, window: Window) -> JoinedSegments:
        """Return the segments in a window, none of them cut but by the trace. Raises TraceError.

        Instances that ended with the window before are forgotten, and the arrays of the one before that overwritten.
        """
        if self._window is None or window.own_ns[0] != self._window.own_ns[1]:
            self._begin(window.own_ns[0])
        else:
            self._arrays.forget(self.instances, self.over())
        self._window, self._over = window, None
        numbers = np.flatnonzero((self._first_ns < window.until_ns) & ~self._is_gone).tolist()
        before, courses = self._arrays, [self._courses[number] for number in numbers]
        samples = [self._read(one, window.until_ns) for one in courses]
        count = sum(map(len, samples))
        self._spare, arrays = before, self._spare.with_room(before.count + count + 3 * len(numbers) + 3)
        self._arrays = arrays
        self.instances.make_room(count + len(numbers))
        threads = [self._given(number, one, read) for number, one, read in zip(numbers, courses, samples, strict=True)]
        block = (window.own_ns[0], window.until_ns, *self.trace.reach_ns)
        places = arrays.follow(self.instances, threads, before, block)
        for number, one, read, place in zip(numbers, courses, samples, places, strict=True):
            self._went_on(number, one, read, place)
        return self._joined([number for number in numbers if self._courses[number].end > self._courses[number].begin])

    def _read(self, one: _Course, until_ns: int) -> Samples:
        """Read the samples of a thread that a block needs, by the times that are known, as they are recorded."""
        is_later = one.is_over or (one.at == 0 and one.indexed.t_ns[0] >= until_ns)
        stop = one.at if is_later else max(one.indexed.after(until_ns), one.at)
        samples = one.thread.read_part(one.at, stop)
        one.is_read = one.at + len(samples) >= one.thread.count or one.at + len(samples) < stop
        return samples

    def _given(self, number: int, one: _Course, samples: Samples) -> tuple[Any, ...]:
        """Return what `_engine.follow` takes of a thread."""
        end_ns, ends, counts = int(self._states["end_ns"][number]), one.ends, None
        if ends:
            counts = np.array([ends.get(name, 0) for name in self.names], np.uint64)
        cut_off = self.cut_off.get(one.thread.ordinal)
        most_s = np.inf if cut_off is None else cut_off.cpu_s
        clock_ns = min(ends.get("cpu_ns", 0), MAX_NS) if ends else -1
        known = samples if one.known is None else one.known.filled(samples, one.at, end_ns)
        then = IS_CLOSED if one.is_read else IS_THERE
        return one.given, one.layout, known.view(np.uint8), one.begin, one.end, then, end_ns, clock_ns, most_s, counts

    def _went_on(self, number: int, one: _Course, samples: Samples, place: Sequence[int]) -> None:
        """Note where a thread is after a block, and whether it ended there."""
        one.begin, one.fresh, one.end, done = place
        if one.known is not None:
            one.known.passed(samples[:done], int(self._states["end_ns"][number]))
        one.at += done
        if one.is_read and not one.is_over and not self._states["is_running"][number]:
            one.is_over, instance = True, int(self._states["instance"][number])
            if not one.ends and instance:
                one.is_guessed, one.cut_off = True, self.cut_off.get(one.thread.ordinal)
                self.guessed.append(instance)
        self._is_gone[number] = one.is_over and one.end == one.begin

    def _joined(self, numbers: Sequence[int]) -> JoinedSegments:
        """Return the block."""
        arrays, courses = self._arrays, [self._courses[number] for number in numbers]
        cpu_s = arrays.segments_s
        increments = {name: arrays.increments[at][: len(cpu_s)] for at, name in enumerate(self.names)}
        counted = [self._is_counted(one.thread) for one in courses]
        modelled = self.model.modelled(increments, cpu_s) if any(counted) else cpu_s
        modelled = modelled.copy() if modelled is cpu_s else modelled
        self._complete(courses, counted, cpu_s, modelled)
        return arrays.joined(
            [one.thread for one in courses], numbers, [(one.begin, one.end) for one in courses], modelled,
            self.instances, counted=counted,
            earlier_s=[int(self._states["earlier_ns"][number]) * 1e-9 for number in numbers], packages=self.packages,
        )  # fmt: skip

    def _complete(
        self,
        courses: Sequence[_Course],
        counted: Sequence[bool],
        cpu_s: NDArray[np.float64],
        modelled: NDArray[np.float64],
    ) -> None:
        """Set the modelled energy of threads without the model's counters, and of last segments without an end.

        The latter have the thread's mean, or that of all others where it has no counters.
        """
        for one, has_counters in zip(courses, counted, strict=True):
            if not has_counters:
                modelled[one.begin : one.end] = cpu_s[one.begin : one.end]
            if not one.ends:
                stop = one.end - 1 if one.is_guessed else one.end
                fresh = slice(min(one.fresh, stop), stop)
                one.sums += modelled[fresh].sum(), cpu_s[fresh].sum()
            if one.is_guessed:
                modelled[stop] = cpu_s[stop] * (one.sums[0] / one.sums[1] if one.sums[1] > 0 else 1.0)
            if not has_counters:
                if self._uncounted is None:
                    self._uncounted = self.uncounted()
                modelled[one.begin : one.end] *= self._uncounted


def layout_of(thread: Thread, names: Sequence[str], tasks: NDArray[np.uint32] | None, *, packages: bool) -> Layout:
    """Return where the fields of a thread's samples are, and what its numbers of tasks and processors mean.

    Parameters
    ----------
    thread : of a trace
    names : of the counters that are wanted
    tasks : the index of each number of a task; None: the samples have indices
    packages : whether the machine has more than one package
    """
    places: Mapping[str, tuple[Any, ...]] = thread.dtype.fields or {}
    offsets = [int(places[name][1]) for name in _HEAD]
    columns = np.array([places[one][1] if one in thread.columns else -1 for one in names], np.int64)
    cpu_ns = int(places["cpu_ns"][1]) if "cpu_ns" in thread.columns else -1
    of_cpus = np.ascontiguousarray(thread.packages_of_cpus, np.int16) if packages else None
    return thread.dtype.itemsize, *offsets, cpu_ns, columns, tasks, of_cpus


def counters_of(threads: Sequence[Thread]) -> list[str]:
    """Return the counters of threads in the order of a table of instances."""
    names = dict.fromkeys(name for one in threads for name in one.columns)
    return [name for name in names if name not in ("energy_uj", "cpu_ns")]
