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
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .clocks import INHERITED, Member, is_python, members_of, spins_ns
from .cuts import IDLE, NO_TASK, Rules, Usage, cut_pool, distinct, extremes_s, long_spells
from .segments import LONG_NS, OUTSIDE, RUN, UNIDENTIFIED, joined, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.analysis.attribution.segments import Model

    from tprof.trace import PoolCalls
    from tprof.trace.native import NativeThread

    from .segments import NativeSegments, Reach, Runs

Floats = NDArray[np.float64]
Times = NDArray[np.int64]
EVER = (-LONG_NS, LONG_NS)

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
    """A pool that tasks use.

    Attributes
    ----------
    name : the library's file name or, if that is not known, the threads' name
    process : pid
    threads : how many
    users : indices of the tasks that can be users
    basis : how they are known: "calls", "creator", "alone" (the only task that ran at a time), "onsets" or "unknown"
    spins_ns : how long its threads may spin after a call
    python : its threads if Python started them: stacks of theirs can be sampled
    usage : the clocks of its threads
    whole : its CPU time
    within_ns : from when to when it counts; None: always
    """

    name: str
    process: int
    threads: int
    users: tuple[int, ...]
    basis: str
    spins_ns: int
    python: tuple[Reach, ...]
    usage: Usage
    whole: NativeSegments
    within_ns: tuple[int, int] | None

    @cached_property
    def segments(self) -> NativeSegments:
        """The CPU time that counts."""
        return self.whole if self.within_ns is None else self.whole.limited(*self.within_ns)

    def extremes_s(self, tasks: int) -> Floats:
        """Return the CPU seconds that count which each task used at least and at most, (2, tasks).

        What is not certain of all of it may all lie in the time in which the pool counts.
        """
        least_s, most_s = found = extremes_s(self.usage, self.whole, tasks)
        if self.within_ns is None:
            return found
        own_s, whole_s = (one.by_task(one.cpu_s, tasks)[:tasks] for one in (self.segments, self.whole))
        least_s = np.maximum(own_s - np.maximum(whole_s - least_s, 0.0), 0.0)
        return np.stack((least_s, np.minimum(own_s + np.maximum(most_s - whole_s, 0.0), self.segments.cpu_s.sum())))


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
    within_ns : from when to when pools count; None: always
    around_ns : from when to when it is known what ran
    counted : of a recording that runs, the onsets of each pool before this part, to which those of the time within
        which pools count are added; None: all of the recording is here
    """

    threads: Sequence[NativeThread]
    calls: Sequence[PoolCalls]
    settings: Mapping[str, str]
    start_ns: int
    model: Model
    ran: Mapping[Reach, Runs]
    within_ns: tuple[int, int] | None = None
    around_ns: tuple[int, int] = EVER
    counted: dict[tuple[object, ...], Onsets] | None = None


def runs_in_calls(calls: PoolCalls, tid: int, ran: Runs, only: int | None) -> Runs:
    """Return the times in which a thread called a library, as runs of the instances there; task -1: outside tasks.

    Parameters
    ----------
    calls : of all threads
    tid, ran : the thread, and what it ran
    only : the only task that counts; None: all do
    """
    begins_ns, ends_ns, call = _pieces(calls, slice(*np.searchsorted(calls.tid, (tid, tid + 1)).tolist()))
    runs, piece = _inside(ran, begins_ns, ends_ns)
    task, several = calls.task[call][piece], calls.several[call][piece]
    # A call of a task that ended within the time of others' calls does not lie in theirs.
    counts = (runs["task"] == task) | several | (task < 0) | (not len(ran))
    found: Runs = runs[counts & ((only is None) | (runs["task"] == only))]
    return found


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
    t_ns = np.concatenate(([-LONG_NS], np.stack((ran["begin_ns"], ran["end_ns"]), axis=1).ravel(), [LONG_NS]))
    first = np.searchsorted(t_ns, begin_ns, side="right") - 1
    of, number = _counted(np.searchsorted(t_ns, end_ns) - first)
    place = first[of] + number
    begin_ns, end_ns = np.maximum(begin_ns[of], t_ns[place]), np.minimum(end_ns[of], t_ns[place + 1])
    row = np.where(place % 2, place // 2, -1)
    instance, task = np.append(ran["instance"], np.uint64(0))[row], np.append(ran["task"], NO_TASK)[row]
    lasts = end_ns > begin_ns
    return table(RUN, begin_ns, end_ns, instance, task)[lasts], of[lasts]


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

    def add(self, usage: Usage, runs: Runs, rest_ns: int, own_ns: tuple[int, int]) -> None:
        """Count the windows in a time; a pool that is idle for less than `rest_ns` has not rested."""
        edges_ns = _edges(usage)
        idle = long_spells(_idle(usage, edges_ns), edges_ns, rest_ns)
        first, stop = int(np.searchsorted(edges_ns, own_ns[0])), int(np.searchsorted(edges_ns, own_ns[1], "right")) - 1
        more = int(runs["task"].max(initial=-1)) + 1 - self.counts.shape[1]
        self.counts = np.pad(self.counts, ((0, 0), (0, max(more, 0))))
        for low in range(first, stop, AT_ONCE):
            high = min(low + AT_ONCE, stop)
            here_ns, rested = edges_ns[low : high + 1], np.append(False, idle)[low:high]
            inside = (runs["end_ns"] > here_ns[0]) & (runs["begin_ns"] < here_ns[-1])
            self._count(here_ns, idle[low:high], rested, runs[inside])

    def _count(self, edges_ns: Times, idle: NDArray[np.bool_], rested: NDArray[np.bool_], runs: Runs) -> None:
        count = len(idle)
        begin = np.maximum(np.searchsorted(edges_ns, runs["begin_ns"], side="right") - 1, 0)
        end = np.minimum(np.searchsorted(edges_ns, runs["end_ns"]), count)
        of, number = _counted(end - begin)
        # Each task once in each window.
        task, window = np.divmod(np.unique(runs["task"][of] * count + begin[of] + number), count)
        together = np.bincount(window, minlength=count)
        chance = rested & (together > 0)
        onset = chance & ~idle
        self.onsets, self.chances = self.onsets + int(onset.sum()), self.chances + int(chance.sum())
        kinds = onset & (together == 1), idle, np.ones(count, bool), onset, chance
        tasks = self.counts.shape[1]
        self.counts += [np.bincount(task[which[window]], minlength=tasks) for which in kinds]

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
    found = (_Pool(members, recorded).found() for members in groups.values())
    return [pool for pool in found if pool is not None]


def settings_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a program that say how pools wait."""
    given = manifest.get("pool_settings")
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


