"""Who uses a native thread: known from outside, never from a regression of its CPU time on the tasks.

In this order:

1. libgomp has a pool for each calling thread, and a thread that lives shortly serves who created it: their users are
   whatever runs on the creating thread.
2. Other threads are pools, by library, name and creator. The moments at which a pool that was idle becomes busy show
   its users: the caller runs at such an onset. Onsets are pooled over the session. Tasks are the users if nearly no
   onset can be another's. Without enough onsets each task can be a user, and whichever runs alone is.
3. A pool that is as busy while no task runs as while one does is nobody's: its time stays with the program.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .native_time import IDLE, OUTSIDE, UNIDENTIFIED, Clock, NativeSegments, Runs, cut_pool, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tprof.trace.native import NativeThread

    from .segments import Segments

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

SHORT_NS = 1_000_000_000
"""A thread that lives shorter serves its creator only."""
OWN_POOL = ("libgomp",)
"""Libraries with a pool for each calling thread."""
CALLER_COMPUTES = ("libgomp", "libomp", "libiomp", "openblas", "mkl", "blis")
"""Libraries whose callers compute beside the pool: a caller without CPU time of its own does not call."""
PYTHON = re.compile(r"(lib)?python[\d.t]*(\.so.*)?$")
"""Where threads begin that Python started: they run the program's own code, so only their creator is a user."""
INDEPENDENT = 0.5
"""Part of the CPU time per second beside tasks that a pool of nobody takes without them."""
LEAST_ALONE_NS = 50_000_000
SETTLED_NS = 20_000_000
"""A thread that was last read so long before the others of its process has ended."""
TOGETHER_NS = 1_000_000
"""Threads are read one after the other within this time."""
LATEST_NS = 20_000_000
"""A new thread is found within this time, also where no other thread's clock moves."""
MOST_GENERATIONS = 8
LEAST_ONSETS = 8
CERTAIN_ALONE = 3
"""A task that ran alone at so many onsets is a user."""
MOST_COMBINED = 8
LEAST_RESTED, MOSTLY = 10, 0.5
"""Windows, and part of all windows beside the users, in which the pool rested."""
MOST_OTHERS = 0.2
"""A set of tasks starts all onsets if, with 95 % confidence, others start less than this part of them."""
LARGEST_SET = 3
CERTAIN = 1.645


@dataclass(frozen=True)
class Pool:
    """Native threads with common users.

    Attributes
    ----------
    name : the library's file name or, if that is not known, the threads' name
    process : pid
    threads : how many
    users : indices of the tasks that can be users; None: whatever runs on the creating thread
    basis : how they are known: "creator", "alone" (no two tasks ran at a time), "onsets", "unknown" or "nobody"
    segments : its CPU time
    """

    name: str
    process: int
    threads: int
    users: tuple[int, ...] | None
    basis: str
    segments: NativeSegments


@dataclass(frozen=True)
class _Member:
    """A native thread with what is known of it; `creator` is the index of the creating thread's segments."""

    thread: NativeThread
    clock: Clock
    creator: int | None
    is_short: bool


def find_pools(
    threads: Sequence[NativeThread], segments: Sequence[Segments], start_ns: int, *, packages: bool
) -> list[Pool]:
    """Return the pools that tasks use, with their CPU time; threads of nobody are left out.

    Parameters
    ----------
    threads : of a trace
    segments : of all threads with samples
    start_ns : of the recorded block; a thread that appears later was created in it
    packages : whether the machine has more than one package
    """
    groups: dict[tuple[object, ...], list[_Member]] = {}
    for member in _members(threads, segments, start_ns):
        groups.setdefault(_key(member), []).append(member)
    pools = (_pool(members, segments, packages=packages) for members in groups.values())
    return [pool for pool in pools if pool is not None]


