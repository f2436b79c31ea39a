"""Who uses a native thread: known from outside, never from a regression of its CPU time on the tasks.

In this order:

1. Calls that give work to the pools of OpenBLAS and OpenMP were noted: whoever is inside a call is the user. This
   counts unless the pool works without a call, so that some were not seen. While no call goes on, the pool's threads
   can only spin. Calls from threads without samples are the program's own.
2. libgomp has a pool for each calling thread, and a thread that lives shortly serves who created it: their users are
   whatever runs on the creating thread.
3. Other threads are pools, by library, name and creator. The moments at which a pool that was idle becomes busy show
   its users: the caller runs at such an onset. Onsets are pooled over the session. Tasks are the users if nearly no
   onset can be another's. Without enough onsets each task can be a user, and whichever runs alone is.
4. A pool that is as busy while no task runs as while one does is nobody's: its time stays with the program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .clocks import INHERITED, Member, is_python, members_of, spins_ns
from .cuts import EVER, IDLE, LONG_NS, NO_TASK, PoolCut, Rules, Usage, distinct, long_spells, over
from .segments import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.analysis.attribution.segments import Model

    from tprof.trace import PoolCalls
    from tprof.trace.native import NativeThread

    from .cuts import Parts, Source
    from .segments import Reach

Times = NDArray[np.int64]

PIECE_NS, MOST_PIECES = 500_000, 10
"""Calls that were noted together lie apart: their time is spread in pieces about so far apart."""
MOST_UNEXPLAINED = 0.05
"""Part of a pool's CPU time that may begin without a call, before calls count as not known."""
SELDOM_RESTS = 0.05
"""Part of its life that a pool rests which is busy throughout."""
INDEPENDENT = 0.5
"""Part of the CPU time per second beside tasks that a pool of nobody takes without them."""
LEAST_ALONE_S, LEAST_ALONE, LEAST_BEGINS = 0.05, 0.05, 3
"""Seconds without tasks, as a part of all too, and how often a pool begins to work in them, before that is judged."""

LEAST_ONSETS = 8
CERTAIN_ALONE = 3
"""A task that ran alone at so many onsets is a user."""
MOST_OTHERS = 0.2
CERTAIN = 1.645
LEAST_RESTED = 10
"""Windows of a task in which the pool rested, before that says that the task does not use it."""
MOST_STILL = 1000
"""Windows of a time in which a clock stood still."""
AT_ONCE = 1 << 16
"""Windows that are looked at together."""


@dataclass(frozen=True)
class FoundPool:
    """A pool that tasks use, whose segments follow from what threads with samples ran.

    Attributes
    ----------
    name : the library's file name or, if that is not known, the threads' name
    process : pid
    threads : how many
    users : indices of the tasks that can be users
    basis : how they are known: "calls", "creator", "alone" (the only task that ran at a time), "onsets" or "unknown"
    spins_ns : how long its threads may spin after a call
    python : its threads if Python started them: stacks of theirs can be sampled
    cut : how it is cut, and sums over all its segments
    """

    name: str
    process: int
    threads: int
    users: tuple[int, ...]
    basis: str
    spins_ns: int
    python: tuple[Reach, ...]
    cut: PoolCut


@dataclass(frozen=True)
class Recorded:
    """What pools are found from.

    Attributes
    ----------
    threads, calls : native threads, and the calls with which others gave them work
    settings : variables of the program that say how pools wait
    start_ns : threads that are older were not seen being created
    model : power model, for threads that have the counters that it needs
    ran : what each thread with samples ran, in order
    parts : of the recording
    counted : of a recording that runs, the onsets of each pool before this part, to which those of the time within
        which pools count are added; None: all of the recording is here
    """

    threads: Sequence[NativeThread]
    calls: Sequence[PoolCalls]
    settings: Mapping[str, str]
    start_ns: int
    model: Model
    ran: Mapping[Reach, Runs]
    parts: Parts
    counted: dict[tuple[object, ...], Onsets] | None = None


