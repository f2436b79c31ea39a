"""Attribution in steps, by the model `cputime`: the joules of whole quanta are shared as soon as the quanta have ended.

The core gathers a step's samples into a row for each task and quantum (tprof/csrc/follow.h); the rules of `sharing`
divide the joules among these rows. Where quanta of several domains overlap, rows wait until each domain's quantum has
ended. So it makes no difference where a step ends, and for a trace that has ended the result is the profile's.

Other threads of the program run Python meanwhile, so nothing here gives the interpreter's lock away: see `added`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.trace.sums import NO_THREAD

from .load import part_on
from .natives.segments import OF_TASK
from .sharing import dynamic_rates, split_static, static_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.trace.increments import Increments

    from .hidden import Hidden
    from .natives.segments import NativeSegments

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

ROW = np.dtype(
    [
        ("begin_ns", "<i8"),
        ("end_ns", "<i8"),
        ("cpu_s", "<f8"),
        ("own_s", "<f8"),
        ("task", "<i8"),
        ("instance", "<u8"),
        ("package", "<i4"),
        ("package_end", "<i4"),
        ("process", "<i8"),
        ("ends", "<u8"),
    ]
)
"""The struct tprof_row of csrc/follow.h."""

MOMENT = np.dtype([("t_ns", "<i8"), ("instance", "<u8"), ("task", "<i8"), ("ends", "<u8")])
"""The struct tprof_moment of csrc/follow.h."""


NOBODY, SPINNING, UNIDENTIFIED = -1, -2, -3
"""Tasks of rows without one: between tasks; of native threads after the task that used them, and of one of several."""


def added(sums: Floats, key: NDArray[np.int64], values: Floats) -> Floats:
    """Return the sums with values added under their keys, longer where a key is new; keeps the interpreter's lock.

    NumPy's own (bincount, add.at, searchsorted, interp) give it away, and where other threads run Python, to win it
    back takes milliseconds each time. The arrays of one step are short.
    """
    if not len(key):
        return sums
    keys = key.tolist()
    more: list[float] = sums.tolist()
    more += [0.0] * (max(keys) + 1 - len(more))
    for at, value in zip(keys, values.tolist(), strict=True):
        more[at] += value
    return np.array(more)


@dataclass(frozen=True, slots=True)
class Rows:
    """The load of threads: a row for each task of a thread between two edges, or for each of its instances.

    Attributes
    ----------
    begin_ns, end_ns : (n,) int64
    cpu_s : (n,) float64, CPU seconds
    own_s : (n,) float64, seconds in which a thread ran it
    task : (n,) int64, index in the table; below 0: `NOBODY`, `SPINNING`, `UNIDENTIFIED`
    instance : (n,) uint64, one of those that the row stands for
    package, package_end : (n,) where its segments begin and end, -1: not known
    process, thread : (n,), of threads without samples and where nobody asks for threads `NO_THREAD`
    ends : (n,) whether its instance ends with it; known only if each instance has its own rows
    """

    begin_ns: Times
    end_ns: Times
    cpu_s: Floats
    own_s: Floats
    task: NDArray[np.int64]
    instance: NDArray[np.uint64]
    package: NDArray[np.int32]
    package_end: NDArray[np.int32]
    process: NDArray[np.int64]
    ends: NDArray[np.bool_]
    thread: NDArray[np.int64]

    @classmethod
    def of(cls, rows: bytes, threads: Sequence[tuple[int, int]] = ()) -> Rows:
        """Decode the rows of the core; `threads` are the numbers of threads, with how many bytes each has."""
        table = np.frombuffer(rows, ROW)
        numbers, sizes = zip(*threads, strict=True) if threads else ((NO_THREAD,), (len(rows),))
        thread = np.repeat(np.array(numbers, np.int64), np.array(sizes) // ROW.itemsize)
        columns = {name: table[name] for name in cls.__slots__ if name not in ("ends", "thread")}
        return cls(**columns, ends=table["ends"].astype(bool), thread=thread)

    @classmethod
    def of_native(cls, native: NativeSegments, edges_ns: Times, process: int) -> Rows:
        """Return rows for a pool of native threads: one for each task, and what is no task's, between two edges."""
        first = max(int(np.searchsorted(native.t_ns, edges_ns[0], side="right")) - 1, 0)
        last = int(np.searchsorted(native.t_ns, edges_ns[-1], side="left"))
        if last <= first:
            return cls.of(b"")
        bounds_ns = native.t_ns[first : last + 1]
        points_ns = np.unique(np.clip(np.concatenate((bounds_ns, edges_ns)), bounds_ns[0], bounds_ns[-1]))
        points_ns = points_ns[(points_ns >= edges_ns[0]) & (points_ns <= edges_ns[-1])]
        cell = np.searchsorted(native.t_ns, points_ns[:-1], side="right") - 1
        used_s = native.cpu_s[cell] * (np.diff(points_ns) / (native.t_ns[cell + 1] - native.t_ns[cell]))
        other = np.array([NOBODY, NOBODY, SPINNING, UNIDENTIFIED])[native.kind[cell]]
        task = np.where(native.kind[cell] == OF_TASK, native.task[cell], other)
        interval = np.searchsorted(edges_ns, points_ns[:-1], side="right") - 1
        keys, place = np.unique(np.column_stack((interval, task))[used_s > 0], axis=0, return_inverse=True)
        count = len(keys)
        unknown = np.full(count, -1, np.int32)
        return cls(
            edges_ns[keys[:, 0]], edges_ns[keys[:, 0] + 1],
            np.bincount(place.ravel(), weights=used_s[used_s > 0], minlength=count).astype(np.float64),
            np.zeros(count), keys[:, 1], np.zeros(count, np.uint64), unknown, unknown, np.full(count, process),
            np.zeros(count, bool), np.full(count, NO_THREAD),
        )  # fmt: skip

    @classmethod
    def of_process(cls, edges_ns: Times, cpu_s: float) -> Rows:
        """Return rows for a process that used so much CPU time evenly between the edges, by threads without a task."""
        length_ns, count = np.diff(edges_ns), len(edges_ns) - 1
        own, unknown, nobody = np.zeros(count, np.int64), np.full(count, -1, np.int32), np.full(count, -1)
        used_s = length_ns * (cpu_s / float(length_ns.sum()))
        return cls(
            edges_ns[:-1], edges_ns[1:], used_s, used_s, nobody, np.zeros(count, np.uint64), unknown, unknown, own,
            own > 0, np.full(count, NO_THREAD),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.cpu_s)

    @property
    def whole_s(self) -> float:
        """CPU seconds of all."""
        return float(self.cpu_s.sum())

    def before(self, t_ns: int) -> float:
        """Return the CPU seconds up to a moment."""
        part = np.clip((t_ns - self.begin_ns) / (self.end_ns - self.begin_ns), 0.0, 1.0)
        return float((part * self.cpu_s).sum())

    def kept(self, which: NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        return self if which.all() else Rows(*(getattr(self, name)[which] for name in self.__slots__))

    def joined(self, more: Rows) -> Rows:
        """Return these rows and others."""
        if not len(self):
            return more
        return Rows(*(np.concatenate((getattr(self, name), getattr(more, name))) for name in self.__slots__))


class GrowingQuanta:
    """The quanta of one domain, as they become known; those that were shared are dropped.

    Attributes
    ----------
    lead_in_j : joules before `begin`
    known_j : joules from the first edge on, shared or not
    is_whole : whether all of them are known
    """

    def __init__(self, name: str, package: int | None, static_w: float) -> None:
        """Begin without quanta."""
        self.name, self.package, self.static_w = name, package, static_w
        self.lead_in_j = self.known_j = 0.0
        self.is_whole = False
        self._begin_ns: int | None = None
        self._edges_ns: Times = np.empty(0, np.int64)
        self._energy_j: Floats = np.empty(0)

    @property
    def first_ns(self) -> int | None:
        """The first edge that is known and not dropped: where the last shared quantum ended. None without quanta."""
        done = self.is_whole and not len(self._energy_j)
        return int(self._edges_ns[0]) if len(self._edges_ns) and not done else None

    @property
    def last_ns(self) -> int | None:
        """The last edge that is known; None without edges."""
        return int(self._edges_ns[-1]) if len(self._edges_ns) else None

    def add(self, found: Increments) -> None:
        """Add what a counter found; the best estimate of the time of a change is the middle of its window."""
        if len(found.t_ns):
            # The very first reading ends no quantum.
            energy_j = found.energy_j if len(self._edges_ns) else found.energy_j[1:]
            self.append(found.t_ns - found.window_ns // 2, energy_j)

    def pass_over(self, found: Increments) -> None:
        """Add what a counter found, and drop the quanta: only their sum is of interest."""
        self.add(found)
        last_ns = self.last_ns
        if last_ns is not None:
            self.take(last_ns)

    def append(self, edges_ns: Times, energy_j: Floats) -> None:
        """Add the edges at which quanta end, and the joules of each; the very first edge ends none."""
        self._edges_ns = np.concatenate((self._edges_ns, edges_ns))
        self._energy_j = np.concatenate((self._energy_j, energy_j))
        self.known_j += float(energy_j.sum())
        self._cut()

    def begin(self, t_ns: int) -> None:
        """Drop what is before a time; a quantum that is cut keeps its part by time."""
        self._begin_ns = t_ns
        self._cut()

    def _cut(self) -> None:
        if self._begin_ns is None or not len(self._edges_ns) or self._edges_ns[0] >= self._begin_ns:
            return
        first = bisect_right(self._edges_ns, self._begin_ns) - 1
        self.lead_in_j += float(self._energy_j[:first].sum())
        self._edges_ns, self._energy_j = self._edges_ns[first:].copy(), self._energy_j[first:].copy()
        if len(self._energy_j):
            part = (self._edges_ns[1] - self._begin_ns) / (self._edges_ns[1] - self._edges_ns[0])
            self.lead_in_j += float(self._energy_j[0] * (1 - part))
            self._energy_j[0] *= part
            self._edges_ns[0] = self._begin_ns

    def edge(self, since_ns: int, at_most_ns: int) -> int | None:
        """Return the last edge after one time and not after another, else the next one; None without any."""
        after = bisect_right(self._edges_ns, since_ns)
        if after == len(self._edges_ns):
            return None
        return int(self._edges_ns[max(bisect_right(self._edges_ns, at_most_ns) - 1, after)])

    def inside(self, since_ns: int, until_ns: int) -> Times:
        """Return the edges between two times."""
        return self._edges_ns[bisect_right(self._edges_ns, since_ns) : bisect_left(self._edges_ns, until_ns)]

    def known(self) -> tuple[Times, Floats]:
        """Return the edges and joules of all quanta that are known and not dropped."""
        return self._edges_ns, self._energy_j

    def take(self, until_ns: int) -> tuple[Times, Floats]:
        """Return the edges and joules of the whole quanta up to a time, and drop them."""
        last = max(bisect_right(self._edges_ns, until_ns) - 1, 0)
        edges_ns, energy_j = self._edges_ns[: last + 1], self._energy_j[:last]
        self._edges_ns, self._energy_j = self._edges_ns[last:], self._energy_j[last:]
        return edges_ns, energy_j


def all_edges(domains: Sequence[GrowingQuanta], since_ns: int, until_ns: int) -> Times:
    """Return all domains' edges between two times, with these two."""
    if len(domains) == 1:
        return np.concatenate(([since_ns], domains[0].inside(since_ns, until_ns), [until_ns]), dtype=np.int64)
    edges = {since_ns, until_ns}.union(*(domain.inside(since_ns, until_ns).tolist() for domain in domains))
    return np.array(sorted(edges), np.int64)


@dataclass
class Accounts:
    """Joules so far.

    Attributes
    ----------
    task_j, own_task_j, starts : by index in the task table; joules, those of this process, instances that have begun
    tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j, measured_j : of all
    own_j : the part of this process and of threads that tprof does not see, without `other_j` and `idle_j`
    others_j : the rest of that
    """

    task_j: Floats = field(default_factory=lambda: np.zeros(0))
    own_task_j: Floats = field(default_factory=lambda: np.zeros(0))
    starts: Floats = field(default_factory=lambda: np.zeros(0))
    tasks_j: float = 0.0
    runtime_j: float = 0.0
    other_j: float = 0.0
    idle_j: float = 0.0
    spin_j: float = 0.0
    unidentified_j: float = 0.0
    measured_j: float = 0.0
    own_j: float = 0.0
    others_j: float = 0.0

    def count(self, starts: list[tuple[int, int]]) -> None:
        """Add instances that have begun: of which task, how many."""
        if starts:
            index, counts = zip(*starts, strict=True)
            self.starts = added(self.starts, np.array(index, np.int64), np.array(counts, np.float64))

    def add(self, task: NDArray[np.int64], row_j: Floats, own: NDArray[np.bool_], unseen_j: float) -> None:
        """Add joules of rows, and of threads without samples."""
        of_task = task >= 0
        self.task_j = added(self.task_j, task[of_task], row_j[of_task])
        of_own = of_task & own
        self.own_task_j = added(self.own_task_j, task[of_own], row_j[of_own])
        self.tasks_j += float(row_j[of_task].sum())
        self.runtime_j += float(row_j[task == NOBODY].sum()) + unseen_j
        self.spin_j += float(row_j[task == SPINNING].sum())
        self.unidentified_j += float(row_j[task == UNIDENTIFIED].sum())
        self.own_j += float(row_j[own].sum()) + unseen_j
        self.others_j += float(row_j[~own].sum())

    @property
    def parts_j(self) -> tuple[float, ...]:
        """The accounts, in the order of `tprof.trace.metric_names.ACCOUNTS`."""
        return self.tasks_j, self.runtime_j, self.other_j, self.idle_j, self.spin_j, self.unidentified_j

    def add_gpu(self, energy_j: float) -> None:
        """Add joules of a GPU."""
        self.measured_j += energy_j
        self.runtime_j += energy_j
        self.own_j += energy_j


@dataclass(frozen=True, slots=True)
class Shared:
    """What the counted domains gave to rows.

    Attributes
    ----------
    energy_j, dynamic_j : (n,) float64, joules, and those above static power
    quantum_j : (n,) float64, dynamic joules of all quanta in which the row lies: what it drew at most
    quantum_ns : (n,) int64, when the last of these began
    """

    energy_j: Floats
    dynamic_j: Floats
    quantum_j: Floats
    quantum_ns: Times

    @classmethod
    def none(cls, count: int) -> Shared:
        """Return nothing for so many rows; a row that no quantum covers keeps the time 0."""
        return cls(np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count, np.int64))

    def kept(self, which: NDArray[np.bool_]) -> Shared:
        """Return those of some rows."""
        return self if which.all() else Shared(*(getattr(self, name)[which] for name in self.__slots__))

    def with_more(self, count: int) -> Shared:
        """Return these, and nothing for so many further rows."""
        more = Shared.none(count)
        return Shared(*(np.concatenate((getattr(self, name), getattr(more, name))) for name in self.__slots__))


class IncrementalSharing:
    """Shares the joules of a session's counted domains in steps.

    Attributes
    ----------
    listeners : called with rows and what each was given, once all domains have shared theirs
    by_domain : `Accounts.parts_j` of each domain that has shared any, by its name
    """

    def __init__(
        self,
        domains: Sequence[GrowingQuanta],
        packages: Sequence[int],
        process: int,
        gpus: Sequence[GrowingQuanta] = (),
    ) -> None:
        """Begin without joules.

        Parameters
        ----------
        domains : whose joules are shared; may grow before the first step
        packages : of all domains, counted or not; likewise
        process : ordinal of this process
        gpus : whose joules go to `runtime_j`: when they worked for whom is known only later
        """
        self._gpus = gpus
        self.accounts = Accounts()
        self.listeners: list[Callable[[Rows, Shared], None]] = []
        self.by_domain: dict[str, tuple[float, ...]] = {}
        self._domains, self._packages, self._process = domains, packages, process
        self._rows = Rows.of(b"")
        self._shared = Shared.none(0)

    def step(self, rows: Rows, until_ns: int, hidden: Hidden) -> int:
        """Share the quanta that have ended; returns the time up to which all domains' joules are shared.

        Parameters
        ----------
        rows : the load since the step before; no row crosses an edge
        until_ns : end of this step
        hidden : CPU time without samples, at least since the time that the step before returned
        """
        shared = self._shared.with_more(len(rows))
        rows = self._rows.joined(rows)
        for domain in self._domains:
            edges_ns, energy_j = domain.take(until_ns)
            if len(energy_j):
                before_j = self.accounts.parts_j
                self._share(domain, rows, shared, edges_ns, energy_j, hidden)
                self._note(domain, before_j)
        for gpu in self._gpus:
            before_j = self.accounts.parts_j
            self.accounts.add_gpu(float(gpu.take(until_ns)[1].sum()))
            self._note(gpu, before_j)
        firsts = (domain.first_ns for domain in self._domains)
        shared_ns = min((until_ns if first_ns is None else first_ns for first_ns in firsts), default=until_ns)
        done = rows.end_ns <= shared_ns
        for listener in self.listeners:
            listener(rows.kept(done), shared.kept(done))
        self._rows, self._shared = rows.kept(~done), shared.kept(~done)
        return shared_ns

    def _note(self, domain: GrowingQuanta, before_j: tuple[float, ...]) -> None:
        """Add what the accounts got from a domain to its own."""
        known_j = self.by_domain.get(domain.name, (0.0,) * len(before_j))
        parts_j = zip(known_j, self.accounts.parts_j, before_j, strict=True)
        self.by_domain[domain.name] = tuple(known + after - before for known, after, before in parts_j)

    def _share(
        self, domain: GrowingQuanta, rows: Rows, shared: Shared, edges_ns: Times, energy_j: Floats, hidden: Hidden
    ) -> None:
        """Share the joules of whole quanta; adds what each row gets to `shared`."""
        inside = (rows.begin_ns >= edges_ns[0]) & (rows.begin_ns < edges_ns[-1])
        rows = rows.kept(inside)
        weight = part_on(rows.package, rows.package_end, domain.package, self._packages)
        cpu_s = rows.cpu_s if weight is None else rows.cpu_s * weight
        quantum = _quanta_of(rows.begin_ns, edges_ns)
        other_s, unseen_s = hidden.between(edges_ns, domain.package)
        used_s = added(other_s + unseen_s, quantum, cpu_s)
        seconds = np.diff(edges_ns) * 1e-9
        without_tasks = np.ones(len(seconds), bool)
        without_tasks[quantum[rows.task >= 0]] = False
        static_j, dynamic_j = split_static(energy_j, domain.static_w, seconds)
        dynamic, idle_j = dynamic_rates(dynamic_j, used_s, seconds, lambda: without_tasks)
        static, static_idle_j = static_rates(static_j, used_s, seconds)
        per_s = dynamic + static
        given_j = cpu_s * per_s[quantum]
        shared.energy_j[inside] += given_j
        shared.dynamic_j[inside] += cpu_s * dynamic[quantum]
        shared.quantum_j[inside] += dynamic_j[quantum] if weight is None else dynamic_j[quantum] * (weight > 0)
        shared.quantum_ns[inside] = np.maximum(shared.quantum_ns[inside], edges_ns[quantum])
        accounts = self.accounts
        accounts.add(rows.task, given_j, rows.process == self._process, float((per_s * unseen_s).sum()))
        accounts.other_j += float((per_s * other_s).sum())
        accounts.idle_j += idle_j + static_idle_j
        accounts.measured_j += float(energy_j.sum())


def _quanta_of(begin_ns: Times, edges_ns: Times) -> NDArray[np.int64]:
    edges = edges_ns.tolist()
    return np.array([bisect_right(edges, one_ns) - 1 for one_ns in begin_ns.tolist()], np.int64)