def _members(threads: Sequence[NativeThread], segments: Sequence[Segments], start_ns: int) -> Iterable[_Member]:
    sampled = {(one.thread.pid, one.thread.tid): (index, int(one.t_ns[0])) for index, one in enumerate(segments)}
    by_tid = {(one.pid, one.tid): one for one in threads}
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for one in threads:
        if len(one.t_ns):
            firsts[one.pid] = min(firsts.get(one.pid, int(one.t_ns[0])), int(one.t_ns[0]))
            lasts[one.pid] = max(lasts.get(one.pid, int(one.t_ns[-1])), int(one.t_ns[-1]))
    reads = {pid: np.unique(np.concatenate([one.t_ns for one in threads if one.pid == pid])) for pid in firsts}
    for one in threads:
        if not len(one.t_ns):
            continue
        own = sampled.get((one.pid, one.tid))
        born_ns = _born_ns(one, reads[one.pid], start_ns)
        clock = _clock(one, born_ns, None if own is None else own[1])
        if clock is None:
            continue
        ended_ns = one.ended_ns if one.ended_ns is not None else int(one.t_ns[-1])
        is_short = born_ns is not None and ended_ns - born_ns < SHORT_NS and ended_ns < lasts[one.pid] - SETTLED_NS
        yield _Member(one, clock, _creator(one, by_tid, sampled, segments, born_ns), is_short)


def _born_ns(one: NativeThread, reads_ns: Times, start_ns: int) -> int | None:
    """Return when a thread was created, as late as that can be; None if it is older than the recording."""
    if one.created_ns is not None:
        return int(one.created_ns) if one.created_ns >= start_ns else None
    # It was not there when the other threads of its process were read before.
    before = int(np.searchsorted(reads_ns, int(one.t_ns[0]) - TOGETHER_NS)) - 1
    if before < 0:
        return None
    return max(int(reads_ns[before]), start_ns, int(one.t_ns[0]) - LATEST_NS)


def _clock(one: NativeThread, born_ns: int | None, sampled_ns: int | None) -> Clock | None:
    """Return a thread's CPU time since the first read or its birth, until its samples begin; None without any."""
    t_ns, cpu_ns = np.asarray(one.t_ns, np.int64), np.asarray(one.cpu_ns, np.float64)
    if born_ns is not None and born_ns < t_ns[0]:
        t_ns, cpu_ns = np.concatenate(([born_ns], t_ns)), np.concatenate(([0.0], cpu_ns))
    if sampled_ns is not None:
        t_ns, cpu_ns = t_ns[t_ns <= sampled_ns], cpu_ns[t_ns <= sampled_ns]
    good = np.concatenate(([True], t_ns[1:] > np.maximum.accumulate(t_ns)[:-1])) if len(t_ns) else np.empty(0, bool)
    t_ns, cpu_ns = t_ns[good], cpu_ns[good]
    if len(t_ns) < 2:
        return None
    length_ns = np.diff(t_ns)
    # More than all of a core is damage.
    used_ns = np.clip(np.diff(cpu_ns), 0.0, 1.1 * length_ns + 1e6)
    return Clock(t_ns, np.concatenate(([0.0], np.cumsum(used_ns) * 1e-9))) if used_ns.any() else None


def _creator(
    one: NativeThread,
    by_tid: dict[tuple[int, int], NativeThread],
    sampled: dict[tuple[int, int], tuple[int, int]],
    segments: Sequence[Segments],
    born_ns: int | None,
) -> int | None:
    """Return the thread with samples that created a thread or its creator, else the only one that ran at its birth."""
    at = one
    for _ in range(MOST_GENERATIONS):
        if at.creator_tid is None:
            break
        found = sampled.get((at.pid, at.creator_tid))
        if found is not None:
            return found[0]
        parent = by_tid.get((at.pid, at.creator_tid))
        if parent is None or parent is at:
            break
        at = parent
    if one.creator_tid is not None or born_ns is None:
        return None
    running = [
        index
        for index, segment in enumerate(segments)
        if segment.thread.pid == one.pid and _ran(segment, born_ns, int(one.t_ns[0]))
    ]
    return running[0] if len(running) == 1 else None


def _ran(segment: Segments, begin_ns: int, end_ns: int) -> bool:
    first, last = np.searchsorted(segment.t_ns[:-1], (begin_ns, end_ns), side="right")
    return bool((segment.slot[max(int(first) - 1, 0) : int(last)] > 0).any()) and segment.t_ns[-1] > begin_ns


def _library(one: NativeThread) -> str:
    return one.library.rsplit("/", 1)[-1].lower()


