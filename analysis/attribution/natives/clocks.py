"""Native threads that share a pool: who created each, what its clock says, and its power by its counters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.blocks import NOTHING

from tprof.trace.long_arrays import computed, is_somewhere, joined, running_sums
from tprof.trace.long_sorts import sorted_values

from .calls import Reach
from .segments import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tprof.analysis.attribution.segments import Model

    from tprof.trace import NativeCounts
    from tprof.trace.native import NativeThread

    from .segments import RanThread

    Ran = Callable[[int, int, int], bool]

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
class Member:
    """A native thread with what is known of it; `creator` is the index of the creating thread with samples.

    That thread is `created_by`.
    """

    thread: NativeThread
    clock: Clock
    creator: int | None
    created_by: Reach | None
    is_short: bool

    @property
    def library(self) -> str:
        """The name of its library's file."""
        return library_of(self.thread)

    @property
    def reach(self) -> Reach:
        """From when to when it runs without samples."""
        return Reach(self.thread.pid, self.thread.tid, int(self.clock.t_ns[0]), int(self.clock.t_ns[-1]))

    @property
    def key(self) -> tuple[object, ...]:
        """What the threads of one pool have in common; of the first one, how its users are known."""
        one, library = self.thread, self.library
        if is_python(one):
            return "created", one.pid, library, self.created_by, one.creator_task
        if self.creator is not None and self.is_short:
            return "created", one.pid, library, self.created_by, one.creator_task
        if self.creator is not None and is_of(library, OWN_POOL):
            return "own", one.pid, library, self.created_by
        return "pool", one.pid, library, re.sub(r"[\d:#_/-]+$", "", one.name), self.created_by


def members_of(
    threads: Sequence[NativeThread], sampled: Sequence[Reach], ran: Ran, start_ns: int, model: Model
) -> Iterable[Member]:
    """Yield the native threads that used CPU time.

    Parameters
    ----------
    threads : native threads
    sampled : threads with samples
    ran : returns whether a thread with samples, by its index, ran an instance between two times
    start_ns : of the recording
    model : power model
    """
    by_id = {(one.pid, one.tid): index for index, one in enumerate(sampled)}
    by_tid = {(one.pid, one.tid): one for one in threads}
    reads: dict[int, list[Times]] = {}
    for one in threads:
        reads.setdefault(one.pid, []).append(one.t_ns)
    reads_ns = {pid: sorted_values(joined(np.int64, times_ns)) for pid, times_ns in reads.items()}
    for one in threads:
        if not len(one.t_ns):
            continue
        own = by_id.get((one.pid, one.tid))
        born_ns = _born_ns(one, reads_ns[one.pid], start_ns)
        sampled_ns = None if own is None else sampled[own].first_ns
        clock = _clock(one, born_ns, sampled_ns, power_between_readings(one, model))
        if clock is None:
            continue
        is_short = born_ns is not None and one.ended_ns is not None and one.ended_ns - born_ns < SHORT_NS
        creator = _creator(one, by_tid, by_id)
        if creator is None and one.creator_tid is None and born_ns is not None:
            creator = _only_one(one, sampled, ran, born_ns)
        yield Member(one, clock, creator, None if creator is None else sampled[creator], is_short)


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
    t_ns, cpu_ns, before = one.t_ns, one.cpu_ns, power
    if born_ns is not None and born_ns < t_ns[0]:
        t_ns, cpu_ns = (joined(np.int64, (np.array([begin]), of)) for begin, of in ((born_ns, t_ns), (0, cpu_ns)))
        before = None if power is None else joined(np.float64, (np.array([np.nan]), power))
    if sampled_ns is not None:
        stop = int(np.searchsorted(t_ns, sampled_ns, side="right"))
        t_ns, cpu_ns, before = t_ns[:stop], cpu_ns[:stop], None if before is None else before[: max(stop - 1, 0)]
    if is_somewhere(max(len(t_ns) - 1, 0), lambda at: _falls(t_ns, at), t_ns):
        good = np.concatenate(([True], t_ns[1:] > np.maximum.accumulate(t_ns)[:-1]))
        t_ns, cpu_ns, before = t_ns[good], cpu_ns[good], None if before is None else before[good[1:]]
    used_ns = computed(max(len(t_ns) - 1, 0), np.float64, lambda at: _used_ns(t_ns, cpu_ns, at), t_ns, cpu_ns)
    if not is_somewhere(len(used_ns), lambda at: used_ns[at] > 0, used_ns):
        return None
    sums_ns = running_sums(used_ns)
    return Clock(t_ns, computed(len(t_ns), np.float64, lambda at: sums_ns[at] * 1e-9, sums_ns), before)


def _falls(t_ns: Times, at: slice) -> NDArray[np.bool_]:
    return np.asarray(t_ns[at.start + 1 : at.stop + 1] <= t_ns[at])


