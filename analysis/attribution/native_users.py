"""Who uses a native thread: known from outside, never from a regression of its CPU time on the tasks.

In this order:

1. Calls that give work to the pools of OpenBLAS and OpenMP were noted: whoever is inside a call is the user. This
   counts unless the pool works without a call, so that some were not seen.
2. libgomp has a pool for each calling thread, and a thread that lives shortly serves who created it: their users are
   whatever runs on the creating thread.
3. Other threads are pools, by library, name and creator. The moments at which a pool that was idle becomes busy show
   its users: the caller runs at such an onset. Onsets are pooled over the session. Tasks are the users if nearly no
   onset can be another's. Without enough onsets each task can be a user, and whichever runs alone is.
4. A pool that is as busy while no task runs as while one does is nobody's: its time stays with the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .native_calls import explain, joined, run_at, runs_of_calls
from .native_counts import power_between_readings
from .native_cuts import IDLE, LONG_REST_NS, cut_pool, distinct
from .native_onsets import users_by_onsets
from .native_time import OUTSIDE, UNIDENTIFIED, Clock, NativeSegments, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.trace import PoolCalls, Trace
    from tprof.trace.native import NativeThread

    from .segments import Model, Segments

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
INHERITED = re.compile(r"python|tprof")
"""Threads have their process's name until they get one of their own, which says nothing of their library."""
SELDOM_RESTS = 0.05
"""Part of its life that a pool rests which is busy throughout."""
INDEPENDENT = 0.5
"""Part of the CPU time per second beside tasks that a pool of nobody takes without them."""
LEAST_ALONE_S, LEAST_ALONE, LEAST_BEGINS = 0.05, 0.05, 3
"""Seconds without tasks, as a part of all too, and how often a pool begins to work in them, before that is judged."""
TOGETHER_NS = 1_000_000
"""Threads are read one after the other within this time."""
LATEST_NS = 20_000_000
"""A new thread is found within this time, also where no other thread's clock moves."""
MOST_GENERATIONS = 8
SPINS_NS = (
    ("openblas", 150_000_000),
    ("libgomp", 20_000_000),
    ("libomp", 300_000_000),
    ("libiomp", 300_000_000),
    ("mkl", 300_000_000),
)
"""How long threads of a library may spin after a call, by a part of its file name; others sleep at once."""
UNKNOWN_SPINS_NS = 150_000_000
PASSIVE = (
    ("OMP_WAIT_POLICY", "passive", ("libgomp", "libomp", "libiomp", "mkl")),
    ("KMP_BLOCKTIME", "0", ("libomp", "libiomp", "mkl")),
)
"""Variables and values with which threads of some libraries sleep at once."""
OPENBLAS_TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"
SHORT_TIMEOUT = 23
"""OpenBLAS's threads spin for 2 ** timeout cycles: with 23 some milliseconds."""


@dataclass(frozen=True)
class Pool:
    """Native threads with common users.

    Attributes
    ----------
    name : the library's file name or, if that is not known, the threads' name
    process : pid
    threads : how many
    users : indices of the tasks that can be users
    basis : how they are known: "calls", "creator", "alone" (the only task that ran at a time), "onsets" or "unknown"
    spins_ns : how long its threads may spin after a call
    segments : its CPU time
    """

    name: str
    process: int
    threads: int
    users: tuple[int, ...]
    basis: str
    spins_ns: int
    segments: NativeSegments


@dataclass(frozen=True)
class _Member:
    """A native thread with what is known of it; `creator` is the index of the creating thread's segments."""

    thread: NativeThread
    clock: Clock
    creator: int | None
    is_short: bool


def find_pools(trace: Trace, segments: Sequence[Segments], model: Model, *, packages: bool) -> list[Pool]:
    """Return the pools that tasks use, with their CPU time; threads of nobody are left out.

    Parameters
    ----------
    trace : whose native threads are grouped
    segments : of all its threads with samples
    model : power model, for threads that have the counters that it needs
    packages : whether the machine has more than one package

    Raises
    ------
    TraceError
        If the native threads cannot be read.
    """
    groups: dict[tuple[object, ...], list[_Member]] = {}
    for member in _members(trace.native_threads, segments, trace.start_ns, model):
        groups.setdefault(_key(member), []).append(member)
    given = trace.manifest.get("pool_settings")
    settings = {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}
    calls = {(one.pid, one.library): one for one in trace.native_calls if one.complete}
    pools = (_pool(members, segments, settings, calls, packages=packages) for members in groups.values())
    return [pool for pool in pools if pool is not None]


