"""Native threads that share a pool: who created each, what its clock says, and its power by its counters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.blocks import NOTHING

from .cuts import Clock
from .segments import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tprof.analysis.attribution.segments import Model

    from tprof.trace.native import NativeThread

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

SHORT_NS = 1_000_000_000
"""A thread that lives shorter serves its creator only."""
OWN_POOL = ("libgomp",)
"""Libraries with a pool for each calling thread."""
PYTHON = re.compile(r"(lib)?python[\d.t]*(\.so.*)?$")
"""Where threads begin that Python started: they run the program's own code, so only their creator is a user."""
INHERITED = re.compile(r"python|tprof")
"""Threads have their process's name until they get one of their own, which says nothing of their library."""
TOGETHER_NS = 1_000_000
"""Threads are read one after the other within this time."""
LATEST_NS = 20_000_000
"""A new thread is found within this time, also where no other thread's clock moves."""
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
    """A native thread with what is known of it; `created_by` is the creating thread with samples."""

    thread: NativeThread
    clock: Clock
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
        is_created = self.created_by is not None
        if is_python(one) or (is_created and self.is_short):
            return "created", one.pid, library, self.created_by, one.creator_task
        if is_created and is_of(library, OWN_POOL):
            return "own", one.pid, library, self.created_by
        return "pool", one.pid, library, re.sub(r"[\d:#_/-]+$", "", one.name), self.created_by


def members_of(
    threads: Sequence[NativeThread], sampled: Iterable[Reach], start_ns: int, model: Model
) -> Iterable[Member]:
    """Yield the native threads that used CPU time.

    Parameters
    ----------
    threads : native threads
    sampled : threads with samples
    start_ns : of the recording
    model : power model
    """
    by_id = {(one.pid, one.tid): one for one in sampled}
    of_process: dict[int, list[Times]] = {}
    for one in threads:
        of_process.setdefault(one.pid, []).append(one.t_ns)
    for one in threads:
        own = by_id.get((one.pid, one.tid))
        born_ns = _born_ns(one, of_process[one.pid], start_ns)
        clock = _clock(one, born_ns, None if own is None else own.first_ns, power_between_readings(one, model))
        if clock is None:
            continue
        is_short = born_ns is not None and one.ended_ns is not None and one.ended_ns - born_ns < SHORT_NS
        yield Member(one, clock, by_id.get((one.pid, one.creator_tid or -1)), is_short)


def _born_ns(one: NativeThread, reads_ns: Sequence[Times], start_ns: int) -> int | None:
    """Return when a thread was created, as late as that can be; None if it is older than the recording."""
    if one.created_ns is not None:
        return int(one.created_ns) if one.created_ns >= start_ns else None
    first_ns = int(one.t_ns[0])
    if first_ns < start_ns:
        return None
    # It was not there when the other threads of its process were read before.
    before = ((other, int(np.searchsorted(other, first_ns - TOGETHER_NS))) for other in reads_ns)
    latest_ns = max((int(other[at - 1]) for other, at in before if at), default=None)
    return None if latest_ns is None else max(latest_ns, start_ns, first_ns - LATEST_NS)


def _clock(one: NativeThread, born_ns: int | None, sampled_ns: int | None, power: Floats | None) -> Clock | None:
    """Return a thread's CPU time since the first read or its birth, until its samples begin; None without any.

    `power` is that between its readings.
    """
    t_ns, cpu_ns = one.t_ns, one.cpu_ns
    if born_ns is not None and born_ns < t_ns[0]:
        t_ns, cpu_ns = np.append(born_ns, t_ns), np.append(0, cpu_ns)
        power = None if power is None else np.append(np.nan, power)
    stop = len(t_ns) if sampled_ns is None else int(np.searchsorted(t_ns, sampled_ns, side="right"))
    t_ns, cpu_ns, power = t_ns[:stop], cpu_ns[:stop], None if power is None else power[: max(stop - 1, 0)]
    later = np.diff(np.maximum.accumulate(t_ns)) > 0
    if not later.all():
        good = np.flatnonzero(np.append(True, later))
        t_ns, cpu_ns, power = t_ns[good], cpu_ns[good], None if power is None else power[good[1:] - 1]
    # More than all of a core is damage.
    used_ns = np.clip(np.diff(cpu_ns), 0, 1.1 * np.diff(t_ns) + 1e6)
    return Clock(t_ns, np.append(0.0, np.cumsum(used_ns)) * 1e-9, power) if (used_ns > 0).any() else None


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
    cpu_s = np.diff(one.cpu_ns[counts.at]) * 1e-9
    modelled = model.modelled({name: np.diff(values).astype(float) for name, values in counts.values.items()}, cpu_s)
    modelled = np.where(modelled > 0, modelled, cpu_s * NOTHING)
    power = np.full(len(cpu_s) + 2, np.nan)
    np.divide(modelled, cpu_s, out=power[1:-1], where=cpu_s > 0)
    return np.asarray(power[np.searchsorted(counts.at, np.arange(len(one.t_ns) - 1), side="right")])
