"""What is known of a GPU's use: which streams are marked, which processes had it, and what is left for this program.

What is left is booked in turn, once it is known in which quanta instances take it. Quanta may be split and booked part
by part; what is known of processes is then looked up near each part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import blocks, computed, empty, is_any, release
from tprof.trace.long_sorts import distinct_values, sorted_columns

from .accounts import Account

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Self

    from tprof.trace import Trace
    from tprof.trace.gpu import GpuSegments, GpuUsers

    from .quanta import Quanta

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
SCOPE = "gpu"
UNMARKED_SHARE = 0.05
MARK = "mark it with @tprof.task(gpu=True), or put `with tprof.gpu():` around what launches"


@dataclass(frozen=True)
class GpuUse:
    """All that is known of one GPU's use.

    Attributes
    ----------
    parts : segments of this device
    users : the parts of its time that processes used; None: they cannot be told from this program's, or nobody asked
    launchers : ordinals of the processes that used a GPU; None: not known
    is_window : whether the trace is a window of a recording
    """

    parts: tuple[GpuSegments, ...]
    users: UsedParts | None
    launchers: frozenset[int] | None
    warnings: tuple[str, ...]
    is_window: bool = False


def takes_all_that_ran(use: GpuUse) -> bool:
    """Return whether what ran must tell whose the joules are: a GPU may have been used, and no stream is marked."""
    return use.launchers != frozenset() and not any(len(part.stream) for part in use.parts)


def gpu_use(trace: Trace, domain: str) -> GpuUse:
    """Return what a trace knows of the use of one of its GPUs."""
    names = {name for name, one in trace.readings.items() if one.quantity == "energy" and one.scope == SCOPE}
    parts = tuple(part for part in trace.gpu.segments if _domain_of(part, trace.manifest, names) == domain)
    processes = _processes(trace)
    noted = next((one for one in trace.gpu.users if one.domain == domain), None)
    seen = set() if noted is None else set(distinct_values(noted.pid).tolist())
    begun = frozenset(note.process for note in trace.gpu.notes if note.used)
    warnings: list[str] = []
    if seen and not seen & processes.keys() and (parts or begun):
        warnings.append(
            f"the driver names the processes on {domain} by numbers of another container or of the host: what others "
            "used there counts as this program's; run the container with --pid=host to tell them apart"
        )
        noted = None
    users = None if noted is None else UsedParts.of(noted, processes.keys())
    if users is not None and users.is_unknown:
        warnings.append(
            f"other programs had {domain} open too, and the driver does not say who used it: all counts as this "
            "program's"
        )
    launchers = begun | {processes[pid] for pid in seen & processes.keys()} | {part.process for part in parts}
    known = launchers if trace.gpu else None
    return GpuUse(parts, users, known, tuple(warnings), is_window=trace.recorded is not None)


def _processes(trace: Trace) -> dict[int, int]:
    """Return the ordinals of the program's processes by their numbers."""
    ended = {
        one["pid"]: one["process"]
        for one in trace.end.get("processes", ())
        if type(one.get("pid")) is int and type(one.get("process")) is int
    }
    return ended | {thread.pid: thread.process for thread in trace.threads if thread.pid > 0}


def _domain_of(part: GpuSegments, manifest: Mapping[str, Any], names: set[str]) -> str | None:
    """Return the domain of a device, by its UUID or PCI address; the only GPU is it without any."""
    for one in manifest.get("domains", ()):
        if one.get("name") in names and {one.get("uuid"), one.get("pci")} & set(part.device):
            return str(one["name"])
    return next(iter(names)) if len(names) == 1 else None