def _members(
    threads: Sequence[NativeThread], segments: Sequence[Segments], start_ns: int, model: Model
) -> Iterable[_Member]:
    sampled = {(one.thread.pid, one.thread.tid): (index, int(one.t_ns[0])) for index, one in enumerate(segments)}
    by_tid = {(one.pid, one.tid): one for one in threads}
    reads: dict[int, list[Times]] = {}
    for one in threads:
        reads.setdefault(one.pid, []).append(one.t_ns)
    reads_ns = {pid: distinct(np.concatenate(times_ns)) for pid, times_ns in reads.items()}
    for one in threads:
        if not len(one.t_ns):
            continue
        own = sampled.get((one.pid, one.tid))
        born_ns = _born_ns(one, reads_ns[one.pid], start_ns)
        clock = _clock(one, born_ns, None if own is None else own[1], power_between_readings(one, model))
        if clock is None:
            continue
        is_short = born_ns is not None and one.ended_ns is not None and one.ended_ns - born_ns < SHORT_NS
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


def _clock(one: NativeThread, born_ns: int | None, sampled_ns: int | None, power: Floats | None) -> Clock | None:
    """Return a thread's CPU time since the first read or its birth, until its samples begin; None without any.

    `power` is that between its readings.
    """
    t_ns, cpu_ns = np.asarray(one.t_ns, np.int64), np.asarray(one.cpu_ns, np.float64)
    before = np.full(len(t_ns), np.nan)
    before[1:] = np.nan if power is None else power
    if born_ns is not None and born_ns < t_ns[0]:
        t_ns, cpu_ns = np.concatenate(([born_ns], t_ns)), np.concatenate(([0.0], cpu_ns))
        before = np.concatenate(([np.nan], before))
    if sampled_ns is not None:
        kept = t_ns <= sampled_ns
        t_ns, cpu_ns, before = t_ns[kept], cpu_ns[kept], before[kept]
    if len(t_ns) and not (t_ns[1:] > t_ns[:-1]).all():
        good = np.concatenate(([True], t_ns[1:] > np.maximum.accumulate(t_ns)[:-1]))
        t_ns, cpu_ns, before = t_ns[good], cpu_ns[good], before[good]
    if len(t_ns) < 2:
        return None
    # More than all of a core is damage.
    most_ns = 1.1 * (t_ns[1:] - t_ns[:-1]) + 1e6
    used_ns = np.minimum(np.maximum(cpu_ns[1:] - cpu_ns[:-1], 0.0), most_ns)
    if not used_ns.any():
        return None
    known = None if power is None else before[1:]
    return Clock(t_ns, np.concatenate(([0.0], np.cumsum(used_ns) * 1e-9)), known)


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
    """Return what the threads of one pool have in common; the first tells how its users are known."""
    one, library = member.thread, _library(member.thread)
    if _is_python(one):
        return "created", one.pid, library, member.creator, one.creator_task
    if member.creator is not None and member.is_short:
        return "created", one.pid, library, member.creator, one.creator_task
    if member.creator is not None and _is_of(library, OWN_POOL):
        return "own", one.pid, library, member.creator
    return "pool", one.pid, library, re.sub(r"[\d:#_/-]+$", "", one.name), member.creator


def _pool(
    members: Sequence[_Member],
    segments: Sequence[Segments],
    settings: Mapping[str, str],
    calls: Mapping[tuple[int, str], PoolCalls],
    *,
    packages: bool,
) -> Pool | None:
    one, creator, how = members[0].thread, members[0].creator, _key(members[0])[0]
    clocks, library = [member.clock for member in members], _library(one)
    known = _pool_by_calls(members, segments, calls.get((one.pid, one.library)), settings, packages=packages)
    if known is not None:
        return known
    if how != "pool" and creator is not None:
        callers = [creator]
    else:
        callers = [index for index, segment in enumerate(segments) if segment.thread.pid == one.pid]
    runs = runs_of(segments, callers, caller_computes=how == "pool" and _is_of(library, CALLER_COMPUTES))
    if how == "created" and one.creator_task is not None:
        runs = runs.kept(runs.task == one.creator_task)
    if not len(runs.task) or (_is_python(one) and one.creator_task is None):
        return None
    spins_ns = _spins_ns(library, settings)
    cut = cut_pool(one.pid, clocks, runs, packages=packages, spins_ns=spins_ns)
    if how == "pool" and _is_independent(cut):
        return None
    basis = "creator" if how != "pool" else "unknown" if (cut.kind == UNIDENTIFIED).any() else "alone"
    possible = np.unique(runs.task)
    rest_ns = LONG_REST_NS if spins_ns else 0
    learnt = users_by_onsets(clocks, runs, rest_ns=rest_ns) if len(possible) > 1 else None
    given = [member.thread.creator_task for member in members if member.thread.creator_task is not None]
    if learnt is None and how == "pool" and given and not spins_ns and _never_rests(cut):
        # It may be work of its creator's that goes on beside the other tasks.
        basis, marked = "unknown", replace(runs, doubtful=~np.isin(runs.task, given))
        cut = cut_pool(one.pid, clocks, marked, packages=packages)
    if learnt is not None:
        users = np.union1d(learnt.users, given).astype(np.int64)
        possible, basis = np.union1d(users, learnt.doubtful), "onsets" if how == "pool" else "creator"
        marked = replace(runs, doubtful=~np.isin(runs.task, users)).kept(np.isin(runs.task, possible))
        cut = cut_pool(one.pid, clocks, marked, packages=packages, spins_ns=spins_ns)
    return Pool(_name(one), one.pid, len(members), tuple(possible.tolist()), basis, spins_ns, cut)