def _is_of(library: str, parts: Sequence[str]) -> bool:
    """Return whether a library is one of these: wheels rename theirs (libscipy_openblas64_-6bb31eeb.so)."""
    return any(part in library for part in parts)


def _is_python(one: NativeThread) -> bool:
    return PYTHON.fullmatch(_library(one)) is not None


def _key(member: _Member) -> tuple[object, ...]:
    one, library = member.thread, _library(member.thread)
    has_own = member.is_short or _is_of(library, OWN_POOL)
    if member.creator is not None and has_own and not _is_python(one):
        return "creator", one.pid, library, member.creator
    if _is_python(one):
        return "python", one.pid, member.creator, one.creator_task
    return "pool", one.pid, library, re.sub(r"[\d:#_/-]+$", "", one.name), member.creator


def _pool(members: Sequence[_Member], segments: Sequence[Segments], *, packages: bool) -> Pool | None:
    one, creator = members[0].thread, members[0].creator
    name = one.library.rsplit("/", 1)[-1] or one.name
    clocks = [member.clock for member in members]
    own = [index for index, segment in enumerate(segments) if segment.thread.pid == one.pid]

    def made(users: tuple[int, ...] | None, basis: str, runs: Runs) -> Pool | None:
        if not len(runs.task):
            return None
        cut = cut_pool(one.pid, clocks, runs, packages=packages)
        return Pool(name, one.pid, len(members), users, basis, cut)

    how = _key(members[0])[0]
    if how == "creator":
        return made(None, "creator", runs_of(segments, [creator] if creator is not None else []))
    if how == "python":
        if one.creator_task is None:
            return None
        runs = runs_of(segments, own if creator is None else [creator])
        return made((one.creator_task,), "creator", runs.kept(runs.task == one.creator_task))
    runs = runs_of(segments, own, caller_computes=_is_of(_library(one), CALLER_COMPUTES))
    whole = made(None, "alone", runs)
    if whole is None or _is_independent(whole.segments):
        return None
    tasks = np.unique(runs.task)
    learnt = users_by_onsets(clocks, runs)
    if learnt is None:
        basis = "unknown" if (whole.segments.kind == UNIDENTIFIED).any() else "alone"
        return Pool(name, one.pid, len(members), tuple(tasks.tolist()), basis, whole.segments)
    given = [member.thread.creator_task for member in members if member.thread.creator_task is not None]
    users = np.union1d(learnt.users, given).astype(np.int64)
    possible = np.union1d(users, learnt.doubtful)
    marked = replace(runs, doubtful=~np.isin(runs.task, users)).kept(np.isin(runs.task, possible))
    return made(tuple(possible.tolist()), "onsets", marked)


def _is_independent(cut: NativeSegments) -> bool:
    """Return whether a pool is about as busy while no task runs as while one does."""
    length_s = np.diff(cut.t_ns) * 1e-9
    on, outside = cut.running > 0, cut.kind == OUTSIDE
    if length_s[outside].sum() * 1e9 < LEAST_ALONE_NS:
        return False
    beside = cut.cpu_s[on].sum() / max(length_s[on].sum(), 1e-9)
    return bool(cut.cpu_s[outside].sum() / length_s[outside].sum() > INDEPENDENT * beside)


@dataclass(frozen=True)
class Learnt:
    """The tasks that begin a pool's work, and those of which the pool does not show whether they use it."""

    users: NDArray[np.int64]
    doubtful: NDArray[np.int64]