class _Pool:
    """The threads of one pool, whose users are looked for."""

    def __init__(self, members: Sequence[Member], recorded: Recorded) -> None:
        self._members, self._recorded = members, recorded
        self._one, self._created_by, self._key = members[0].thread, members[0].created_by, members[0].key
        self._how, self._library = self._key[0], members[0].library
        self._usage = Usage([member.clock for member in members])
        self._spins_ns = spins_ns(self._library, recorded.settings)
        self._only = self._one.creator_task if self._how == "created" else None

    def found(self) -> FoundPool | None:
        """Return the pool with its users; None if no task uses it."""
        one = self._one
        calls = [of for of in self._recorded.calls if of.complete and (of.pid, of.library) == (one.pid, one.library)]
        known = self._by_calls(calls[-1]) if calls else None
        return known or self._by_tasks()

    def _cut(self, threads: Sequence[Runs], rules: Rules) -> NativeSegments:
        return cut_pool(self._usage, threads, rules)

    def _known(self, cut: NativeSegments) -> NativeSegments:
        """Return the part of which it is known what ran."""
        around_ns = self._recorded.around_ns
        return cut if around_ns == EVER else cut.limited(*around_ns)

    def _by_calls(self, calls: PoolCalls) -> FoundPool | None:
        """Return a pool whose users its library's calls show; None if these do not explain when it worked."""
        recorded, since_ns = self._recorded, calls.since_ns
        call_spins_ns = spins_ns(self._library, {}) if "openblas" in self._library else 0
        tids = np.unique(calls.tid).tolist()
        if self._how == "pool":  # its threads may spin from the first, before any call
            since_ns = max(since_ns, *((one.thread.created_ns or 0) + call_spins_ns for one in self._members))
        elif self._created_by is not None:
            tids = [self._created_by.tid]
        ran = {tid: joined([one for at, one in recorded.ran.items() if at[:2] == (calls.pid, tid)]) for tid in tids}
        rules = Rules(self._spins_ns, since_ns, call_spins_ns)
        cut = self._cut([runs_in_calls(calls, tid, ran[tid], self._only) for tid in tids], rules)
        users, known = np.unique(cut.runs["task"]).tolist(), self._known(cut)
        if not users or rules.unexplained_s(known) > MOST_UNEXPLAINED * known.cpu_s.sum():
            return None
        return self._found(users, "calls", cut)

    def _by_tasks(self) -> FoundPool | None:
        """Return a pool whose users are among the tasks that run; None if it is nobody's."""
        one, recorded, is_pool = self._one, self._recorded, self._how == "pool"
        if is_python(one) and one.creator_task is None:
            return None
        threads = [ran for at, ran in recorded.ran.items() if at.pid == one.pid]
        if not is_pool and self._created_by is not None:
            threads = [recorded.ran[self._created_by]]
        if self._only is not None:
            threads = _of_tasks(threads, [self._only])
        runs, rules = joined(threads), Rules(self._spins_ns)
        possible = np.unique(runs["task"])
        if not len(possible):
            return None
        cut = self._cut(threads, replace(rules, unsure=recorded.counted is not None))
        is_independent, never_rests, is_unidentified = _looked_at(self._known(cut))
        if is_pool and is_independent:
            return None
        basis = "creator" if not is_pool else "unknown" if is_unidentified else "alone"
        learnt = self._onsets(runs, rules.rest_ns).learnt() if len(possible) > 1 else None
        given = {member.thread.creator_task for member in self._members} - {None}
        users = np.array(sorted(task for task in given if task is not None), np.int64)
        if learnt is not None:
            users = np.union1d(learnt.users, users)
            possible, basis = np.union1d(users, learnt.doubtful), "onsets" if is_pool else "creator"
            threads, rules = _of_tasks(threads, possible), replace(rules, users=users)
        elif is_pool and given and not self._spins_ns and never_rests:
            # It may be work of its creator's that goes on beside the other tasks.
            basis, rules = "unknown", Rules(users=users)
        else:
            return self._found(possible.tolist(), basis, cut)
        del cut  # of a long recording it is large
        return self._found(possible.tolist(), basis, self._cut(threads, rules))

    def _onsets(self, runs: Runs, rest_ns: int) -> Onsets:
        """Count the pool's onsets, besides those that were counted before."""
        counted, own_ns = self._recorded.counted, self._recorded.within_ns
        if counted is None or own_ns is None:
            counted, own_ns = {}, EVER
        onsets = counted.setdefault(self._key, Onsets())
        onsets.add(self._usage, runs, rest_ns, own_ns)
        return onsets

    def _found(self, users: Iterable[int], basis: str, cut: NativeSegments) -> FoundPool:
        one = self._one
        name = one.library.rsplit("/", 1)[-1] or ("" if INHERITED.match(one.name) else one.name)
        python = tuple(member.reach for member in self._members if is_python(one))
        return FoundPool(
            name, one.pid, len(self._members), tuple(sorted(users)), basis, self._spins_ns, python, self._usage, cut,
            self._recorded.within_ns,
        )  # fmt: skip