@dataclass(frozen=True)
class TaskRuns:
    """When tasks ran on some threads: all of them, or only some."""

    threads: Sequence[Runs]
    only: NDArray[np.int64] | None = None

    def __call__(self, begin_ns: int, end_ns: int) -> Runs:
        """Return those that touch a time."""
        runs = Runs.joined([one.between(begin_ns, end_ns) for one in self.threads])
        return runs if self.only is None else runs.kept(np.isin(runs.task, self.only))


@dataclass(frozen=True)
class CallRuns:
    """The times inside the calls of a library, as runs of the instances that ran there; task -1: outside tasks.

    Attributes
    ----------
    calls : of all threads
    ran : what each thread ran, by its tid
    tids : the threads whose calls count
    only : the only task that counts; None: all do
    """

    calls: PoolCalls
    ran: Mapping[int, Runs]
    tids: Sequence[int]
    only: int | None

    def __call__(self, begin_ns: int, end_ns: int) -> Runs:
        """Return those that touch a time."""
        runs = Runs.joined([self._of_thread(tid, begin_ns, end_ns) for tid in self.tids])
        return runs if self.only is None else runs.kept(runs.task == self.only)

    def _of_thread(self, tid: int, begin_ns: int, end_ns: int) -> Runs:
        calls, ran = self.calls, self.ran.get(tid, Runs.none())
        first, stop = np.searchsorted(calls.tid, (tid, tid + 1)).tolist()
        low = first + int(np.searchsorted(calls.end_ns[first:stop], begin_ns))
        high = first + int(np.searchsorted(calls.begin_ns[first:stop], end_ns, side="right"))
        begins_ns, ends_ns, call = _pieces(calls, slice(low, max(high, low)))
        reach_ns = int(np.min(begins_ns, initial=begin_ns)), int(np.max(ends_ns, initial=end_ns))
        runs, piece = _inside(ran.between(*reach_ns), begins_ns, ends_ns)
        task, several = calls.task[call][piece], calls.several[call][piece]
        # A call of a task that ended within the time of others' calls does not lie in theirs.
        return runs.kept((runs.task == task) | several | (task < 0) | (not len(ran.task)))