def _used_ns(t_ns: Times, cpu_ns: NDArray[np.int64], at: slice) -> Floats:
    """Return the CPU time between some reads and the next ones."""
    after = slice(at.start + 1, at.stop + 1)
    # More than all of a core is damage.
    most_ns = 1.1 * (t_ns[after] - t_ns[at]) + 1e6
    return np.asarray(np.minimum(np.maximum(cpu_ns[after] - cpu_ns[at], 0), most_ns))


def _creator(
    one: NativeThread, by_tid: Mapping[tuple[int, int], NativeThread], by_id: Mapping[tuple[int, int], int]
) -> int | None:
    """Return the thread with samples that created a thread, or its creator."""
    at = one
    for _ in range(MOST_GENERATIONS):
        if at.creator_tid is None:
            break
        found = by_id.get((at.pid, at.creator_tid))
        if found is not None:
            return found
        parent = by_tid.get((at.pid, at.creator_tid))
        if parent is None or parent is at:
            break
        at = parent
    return None


def _only_one(one: NativeThread, sampled: Sequence[Reach], ran: Ran, born_ns: int) -> int | None:
    """Return the only thread with samples that ran an instance at a thread's birth."""
    first_ns = int(one.t_ns[0])
    running = [
        index
        for index, thread in enumerate(sampled)
        if thread.pid == one.pid and thread.end_ns > born_ns and ran(index, born_ns, first_ns)
    ]
    return running[0] if len(running) == 1 else None


def ran_in(segment: RanThread | None, begin_ns: int, end_ns: int) -> bool:
    """Return whether a thread ran an instance between two times, by its segments around these."""
    if segment is None:
        return False
    first, last = np.searchsorted(segment.t_ns[:-1], (begin_ns, end_ns), side="right")
    return bool((segment.slot[max(int(first) - 1, 0) : int(last)] > 0).any())


def library_of(one: NativeThread) -> str:
    """Return the name of a thread's library's file."""
    return one.library.rsplit("/", 1)[-1].lower()


def is_of(library: str, parts: Sequence[str]) -> bool:
    """Return whether a library is one of these: wheels rename theirs (libscipy_openblas64_-6bb31eeb.so)."""
    return any(part in library for part in parts)


def is_python(one: NativeThread) -> bool:
    """Return whether Python started a thread."""
    return PYTHON.fullmatch(library_of(one)) is not None


def spins_ns(library: str, settings: Mapping[str, str]) -> int:
    """Return how long threads of a library may spin after a call, with the program's settings."""
    timeout = settings.get(OPENBLAS_TIMEOUT, "").strip()
    if "openblas" in library and timeout.isdecimal() and int(timeout[:9]) <= SHORT_TIMEOUT:
        return 0
    given = {name: value.strip().lower() for name, value in settings.items()}
    if any(given.get(name) == value and is_of(library, libraries) for name, value, libraries in PASSIVE):
        return 0
    return next((spins_ns for part, spins_ns in SPINS_NS if part in library), 0 if library else UNKNOWN_SPINS_NS)


def power_between_readings(one: NativeThread, model: Model) -> Floats | None:
    """Return modelled energy per CPU second between readings of a thread's clock.

    Parameters
    ----------
    one : a thread of n readings
    model : power model

    Returns
    -------
    (n - 1,) float64, NaN where it was not counted or used no CPU time; None without the counters that the model needs
    """
    counts = one.counts
    if counts is None or not model.columns or not set(model.columns) <= set(counts.values) or len(counts.at) < 2:
        return None

    def of_part(part: slice) -> Floats:
        intervals = np.arange(part.start, part.stop)
        between = np.searchsorted(counts.at, intervals, side="right") - 1
        first, last = max(int(between[0]), 0), min(int(between[-1]) + 1, len(counts.at) - 1)
        known = (between >= 0) & (between < len(counts.at) - 1)
        if last <= first or not known.any():
            return np.full(len(intervals), np.nan)
        power = _power(one.cpu_ns, counts, slice(first, last + 1), model)
        return np.where(known, power[np.clip(between - first, 0, len(power) - 1)], np.nan)

    arrays = (one.cpu_ns, counts.at, *counts.values.values())
    return computed(len(one.t_ns) - 1, np.float64, of_part, *arrays)


def _power(cpu_ns: NDArray[np.int64], counts: NativeCounts, part: slice, model: Model) -> Floats:
    """Return modelled energy per CPU second between some of the counts, NaN where no CPU time was used."""
    cpu_s = np.diff(cpu_ns[counts.at[part]]) * 1e-9
    increments = {name: np.diff(values[part]).astype(np.float64) for name, values in counts.values.items()}
    modelled = model.modelled(increments, cpu_s)
    modelled = np.where(modelled > 0, modelled, cpu_s * NOTHING)
    return np.asarray(np.divide(modelled, cpu_s, out=np.full(len(cpu_s), np.nan), where=cpu_s > 0))
