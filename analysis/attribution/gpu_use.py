"""What is known of a GPU's use: which streams are marked, which processes had it, and what is left for this program.

What is left is booked in turn, once it is known in which quanta instances take it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .accounts import Account

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tprof.trace import Trace
    from tprof.trace.gpu import GpuSegments, GpuUsers

    from .quanta import Quanta

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
SCOPE = "gpu"
LEAST_IDLE_S = 0.1
UNMARKED_SHARE = 0.05
MARK = "mark it with @tprof.task(gpu=True), or put `with tprof.gpu():` around what launches"


@dataclass(frozen=True)
class GpuUse:
    """All that is known of one GPU's use.

    Attributes
    ----------
    parts : segments of this device
    users : of this domain; empty if they cannot be told from this program's processes
    pids : of the program
    launchers : ordinals of the processes that used a GPU; None: not known
    is_window : whether the trace is a window of a recording
    """

    parts: tuple[GpuSegments, ...]
    users: tuple[GpuUsers, ...]
    pids: frozenset[int]
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
    users = tuple(one for one in trace.gpu.users if one.domain == domain)
    seen = {pid for one in users for pid, _ in one.processes}
    begun = frozenset(note.process for note in trace.gpu.notes if note.used)
    warnings: list[str] = []
    if seen and not seen & processes.keys() and (parts or begun):
        warnings.append(
            f"the driver names the processes on {domain} by numbers of another container or of the host: what others "
            "used there counts as this program's; run the container with --pid=host to tell them apart"
        )
        users = ()
    if any(_is_unknown(one, processes) for one in users):
        warnings.append(
            f"other programs had {domain} open too, and the driver does not say who used it: all counts as this "
            "program's"
        )
    launchers = begun | {processes[pid] for pid in seen & processes.keys()} | {part.process for part in parts}
    known = launchers if trace.gpu else None
    return GpuUse(parts, users, frozenset(processes), known, tuple(warnings), is_window=trace.recorded is not None)


def _processes(trace: Trace) -> dict[int, int]:
    """Return the ordinals of the program's processes by their numbers."""
    ended = {
        one["pid"]: one["process"]
        for one in trace.end.get("processes", ())
        if type(one.get("pid")) is int and type(one.get("process")) is int
    }
    return ended | {thread.pid: thread.process for thread in trace.threads if thread.pid > 0}


def _is_unknown(one: GpuUsers, processes: Mapping[int, int]) -> bool:
    """Return whether this program and others had a GPU open, and the driver did not say who used it."""
    return len({pid in processes for pid, part in one.processes if part is None}) > 1


def _domain_of(part: GpuSegments, manifest: Mapping[str, Any], names: set[str]) -> str | None:
    """Return the domain of a device, by its UUID or PCI address; the only GPU is it without any."""
    for one in manifest.get("domains", ()):
        if one.get("name") in names and {one.get("uuid"), one.get("pci")} & set(part.device):
            return str(one["name"])
    return next(iter(names)) if len(names) == 1 else None


def idle_watts(whole: Quanta, start_ns: int, given_w: float | None) -> float | None:
    """Return a GPU's idle watts: given, or the mean before the block began; None if that is too short."""
    if given_w is not None:
        return given_w
    # The first quantum ends with an update that has joules of before the first reading.
    since = whole.edges_ns[min(1, len(whole))] if len(whole) else start_ns
    lead, _ = whole.between(int(since), max(start_ns, int(since)))
    seconds = float((np.diff(lead.edges_ns) * lead.valid).sum()) * 1e-9 if len(lead) else 0.0
    return float(lead.energy_j.sum()) / seconds if seconds >= LEAST_IDLE_S else None