@dataclass(frozen=True)
class UsedParts:
    """Which part of a GPU's time this program and others used, in times one after the other: (n,) each.

    A process of which only the open device is known counts as using it, unless this program has it open too. Long
    arrays are those of `long_arrays`.

    Attributes
    ----------
    is_unknown : whether this program and others once had the GPU open, and the driver did not say who used it
    """

    since_ns: Times
    t_ns: Times
    own: Floats
    other: Floats
    is_unknown: bool

    @classmethod
    def of(cls, users: GpuUsers, pids: Collection[int]) -> Self:
        """Tell the processes of a program from others."""
        count = len(users.t_ns)
        own, other = empty(count, np.float64), empty(count, np.float64)
        done, is_unknown = 0, False
        for at in blocks(count, own, other, users.processes, users.pid, users.part):
            processes = users.processes[at]
            some = slice(done, done := done + int(processes.sum()))
            time = np.repeat(np.arange(len(processes)), processes)
            parts = _Parts.of(time, len(processes), np.isin(users.pid[some], list(pids)), users.part[some])
            own[at], other[at] = parts.own, parts.other
            is_unknown |= parts.is_unknown
        t_ns, since_ns, own, other = sorted_columns(
            count, lambda at: (users.t_ns[at], users.since_ns[at], own[at], other[at]), own, other
        )

        def after_earlier(at: slice) -> Times:
            before_ns = t_ns[max(at.start - 1, 0) : at.stop - 1]
            before_ns = np.concatenate((np.zeros(at.stop - at.start - len(before_ns), np.int64), before_ns))
            return np.asarray(np.minimum(np.maximum(since_ns[at], before_ns), t_ns[at]))

        return cls(computed(count, np.int64, after_earlier, t_ns, since_ns), t_ns, own, other, is_unknown)

    def between(self, edges_ns: Times) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return for each quantum how long this program and others used the GPU, ns, and whether most of it is known.

        What holds at the first question and at the last one holds before and after.
        """
        count = len(self.t_ns)
        first = max(int(np.searchsorted(self.t_ns, edges_ns[0])) - 1, 0)
        near = slice(first, min(max(int(np.searchsorted(self.since_ns, edges_ns[-1])), first) + 1, count))
        since_ns, t_ns = self.since_ns[near].copy(), self.t_ns[near].copy()
        if near.start == 0:
            since_ns[0] = min(since_ns[0], edges_ns[0])
        if near.stop == count:
            t_ns[-1] = max(t_ns[-1], edges_ns[-1])
        times_ns = np.column_stack((since_ns, t_ns)).reshape(-1)

        def integral(values: Floats) -> Floats:
            steps = np.zeros(2 * len(values))
            steps[1::2] = values * (t_ns - since_ns)
            return np.diff(np.interp(edges_ns, times_ns, np.cumsum(steps)))

        own, other, covered_ns = (integral(one) for one in (self.own[near], self.other[near], np.ones(len(t_ns))))
        release(self.since_ns, self.t_ns, self.own, self.other)
        return own, other, covered_ns >= 0.5 * np.diff(edges_ns)


class _Parts(NamedTuple):
    """The parts that this program and others used at some times."""

    own: Floats
    other: Floats
    is_unknown: bool

    @classmethod
    def of(cls, time: NDArray[np.intp], times: int, ours: NDArray[np.bool_], part: Floats) -> Self:
        def at_times(which: NDArray[np.bool_], weights: Floats | None = None) -> Floats:
            return np.bincount(time[which], None if weights is None else weights[which], times).astype(float)

        unknown = np.isnan(part)
        had, others_had = at_times(ours & unknown) > 0, at_times(~ours & unknown) > 0
        opened, has_any = had | others_had, at_times(ours) > 0
        known = np.where(unknown, 0.0, part)
        return cls(
            np.where(opened, has_any, at_times(ours, known)),
            np.where(opened, ~has_any, at_times(~ours, known)),
            bool((had & others_had).any()),
        )


class Booked(NamedTuple):
    """Sums over a GPU's quanta.

    Attributes
    ----------
    idle_j, other_j, own_j : as in `GpuSplit`, idle ones with those of quanta in which nobody used the GPU
    worked_j, loose_j : of the program's, those of quanta in which work is known, and the rest
    """

    idle_j: float = 0.0
    other_j: float = 0.0
    own_j: float = 0.0
    worked_j: float = 0.0
    loose_j: float = 0.0

    def plus(self, other: Booked) -> Booked:
        """Return the sums with those of other quanta."""
        return Booked(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))

    def settled(self, quanta: Quanta, tasks_j: float, *, marked: bool) -> tuple[Account, tuple[str, ...]]:
        """Return the account and the warnings.

        Parameters
        ----------
        quanta : whose joules these are
        tasks_j : what instances take of these; the rest is of streams without any
        marked : whether streams are marked
        """
        if not is_any(quanta.valid):
            return Account(quanta.name, *[float("nan")] * 7), ()
        runtime_j = max(self.worked_j - tasks_j, 0.0) + self.loose_j
        account = Account(quanta.name, quanta.measured_j, tasks_j, runtime_j, self.other_j, self.idle_j)
        return account, _unmarked(quanta.name, self.loose_j, self.own_j, marked=marked)


@dataclass(frozen=True)
class GpuSplit:
    """The joules of each of a GPU's quanta, (k,).

    Attributes
    ----------
    idle, other, own : idle ones, those of other processes, and this program's
    nobody : whether the driver saw no use at all
    """

    idle: Floats
    other: Floats
    own: Floats
    nobody: NDArray[np.bool_]

    @classmethod
    def of(cls, quanta: Quanta, use: GpuUse, idle_w: float | None) -> Self:
        """Split the joules; an idle power that is not known is none."""
        idle_j = np.minimum(quanta.energy_j, (idle_w or 0.0) * np.diff(quanta.edges_ns) * 1e-9)
        dynamic_j = quanta.energy_j - idle_j
        if use.users is None:
            return cls(idle_j, np.zeros(len(idle_j)), dynamic_j, np.zeros(len(idle_j), bool))
        own, other, known = use.users.between(quanta.edges_ns)
        used = own + other
        part = np.divide(other, used, out=np.zeros(len(used)), where=used > 0)
        return cls(idle_j, dynamic_j * part, dynamic_j * (1 - part), known & (used <= 0))

    def booked(self, worked: NDArray[np.bool_]) -> Booked:
        """Return the sums; `worked` says of which quanta instances or streams take this program's joules, (k,)."""
        nobody = self.nobody & ~worked
        return Booked(
            float(self.idle.sum()) + float(self.own[nobody].sum()),
            float(self.other.sum()),
            float(self.own.sum()),
            float(self.own[worked].sum()),
            float(self.own[~worked & ~nobody].sum()),
        )


def warnings_of(name: str, use: GpuUse, idle_w: float | None) -> tuple[str, ...]:
    """Return the warnings on what is known of a GPU."""
    if idle_w is not None:
        return use.warnings
    why = f"the idle power of {name} is not known, and counts as the program's"
    return (*use.warnings, f"{why}: record some idle time before the block (idle_s=0.5)")


def _unmarked(name: str, loose_j: float, own_j: float, *, marked: bool) -> tuple[str, ...]:
    if loose_j <= UNMARKED_SHARE * own_j or own_j <= 0:
        return ()
    part = f"{100 * loose_j / own_j:.0f} % of this program's joules on {name} (in `runtime`)"
    why = "are of times in which no task was marked on it" if marked else "could be of several tasks"
    return (f"{part} {why}: if it is a task's work, {MARK}",)