def _pieces(calls: PoolCalls, which: slice) -> tuple[Times, Times, Times]:
    """Return begins, ends and places of calls, with those noted together spread evenly."""
    begin_ns, end_ns, inside = calls.begin_ns[which], calls.end_ns[which], calls.inside[which]
    count = np.where(inside < 1, np.clip((end_ns - begin_ns) // PIECE_NS, 1, MOST_PIECES), 1)
    of, number = _counted(count)
    each_ns = (end_ns - begin_ns)[of] / count[of]
    first_ns = begin_ns[of] + (number * each_ns).astype(np.int64)
    last_ns = np.minimum(first_ns + np.maximum(inside[of] * each_ns, 1).astype(np.int64), end_ns[of])
    return first_ns, last_ns, which.start + of


def _inside(ran: Runs, begin_ns: Times, end_ns: Times) -> tuple[Runs, Times]:
    """Return what a thread ran in some times, task -1 where it was none, and the place of the time of each."""
    t_ns = np.concatenate(([-LONG_NS], np.stack((ran.begin_ns, ran.end_ns), axis=1).ravel(), [LONG_NS]))
    first = np.searchsorted(t_ns, begin_ns, side="right") - 1
    of, number = _counted(np.searchsorted(t_ns, end_ns) - first)
    place = first[of] + number
    begin_ns, end_ns = np.maximum(begin_ns[of], t_ns[place]), np.minimum(end_ns[of], t_ns[place + 1])
    row = np.where(place % 2, place // 2, -1)
    instance, task = np.append(ran.instance, np.uint64(0))[row], np.append(ran.task, NO_TASK)[row]
    lasts = end_ns > begin_ns
    return Runs(begin_ns, end_ns, instance, task).kept(lasts), of[lasts]


def _counted(counts: Times) -> tuple[Times, Times]:
    """Return each place as often as its count says, and the numbers of these repetitions."""
    of = np.repeat(np.arange(len(counts)), counts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)


class Learnt(NamedTuple):
    """The tasks that begin a pool's work, and those of which the pool does not show whether they use it."""

    users: NDArray[np.int64]
    doubtful: NDArray[np.int64]


class Onsets:
    """What tasks did in the windows of a pool.

    A window is the time between two reads of a pool's clocks. In an onset an idle pool begins to work, so its caller
    runs. A task that ran alone at several onsets is a user. Other windows after an idle one say how often each task
    runs in one by chance: a task is the user if, with 95 % confidence, others can have begun few of the onsets only. A
    task that is no user by these is none if the pool rested while it ran, and it ran alone at no onset; else it is
    doubtful.

    Attributes
    ----------
    onsets, chances : windows in which the pool begins to work, and those after an idle one in which a task runs
    counts : (5, tasks) at how many onsets each task ran alone; in how many rests, windows, onsets and chances it ran
    """

    def __init__(self) -> None:
        """Begin without windows."""
        self.onsets = self.chances = 0
        self.counts = np.zeros((5, 0), np.int64)

    def add(self, usage: Usage, source: Source, rest_ns: int, own_ns: tuple[int, int]) -> None:
        """Count the windows in a time; a pool that is idle for less than `rest_ns` has not rested."""
        edges_ns = _edges(usage)
        idle = long_spells(_idle(usage, edges_ns), edges_ns, rest_ns)
        rested = np.append(False, idle)
        first, stop = (
            int(np.searchsorted(edges_ns, own_ns[0])),
            int(np.searchsorted(edges_ns, own_ns[1], side="right")) - 1,
        )
        for low in range(first, stop, AT_ONCE):
            at = slice(low, min(low + AT_ONCE, stop))
            self._count(edges_ns[low : at.stop + 1], idle[at], rested[at], source)

    def _count(self, edges_ns: Times, idle: NDArray[np.bool_], rested: NDArray[np.bool_], source: Source) -> None:
        runs, count = source(int(edges_ns[0]), int(edges_ns[-1])), len(idle)
        begin = np.clip(np.searchsorted(edges_ns, runs.begin_ns, side="right") - 1, 0, count)
        end = np.clip(np.searchsorted(edges_ns, runs.end_ns), 0, count)
        tasks = np.unique(runs.task).tolist()
        more = max(tasks, default=-1) + 1 - self.counts.shape[1]
        self.counts = np.pad(self.counts, ((0, 0), (0, max(more, 0))))
        seen = [over(begin[own], end[own], count) > 0 for own in (runs.task == task for task in tasks)]
        number = np.sum([np.zeros(count, bool), *seen], axis=0)
        chance = rested & (number > 0)
        onset = chance & ~idle
        self.onsets, self.chances = self.onsets + int(onset.sum()), self.chances + int(chance.sum())
        for task, ran in zip(tasks, seen, strict=True):
            self.counts[:, task] += [(ran & one).sum() for one in (onset & (number == 1), idle, ran, onset, chance)]

    def learnt(self) -> Learnt | None:
        """Return the tasks that use the pool; None if its onsets do not tell.

        What another than a task begins falls on the task only as often as any window does. So the largest part of the
        onsets that others may have begun follows, with 95 % confidence, from those that it missed (Wilson's interval).
        """
        if self.onsets < LEAST_ONSETS:
            return None
        alone, rested, windows, onsets, chances = self.counts
        missed, by_chance, square = self.onsets - onsets, chances / self.chances, CERTAIN**2
        spread = CERTAIN * np.sqrt(missed * (self.onsets - missed) / self.onsets + square / 4)
        most = (missed + square / 2 + spread) / (self.onsets + square)
        others = np.divide(most, 1 - by_chance, out=np.full(len(most), np.inf), where=by_chance < 1)
        users = (alone >= CERTAIN_ALONE) | (others <= MOST_OTHERS)
        if not users.any():
            return None
        doubtful = ~users & (windows > 0) & ((rested < LEAST_RESTED) | (alone > 0))
        return Learnt(np.flatnonzero(users), np.flatnonzero(doubtful))


def _edges(usage: Usage) -> Times:
    """Return the times between passes over all threads.

    A clock that stands still is not written: such a time counts as so many windows as passes fell into it, about.
    """
    begins_ns, ends_ns = usage.busy_ns
    usual_ns = float(np.median(ends_ns - begins_ns))
    passes_ns = usage.reads_ns[np.append(np.diff(usage.reads_ns) > usual_ns / 4, True)]
    pieces = np.clip(np.round(np.diff(passes_ns) / usual_ns), 1, MOST_STILL).astype(np.int64)
    before = np.append(0, np.cumsum(pieces))
    since_ns = np.interp(np.arange(before[-1] + 1), before, passes_ns - passes_ns[0])
    return np.asarray(distinct(since_ns.astype(np.int64)) + passes_ns[0])


def _idle(usage: Usage, edges_ns: Times) -> NDArray[np.bool_]:
    """Return the windows in which a pool's threads used next to no CPU time."""
    total_s = np.sum([np.interp(edges_ns, one.t_ns, one.cpu_s) for one in usage.clocks], axis=0)
    return np.asarray(np.diff(total_s) < IDLE * np.diff(edges_ns) * 1e-9)


def find_pools(recorded: Recorded) -> list[FoundPool]:
    """Return the pools that tasks use."""
    groups: dict[tuple[object, ...], list[Member]] = {}
    for member in members_of(recorded.threads, recorded.ran, recorded.start_ns, recorded.model):
        groups.setdefault(member.key, []).append(member)
    calls = {(one.pid, one.library): one for one in recorded.calls if one.complete}
    found = (_PoolSearch(members, recorded, calls).run() for members in groups.values())
    return [pool for pool in found if pool is not None]


def settings_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a program that say how pools wait."""
    given = manifest.get("pool_settings")
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


class _PoolSearch:
    """Finds who uses the threads of one pool."""

    def __init__(
        self, members: Sequence[Member], recorded: Recorded, calls: Mapping[tuple[int, str], PoolCalls]
    ) -> None:
        self._members, self._recorded = members, recorded
        self._one, self._created_by, self._key = members[0].thread, members[0].created_by, members[0].key
        self._how = self._key[0]
        self._usage = Usage([member.clock for member in members])
        self._library = members[0].library
        self._spins_ns = spins_ns(self._library, recorded.settings)
        self._calls = calls.get((self._one.pid, self._one.library))
        self._only = self._one.creator_task if self._how == "created" else None

    def run(self) -> FoundPool | None:
        """Return the pool; None if no task uses it."""
        known = None if self._calls is None else self._by_calls(self._calls)
        return known or self._by_tasks()

    def _by_calls(self, calls: PoolCalls) -> FoundPool | None:
        """Return a pool whose users its library's calls show; None if these do not explain when it worked."""
        recorded, since_ns = self._recorded, calls.since_ns
        call_spins_ns = spins_ns(self._library, {}) if "openblas" in self._library else 0
        of_tid: dict[int, Runs] = {}
        for at, ran in recorded.ran.items():
            if at.pid == calls.pid:
                of_tid[at.tid] = Runs.joined([of_tid.get(at.tid, Runs.none()), ran])
        tids = np.unique(calls.tid).tolist()
        if self._how == "pool":  # its threads may spin from the first, before any call
            since_ns = max(since_ns, *((one.thread.created_ns or 0) + call_spins_ns for one in self._members))
        elif self._created_by is not None:
            tids = [self._created_by.tid]
        source = CallRuns(calls, of_tid, tids, self._only)
        rules = Rules(self._spins_ns, since_ns, call_spins_ns)
        cut = PoolCut(self._usage, source, rules, recorded.parts)
        if not cut.tasks or cut.whole.unexplained_s > MOST_UNEXPLAINED * cut.whole.cpu_s:
            return None
        return self._found(cut.tasks, "calls", cut)

    def _by_tasks(self) -> FoundPool | None:
        """Return a pool whose users are among the tasks that run; None if it is nobody's."""
        one, recorded, is_pool = self._one, self._recorded, self._how == "pool"
        if is_python(one) and one.creator_task is None:
            return None
        threads = [ran for at, ran in recorded.ran.items() if at.pid == one.pid]
        if not is_pool and self._created_by is not None:
            threads = [recorded.ran[self._created_by]]
        only = None if self._only is None else np.array([self._only])
        source, rules = TaskRuns(threads, only), Rules(self._spins_ns)
        possible = np.unique(source(*EVER).task)
        if not len(possible):
            return None
        cut = PoolCut(self._usage, source, replace(rules, unsure=recorded.counted is not None), recorded.parts)
        if is_pool and _is_independent(cut):
            return None
        basis = "creator" if not is_pool else "unknown" if cut.whole.is_unidentified else "alone"
        learnt = self._onsets(source, rules.rest_ns).learnt() if len(possible) > 1 else None
        given = {member.thread.creator_task for member in self._members} - {None}
        users = np.array(sorted(task for task in given if task is not None), np.int64)
        if learnt is not None:
            users = np.union1d(learnt.users, users)
            possible, basis = np.union1d(users, learnt.doubtful), "onsets" if is_pool else "creator"
            cut = PoolCut(self._usage, replace(source, only=possible), replace(rules, users=users), recorded.parts)
        elif is_pool and given and not self._spins_ns and _never_rests(cut):
            # It may be work of its creator's that goes on beside the other tasks.
            basis, cut = "unknown", PoolCut(self._usage, source, Rules(users=users), recorded.parts)
        return self._found(possible.tolist(), basis, cut)

    def _onsets(self, source: TaskRuns, rest_ns: int) -> Onsets:
        """Count the pool's onsets, besides those that were counted before."""
        counted, own_ns = self._recorded.counted, self._recorded.parts.within_ns
        if counted is None or own_ns is None:
            counted, own_ns = {}, EVER
        onsets = counted.setdefault(self._key, Onsets())
        onsets.add(self._usage, source, rest_ns, own_ns)
        return onsets

    def _found(self, users: Iterable[int], basis: str, cut: PoolCut) -> FoundPool:
        one = self._one
        name = one.library.rsplit("/", 1)[-1] or ("" if INHERITED.match(one.name) else one.name)
        python = tuple(member.reach for member in self._members if is_python(one))
        return FoundPool(name, one.pid, len(self._members), tuple(sorted(users)), basis, self._spins_ns, python, cut)


def _never_rests(cut: PoolCut) -> bool:
    """Return whether a pool is busy throughout, so that nothing shows who calls it."""
    return cut.whole.low_s < SELDOM_RESTS * cut.whole.length_s


def _is_independent(cut: PoolCut) -> bool:
    """Return whether a pool is about as busy while no task runs as while one does."""
    (outside_s, outside_cpu_s), (on_s, on_cpu_s) = cut.whole.outside.tolist(), cut.whole.on.tolist()
    if outside_s < max(LEAST_ALONE_S, LEAST_ALONE * (outside_s + on_s)) or cut.whole.begins < LEAST_BEGINS:
        return False
    return bool(outside_cpu_s / outside_s > INDEPENDENT * on_cpu_s / max(on_s, 1e-9))