@dataclass(frozen=True)
class GpuSplit:
    """The joules of each of a GPU's quanta, (k,).

    Attributes
    ----------
    idle, other, own : idle ones, those of other processes, and this program's
    nobody : whether the driver saw no use at all
    warnings : on what is known of them
    """

    idle: Floats
    other: Floats
    own: Floats
    nobody: NDArray[np.bool_]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, quanta: Quanta, use: GpuUse, idle_w: float | None) -> GpuSplit:
        """Split the joules; an idle power that is not known is none."""
        warnings = use.warnings
        if idle_w is None:
            why = f"the idle power of {quanta.name} is not known, and counts as the program's"
            warnings += (f"{why}: record some idle time before the block (idle_s=0.5)",)
        idle_j = np.minimum(quanta.energy_j, (idle_w or 0.0) * np.diff(quanta.edges_ns) * 1e-9)
        own, other, known = used_parts(use, quanta.edges_ns)
        used = own + other
        part = np.divide(other, used, out=np.zeros(len(used)), where=used > 0)
        dynamic_j = quanta.energy_j - idle_j
        return cls(idle_j, dynamic_j * part, dynamic_j * (1 - part), known & (used <= 0), warnings)

    def booked(
        self, quanta: Quanta, worked: NDArray[np.bool_], tasks_j: float, *, marked: bool
    ) -> tuple[Account, tuple[str, ...]]:
        """Return the account and the warnings.

        Parameters
        ----------
        quanta : that were split
        worked : (k,) whether this program's joules go to streams
        tasks_j : what instances take of these; the rest is of streams without any
        marked : whether streams are marked
        """
        if not quanta.valid.any():
            return Account(quanta.name, *[float("nan")] * 7), self.warnings
        nobody = self.nobody & ~worked
        own_j, loose_j = float(self.own.sum()), float(self.own[~worked & ~nobody].sum())
        outside_j = max(float(self.own[worked].sum()) - tasks_j, 0.0)
        idle_j = float(self.idle.sum()) + float(self.own[nobody].sum())
        account = Account(quanta.name, quanta.measured_j, tasks_j, outside_j + loose_j, float(self.other.sum()), idle_j)
        return account, self.warnings + _unmarked(quanta.name, loose_j, own_j, marked=marked)


def _unmarked(name: str, loose_j: float, own_j: float, *, marked: bool) -> tuple[str, ...]:
    if loose_j <= UNMARKED_SHARE * own_j or own_j <= 0:
        return ()
    part = f"{100 * loose_j / own_j:.0f} % of this program's joules on {name} (in `runtime`)"
    why = "are of times in which no task was marked on it" if marked else "could be of several tasks"
    return (f"{part} {why}: if it is a task's work, {MARK}",)


def used_parts(use: GpuUse, edges_ns: Times) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return for each quantum the part of this program's and of other processes, and whether all of it is known.

    A process of which only the open device is known counts as using it, unless this program has it open too.
    """
    k = len(edges_ns) - 1
    if not use.users:
        return np.zeros(k), np.zeros(k), np.zeros(k, bool)
    parts = np.array([_parts(one, use.pids) for one in use.users])
    since_ns = np.array([one.since_ns for one in use.users])
    t_ns = np.maximum.accumulate(np.array([one.t_ns for one in use.users]))
    since_ns = np.minimum(np.maximum(since_ns, np.concatenate(([0], t_ns[:-1]))), t_ns)
    # What holds at the first question and at the last one holds before and after.
    since_ns[0], t_ns[-1] = min(since_ns[0], edges_ns[0]), max(t_ns[-1], edges_ns[-1])
    length_ns = t_ns - since_ns
    times_ns = np.column_stack((since_ns, t_ns)).reshape(-1)

    def integral(values: Floats) -> Floats:
        steps = np.zeros(2 * len(values))
        steps[1::2] = values * length_ns
        return np.diff(np.interp(edges_ns, times_ns, np.cumsum(steps)))

    covered_ns = integral(np.ones(len(parts)))
    return integral(parts[:, 0]), integral(parts[:, 1]), covered_ns >= 0.5 * np.diff(edges_ns)


def _parts(one: GpuUsers, pids: frozenset[int]) -> tuple[float, float]:
    own = [part for pid, part in one.processes if pid in pids]
    other = [part for pid, part in one.processes if pid not in pids]
    if None in own or None in other:
        return (1.0, 0.0) if own else (0.0, 1.0)  # had it open
    return sum(part or 0.0 for part in own), sum(part or 0.0 for part in other)