def _of_tasks(threads: Sequence[Runs], tasks: Sequence[int] | NDArray[np.int64]) -> list[Runs]:
    """Return the runs of some tasks."""
    return [one[np.isin(one["task"], tasks)] for one in threads]


def _looked_at(cut: NativeSegments) -> tuple[bool, bool, bool]:
    """Return whether a pool is about as busy while no task runs as while one does, never rests, or is unidentified."""
    length_s, kind, cpu_s = np.diff(cut.t_ns) * 1e-9, cut.kind, cut.cpu_s
    low, outside = cpu_s < IDLE * length_s, kind == OUTSIDE
    (outside_s, outside_cpu_s), (on_s, on_cpu_s) = (
        (length_s[which].sum(), cpu_s[which].sum()) for which in (outside, cut.table["running"] > 0)
    )
    begins = np.diff((outside & ~low).astype(np.int8), prepend=0) > 0
    is_judged = outside_s >= max(LEAST_ALONE_S, LEAST_ALONE * (outside_s + on_s)) and begins.sum() >= LEAST_BEGINS
    is_independent = is_judged and outside_cpu_s / outside_s > INDEPENDENT * on_cpu_s / max(on_s, 1e-9)
    never_rests = length_s[low].sum() < SELDOM_RESTS * length_s.sum()
    return bool(is_independent), bool(never_rests), bool((kind == UNIDENTIFIED).any())