def _name(one: NativeThread) -> str:
    return one.library.rsplit("/", 1)[-1] or ("" if INHERITED.match(one.name) else one.name)


def _pool_by_calls(
    members: Sequence[_Member],
    segments: Sequence[Segments],
    calls: PoolCalls | None,
    settings: Mapping[str, str],
    *,
    packages: bool,
) -> Pool | None:
    """Return a pool whose users its library's calls show; None if these do not explain when it worked."""
    one, creator, how = members[0].thread, members[0].creator, _key(members[0])[0]
    if calls is None:
        return None
    callers = None if how == "pool" or creator is None else [creator]
    runs = runs_of_calls(calls, segments, callers)
    if how == "created" and one.creator_task is not None:
        runs = runs.kept(runs.task == one.creator_task)
    if not (runs.task >= 0).any():
        return None
    library = _library(one)
    since_ns, default_spins_ns = calls.since_ns, _spins_ns(library, {}) if "openblas" in library else 0
    if how == "pool":  # its threads may spin from the first, also if they were created by what runs no task
        born = [(member.creator, member.thread.created_ns) for member in members]
        since_ns = max([since_ns, *(at_ns + default_spins_ns for _, at_ns in born if at_ns)])
        runs = joined([runs, *(run_at(segments, index, at_ns) for index, at_ns in born if index is not None and at_ns)])
    clocks = [member.clock for member in members]
    spins_ns = _spins_ns(library, settings)
    cut = cut_pool(one.pid, clocks, runs, packages=packages, spins_ns=spins_ns, calls_known=True)
    if not explain(cut, runs, since_ns, default_spins_ns):
        return None
    users = np.unique(runs.task[runs.task >= 0])
    return Pool(_name(one), one.pid, len(members), tuple(users.tolist()), "calls", spins_ns, cut)


def _spins_ns(library: str, settings: Mapping[str, str]) -> int:
    timeout = settings.get(OPENBLAS_TIMEOUT, "").strip()
    if "openblas" in library and timeout.isdecimal() and int(timeout[:9]) <= SHORT_TIMEOUT:
        return 0
    given = {name: value.strip().lower() for name, value in settings.items()}
    if any(given.get(name) == value and _is_of(library, libraries) for name, value, libraries in PASSIVE):
        return 0
    return next((spins_ns for part, spins_ns in SPINS_NS if part in library), 0 if library else UNKNOWN_SPINS_NS)


def _never_rests(cut: NativeSegments) -> bool:
    """Return whether a pool is busy throughout, so that nothing shows who calls it."""
    length_s = np.diff(cut.t_ns) * 1e-9
    return float(length_s[cut.cpu_s < IDLE * length_s].sum()) < SELDOM_RESTS * float(length_s.sum())


def _is_independent(cut: NativeSegments) -> bool:
    """Return whether a pool is about as busy while no task runs as while one does."""
    length_s = np.diff(cut.t_ns) * 1e-9
    on, outside = cut.running > 0, cut.kind == OUTSIDE
    outside_s, on_s = float(length_s[outside].sum()), float(length_s[on].sum())
    works = outside & (cut.cpu_s >= IDLE * length_s)
    begins = int((works & ~np.concatenate(([False], works[:-1]))).sum())
    if outside_s < max(LEAST_ALONE_S, LEAST_ALONE * (outside_s + on_s)) or begins < LEAST_BEGINS:
        return False
    return float(cut.cpu_s[outside].sum()) / outside_s > INDEPENDENT * float(cut.cpu_s[on].sum()) / max(on_s, 1e-9)
