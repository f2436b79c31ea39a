"""Shares a GPU's joules by the time in which it worked for each instance; the processors' load has no part in it.

In each quantum the idle power goes to the account `idle` first, as it was before the program began. The rest is
dynamic:

- `other` gets the part of other processes, by the utilisation of each process that the driver samples.
- What remains is this program's. It goes to the instances for which streams worked in that quantum, in proportion to
  the time (`tprof.gpu`, CUDA events). A stream that waits for its program counts as working, so two tasks that overlap
  share by the length of their segments, not by their kernels.
- Where no stream is marked it goes to `idle` if the driver says that nobody used the GPU, else to `runtime`. A program
  that marks nothing at all is an exception: if in a quantum and in the one before only one task ran in the processes
  that use GPUs, kernels can only be that task's, and its instances share by their time. A window of a recording needs
  for that, besides its own quanta, what ran in the one before them.

An instance's joules are certain in quanta that it has for itself. In the others they are between 0 and all of the
program's part. Cost: O(segments + quanta that segments overlap).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .accounts import Account
from .quanta import GPU
from .segment_energy import rates, sum_by
from .windows import Reach

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tprof.trace import Trace
    from tprof.trace.gpu import GpuSegments, GpuUsers

    from .quanta import Quanta
    from .segments import JoinedSegments

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
Mask = NDArray[np.bool_]
UNMARKED_SHARE = 0.05
MARK = "mark it with @tprof.task(gpu=True), or put `with tprof.gpu():` around what launches"
NONE, SEVERAL = -1, -2
LONG_AGO = np.iinfo(np.int64).min
_NO_WORK = pd.DataFrame({"owner": np.empty(0, np.uint64), "quantum": np.empty(0, np.int64), "seconds": np.empty(0)})


@dataclass(frozen=True)
class Gpu:
    """A GPU of a trace, its quanta, and how the joules of each are split, (k,) each.

    Attributes
    ----------
    idle_j, other_j, own_j : idle ones, those of other processes, and this program's
    nobody : whether the driver saw no use at all
    parts : segments of its streams
    launchers : ordinals of the processes that used a GPU; None: not known
    warnings : on what is known of its use
    is_window : whether the trace is a window of a recording
    """

    quanta: Quanta
    idle_j: Floats
    other_j: Floats
    own_j: Floats
    nobody: Mask
    parts: tuple[GpuSegments, ...]
    launchers: frozenset[int] | None
    warnings: tuple[str, ...]
    is_window: bool

    @classmethod
    def of(cls, trace: Trace, quanta: Quanta, idle_w: float | None) -> Gpu:
        """Split the joules of quanta; an idle power that is not known is none."""
        name, processes = quanta.name, _processes(trace)
        domains = {one for one, of in trace.readings.items() if of.quantity == "energy" and of.scope == GPU}
        parts = tuple(part for part in trace.gpu.segments if _domain_of(part, trace.manifest, domains) == name)
        users = next((one for one in trace.gpu.users if one.domain == name), None)
        seen = set() if users is None else set(np.unique(users.pid).tolist())
        begun = {note.process for note in trace.gpu.notes if note.used}
        warnings: list[str] = []
        if seen and not seen & processes.keys() and (parts or begun):
            warnings.append(
                f"the driver names the processes on {name} by numbers of another container or of the host: what others "
                "used there counts as this program's; run the container with --pid=host to tell them apart"
            )
            users = None
        idle_j = np.minimum(quanta.energy_j, (idle_w or 0.0) * np.diff(quanta.edges_ns) * 1e-9)
        part, nobody = np.zeros(len(quanta)), np.zeros(len(quanta), bool)
        if users is not None:
            used = UsedParts.of(users, processes.keys())
            own, other, known = used.between(quanta.edges_ns)
            np.divide(other, own + other, out=part, where=own + other > 0)
            nobody = known & (own + other <= 0)
            if used.is_unknown:
                warnings.append(
                    f"other programs had {name} open too, and the driver does not say who used it: all counts as this "
                    "program's"
                )
        if idle_w is None:
            warnings.append(
                f"the idle power of {name} is not known, and counts as the program's: record some idle time before the "
                "block (idle_s=0.5)"
            )
        launchers = begun | {processes[pid] for pid in seen & processes.keys()} | {part.process for part in parts}
        dynamic_j = quanta.energy_j - idle_j
        return cls(
            quanta, idle_j, dynamic_j * part, dynamic_j * (1 - part), nobody, parts,
            frozenset(launchers) if trace.gpu else None, tuple(warnings), trace.recorded is not None,
        )  # fmt: skip

    @property
    def takes_all_that_ran(self) -> bool:
        """Whether what ran must tell whose the joules are: it may have been used, and no stream is marked."""
        return self.launchers != frozenset() and not any(len(part.stream) for part in self.parts)

    def reach(self, begin_ns: int) -> Reach:
        """Return from when to when what ran says whose the joules are; of the first quantum, all since a time."""
        edges_ns = self.quanta.edges_ns
        begins_ns = np.concatenate(([min(begin_ns, int(edges_ns[0]))], edges_ns[:-2]))
        return Reach(begins_ns, edges_ns[1:])


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

    A process of which only the open device is known counts as using it, unless this program has it open too.

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
    def of(cls, users: GpuUsers, pids: Collection[int]) -> UsedParts:
        """Tell the processes of a program from others."""
        count = len(users.t_ns)
        time, ours = np.repeat(np.arange(count), users.processes), np.isin(users.pid, list(pids))
        unknown = np.isnan(users.part)
        had, others_had = (np.bincount(time[which & unknown], minlength=count) > 0 for which in (ours, ~ours))
        has_any, opened, known = (
            np.bincount(time[ours], minlength=count) > 0,
            had | others_had,
            np.nan_to_num(users.part),
        )
        own, other = (sum_by(time[which], known[which], count) for which in (ours, ~ours))
        order = np.argsort(users.t_ns, kind="stable")
        t_ns = users.t_ns[order]
        since_ns = np.minimum(np.maximum(users.since_ns[order], np.append(0, t_ns[:-1])), t_ns)
        own, other = np.where(opened, has_any, own)[order], np.where(opened, ~has_any, other)[order]
        return cls(since_ns, t_ns, own, other, bool((had & others_had).any()))

    def between(self, edges_ns: Times) -> tuple[Floats, Floats, Mask]:
        """Return for each quantum how long this program and others used the GPU, ns, and whether most of it is known.

        What holds at the first question and at the last one holds before and after.
        """
        since_ns, t_ns = self.since_ns.copy(), self.t_ns.copy()
        since_ns[0], t_ns[-1] = min(since_ns[0], edges_ns[0]), max(t_ns[-1], edges_ns[-1])
        times_ns = np.column_stack((since_ns, t_ns)).reshape(-1)

        def integral(values: Floats) -> Floats:
            steps = np.zeros(2 * len(values))
            steps[1::2] = values * (t_ns - since_ns)
            return np.diff(np.interp(edges_ns, times_ns, np.cumsum(steps)))

        own, other, covered_ns = map(integral, (self.own, self.other, np.ones(len(t_ns))))
        return own, other, covered_ns >= 0.5 * np.diff(edges_ns)


def work_of(owner: NDArray[Any], begin_ns: Times, end_ns: Times, edges_ns: Times) -> pd.DataFrame:
    """Return how long (`seconds`) each `owner` worked in which `quantum`, a row for each segment and quantum in common.

    What ends on an edge is not in the next quantum.
    """
    at = np.flatnonzero(end_ns > begin_ns)
    first = np.maximum(np.searchsorted(edges_ns, begin_ns[at], side="right") - 1, 0)
    last = np.minimum(np.searchsorted(edges_ns, end_ns[at]), len(edges_ns) - 1)
    count = np.maximum(last - first, 0)
    at, place = np.repeat(at, count), np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    quantum = np.repeat(first, count) + place
    lasts_ns = np.minimum(end_ns[at], edges_ns[quantum + 1]) - np.maximum(begin_ns[at], edges_ns[quantum])
    return pd.DataFrame({"owner": owner[at], "quantum": quantum, "seconds": lasts_ns * 1e-9})


def marked_work(parts: Sequence[GpuSegments], edges_ns: Times) -> pd.DataFrame:
    """Return for which instances streams worked, 0: for none.

    The program of another clock may write segments of a stream that overlap: each ends where the next one begins.
    """
    found = [_NO_WORK]
    for part in parts:
        order = np.lexsort((part.begin_ns, part.stream))
        stream, owner, begin_ns, end_ns = (
            part.stream[order], part.instance[order], part.begin_ns[order], part.end_ns[order],
        )  # fmt: skip
        is_followed = np.flatnonzero(stream[1:] == stream[:-1])
        end_ns[is_followed] = np.minimum(end_ns[is_followed], begin_ns[is_followed + 1])
        found.append(work_of(owner, begin_ns, end_ns, edges_ns))
    return pd.concat(found)


def claims_of(work: pd.DataFrame, shared_j: Floats) -> pd.DataFrame:
    """Share the joules of quanta by time among instances; what is of none takes its part.

    Returns
    -------
    By instance, all of which add up: `joules` by the time in which streams worked, `least` of these in quanta that it
    has for itself, and `most` of the quanta in which it worked.
    """
    work = work.groupby(["quantum", "owner"], as_index=False).sum()
    quantum, seconds = (work[name].to_numpy() for name in ("quantum", "seconds"))
    joules = seconds * rates(shared_j, sum_by(quantum, seconds, len(shared_j)))[quantum]
    is_alone = np.bincount(quantum, minlength=len(shared_j))[quantum] == 1
    columns = {"joules": joules, "least": joules * is_alone, "most": shared_j[quantum]}
    found = pd.DataFrame({"instance": work["owner"].to_numpy(), **columns})
    return found[found["instance"] != 0].groupby("instance").sum()


class GpuShares:
    """What the instances of a recording take of one GPU, as windows pass in their order.

    Attributes
    ----------
    gpu : the GPU
    """

    def __init__(self, gpu: Gpu) -> None:
        """Share what is marked, of which all is known; other joules are shared window by window."""
        self.gpu = gpu
        self._worked = np.zeros(len(gpu.quanta), bool)
        self._claims = claims_of(_NO_WORK, np.empty(0))
        self._took_j, self._found = 0.0, 0
        self._valid = np.cumsum(np.concatenate(([False], gpu.quanta.valid, [False])))
        if not gpu.takes_all_that_ran:
            work = marked_work(gpu.parts, gpu.quanta.edges_ns)
            self._add(slice(0, len(gpu.quanta)), work, np.bincount(work["quantum"], minlength=len(gpu.quanta)) > 0)

    def share(self, own: slice, ran: JoinedSegments) -> None:
        """Share the joules of a window's own quanta among what ran in processes that use GPUs, if that was one task."""
        if not self.gpu.takes_all_that_ran or own.start == own.stop:
            return
        edges_ns, launchers = self.gpu.quanta.edges_ns, self.gpu.launchers
        before_ns = edges_ns[own.start - 1] if own.start else LONG_AGO
        launches = [launchers is None or one.process in launchers for one in ran.threads]
        runs = ran.joints.of_segments(np.array(launches, bool)) & (ran.slot > 0)
        row = ran.slot[runs] - 1
        edges_ns = np.append(before_ns, edges_ns[own.start : own.stop + 1])
        work = work_of(row, ran.t_ns[:-1][runs], ran.t_ns[1:][runs], edges_ns)
        quantum, of = work["quantum"].to_numpy(), ran.instances.records[work["owner"].to_numpy()]
        tasks = pd.Series(of["task"].astype(np.int64)).groupby(quantum).agg(["min", "max"])
        only = np.full(len(edges_ns) - 1, NONE)
        only[tasks.index] = np.where(tasks["min"] == tasks["max"], tasks["min"], SEVERAL)
        # Kernels may run on after the task that launched them has returned.
        is_only = (only[1:] >= 0) & ((only[:-1] == NONE) | (only[:-1] == only[1:]))
        work = work.assign(owner=of["instance"], quantum=quantum - 1)
        self._add(own, work[quantum > 0], is_only)

    def _add(self, own: slice, work: pd.DataFrame, worked: Mask) -> None:
        """Add what worked in the next quanta, of which some are shared."""
        self._worked[own] = worked
        claims = claims_of(work, np.where(worked, self.gpu.own_j[own], 0.0))
        self._claims = pd.concat([self._claims, claims]).groupby(level=0).sum()

    def take(self, records: np.ndarray[Any, Any]) -> tuple[Floats, Mask]:
        """Return joules and bounds of ended instances, (3, rows), and which of them a valid quantum covers."""
        found = self._claims.reindex(records["instance"])
        known = found["joules"].notna()
        joules, least, most = found.fillna(0.0).to_numpy().T
        if self.gpu.takes_all_that_ran:
            self._claims = self._claims.drop(found.index[known])
        self._took_j += float(joules.sum())
        self._found += int(known.sum())
        edges_ns = self.gpu.quanta.edges_ns
        first = np.searchsorted(edges_ns, records["start_ns"], side="right")
        last = np.maximum(np.searchsorted(edges_ns, records["end_ns"]), first)
        covered = self._valid[last] > self._valid[np.maximum(first - 1, 0)]
        return np.stack((joules, np.minimum(least, joules), np.maximum(most, joules))), covered

    def settled(self) -> tuple[Account, list[str]]:
        """Return the GPU's account and warnings; joules of instances that are not there stay in `runtime`."""
        gpu, name, took_j = self.gpu, self.gpu.quanta.name, self._took_j
        warnings = list(gpu.warnings)
        if not gpu.quanta.valid.any():
            return Account(name, *[float("nan")] * 7), warnings
        nobody = gpu.nobody & ~self._worked
        own_j, loose_j = float(gpu.own_j.sum()), float(gpu.own_j[~self._worked & ~nobody].sum())
        idle_j = float(gpu.idle_j.sum() + gpu.own_j[nobody].sum())
        runtime_j = max(float(gpu.own_j[self._worked].sum()) - took_j, 0.0) + loose_j
        if loose_j > UNMARKED_SHARE * own_j:
            part = f"{100 * loose_j / own_j:.0f} % of this program's joules on {name} (in `runtime`)"
            why = "are of times in which no task was marked on it" if gpu.parts else "could be of several tasks"
            warnings.append(f"{part} {why}: if it is a task's work, {MARK}")
        missed_j = 0.0 if gpu.takes_all_that_ran else float(self._claims["joules"].sum()) - took_j
        if gpu.is_window and self._found < len(self._claims) and missed_j > 0:
            late = f"{missed_j:.3g} J on {name} in this window are of work whose tasks ran before it"
            warnings.append(f"{late} (in `runtime`): the whole recording gives them to these tasks")
        return Account(name, gpu.quanta.measured_j, took_j, runtime_j, float(gpu.other_j.sum()), idle_j), warnings