def users_by_onsets(clocks: Sequence[Clock], runs: Runs) -> Learnt | None:
    """Return the tasks that begin the work of a pool; None if the onsets do not tell.

    A window is the time between two reads of the pool. An onset is a window in which an idle pool begins to work.
    Windows after an idle one say how often each task runs in one by chance. A task that begins no onset is no user if
    the pool mostly rested while it ran and no user did.

    Parameters
    ----------
    clocks : of the pool's threads
    runs : of all tasks that may use it
    """
    begin_ns, end_ns, used_s = _windows(clocks)
    idle = used_s < IDLE * (end_ns - begin_ns) * 1e-9
    after_idle = np.flatnonzero(idle[:-1]) + 1
    tasks = np.unique(runs.task)
    seen = np.array([_touched(runs.kept(runs.task == task), begin_ns, end_ns) for task in tasks])
    after_idle = after_idle[seen[:, after_idle].any(axis=0)]
    onset = after_idle[~idle[after_idle]]
    if len(onset) < LEAST_ONSETS:
        return None
    began = np.array([_began(runs.kept(runs.task == task), begin_ns, end_ns) for task in tasks])
    single = seen[:, onset].sum(axis=0) == 1
    sure = np.flatnonzero((seen[:, onset] & single).sum(axis=1) >= CERTAIN_ALONE)
    events = [(seen[:, onset], seen[:, after_idle]), (began[:, onset], began[:, after_idle])]
    found = _smallest_sets(events, len(tasks))
    if found is None:
        return None
    users = np.zeros(len(tasks), bool)
    users[np.union1d(found, sure).astype(np.int64)] = True
    apart = seen & ~seen[users].any(axis=0)
    rested = (apart & idle).sum(axis=1)
    doubtful = ~users & ((rested < LEAST_RESTED) | (rested < apart.sum(axis=1) * MOSTLY))
    return Learnt(tasks[users], tasks[doubtful])


def _windows(clocks: Sequence[Clock]) -> tuple[Times, Times, Floats]:
    """Return the times between passes over all threads, and the CPU seconds in each."""
    reads_ns = np.unique(np.concatenate([one.t_ns for one in clocks]))
    usual_ns = np.median(np.concatenate([np.diff(one.t_ns) for one in clocks]))
    grid_ns = reads_ns[np.append(np.diff(reads_ns) > usual_ns / 4, True)]
    total_s = sum((np.interp(grid_ns, one.t_ns, one.cpu_s) for one in clocks), np.zeros(len(grid_ns)))
    return grid_ns[:-1], grid_ns[1:], np.diff(total_s)


def _touched(runs: Runs, begin_ns: Times, end_ns: Times) -> NDArray[np.bool_]:
    """Return the windows in which any of the runs ran."""
    begun = np.searchsorted(np.sort(runs.begin_ns), end_ns, side="left")
    return begun > np.searchsorted(np.sort(runs.end_ns), begin_ns, side="right")


def _began(runs: Runs, begin_ns: Times, end_ns: Times) -> NDArray[np.bool_]:
    """Return the windows in which, or in the one before, any of the runs began."""
    begins = np.sort(runs.begin_ns)
    since_ns = np.concatenate((begin_ns[:1], begin_ns[:-1]))
    return np.searchsorted(begins, end_ns, side="left") > np.searchsorted(begins, since_ns, side="left")


def _smallest_sets(
    events: Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]], count: int
) -> NDArray[np.int64] | None:
    """Return the members of all smallest sets of tasks beside which nobody needs to have begun an onset."""
    by_onsets = np.argsort(-np.max([at.mean(axis=1) for at, _ in events], axis=0), kind="stable")
    for size in range(1, min(LARGEST_SET, count) + 1):
        among = by_onsets if size == 1 else by_onsets[: MOST_COMBINED if size == 2 else MOST_COMBINED // 2]
        sets = [
            chosen
            for chosen in itertools.combinations(among.tolist(), size)
            if any(_others_at_most(at[list(chosen)], chance[list(chosen)]) <= MOST_OTHERS for at, chance in events)
        ]
        if sets:
            return np.unique(np.concatenate(sets)).astype(np.int64)
    return None


def _others_at_most(at_onset: NDArray[np.bool_], at_chance: NDArray[np.bool_]) -> float:
    """Return the largest part of the onsets that others than these tasks may have begun, with 95 % confidence.

    An onset that another begins falls on these tasks only as often as any window does.
    """
    missed, count = float((~at_onset.any(axis=0)).sum()), at_onset.shape[1]
    by_chance = float(at_chance.any(axis=0).mean())
    if by_chance >= 1:
        return np.inf
    square = CERTAIN**2
    spread = CERTAIN * np.sqrt(missed * (count - missed) / count + square / 4)
    return (missed + square / 2 + spread) / (count + square) / (1 - by_chance)
