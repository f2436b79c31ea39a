"""How many tasks a second would run on more cores than this machine has: a simulation with measured constants.

A task takes some sections of code under locks, which one thread at a time executes, and time of its own: its body, and
what Python and the runtime do without a lock. Each core runs tasks one after the other; it waits where another core
holds the lock that it needs, in the order of arrival, and what the lock guards comes from the core that held it last.
Real programs have other limits besides (memory, one thread that spawns), so the result is a bound that locks set, not
a forecast. On 16 cores (`scripts/scheduler-rates`, docs/costs.md) it was right within 4 % for tasks of 10 µs, and a
third too high for tasks of 1 µs.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from tprof.benchmarks.measured_figures import Figure

CORES = (2, 8, 16, 32, 64)
TASK_NS = 10_000.0
TASKS_A_CORE = 400


@dataclass(frozen=True)
class Section:
    """Code under a lock.

    Attributes
    ----------
    lock : which; all sections with the same name exclude each other, the empty name none.
    held_ns : mean time under the lock in one task's life.
    """

    lock: str
    held_ns: float


@dataclass(frozen=True)
class Life:
    """What one task takes.

    Attributes
    ----------
    name : of the scheduler.
    sections : in their order.
    unlocked_ns : without a lock and besides the body.
    """

    name: str
    sections: tuple[Section, ...]
    unlocked_ns: float


HANDOVER_NS = 40.0
"""A cache line from one processor to another: the least of 3,000 batches of 100 on the EPYC (KVM), 2 processors."""

ONE_MUTEX = Life(
    "one mutex",
    (Section("mutex", 2), Section("mutex", 507), Section("mutex", 25), Section("mutex", 206), Section("mutex", 3)),
    700,
)
ONE_QUEUE_LOCK = Life(
    "one mutex for what is ready",
    (Section("counts", 4), Section("", 709), Section("mutex", 24), Section("mutex", 25), Section("counts", 4)),
    700,
)
DEQUES = Life("deques", (Section("counts", 4), Section("", 709), Section("counts", 4)), 700)
"""Empty tasks with three dependences, by `scripts/lock-sections 2` on the EPYC with two workers, after each of the
changes: how long each section is held on average over three rounds of 48,000 tasks at a load average of 16. What took
20,000 ticks or more, because the thread was interrupted, is left out. The 709 ns contain the clock of the inner
sections. A domain's lock excludes nobody here, since each parent has a domain of its own. `counts` are atomic counters
that all share; each takes 2 ns without others. With deques, tasks that tasks spawn take no lock of the scheduler's, and
the other constants are those before; steals and sleeping threads are left out. The time without a lock is assumed, and
the same for all."""


def simulate(life: Life, cores: int, task_ns: float = TASK_NS) -> float:
    """Return how many tasks a second so many cores run.

    Parameters
    ----------
    life
        Of the tasks, all alike.
    cores
        Each runs and spawns.
    task_ns : nanoseconds of each body.

    Returns
    -------
    float
        Tasks a second: all tasks over the time until the last core is done.
    """
    alone_ns = task_ns + life.unlocked_ns
    free_at: dict[str, float] = {}
    last: dict[str, int] = {}
    waiting = [(alone_ns * (core + 1) / cores, core, 0) for core in range(cores)]  # they do not begin in step
    heapq.heapify(waiting)
    end_ns = 0.0
    left = [TASKS_A_CORE] * cores
    while waiting:
        now_ns, core, at = heapq.heappop(waiting)
        section = life.sections[at]
        begin_ns = max(now_ns, free_at.get(section.lock, 0.0)) if section.lock else now_ns
        moves = section.lock and last.get(section.lock, core) != core
        now_ns = begin_ns + section.held_ns + (HANDOVER_NS if moves else 0.0)
        if section.lock:
            free_at[section.lock], last[section.lock] = now_ns, core
        at = (at + 1) % len(life.sections)
        if at == 0:
            left[core] -= 1
            now_ns += alone_ns
        end_ns = max(end_ns, now_ns)
        if left[core]:
            heapq.heappush(waiting, (now_ns, core, at))
    return cores * TASKS_A_CORE * 1e9 / end_ns


def simulate_scaling(cores: tuple[int, ...] = CORES) -> list[Figure]:
    """Return tasks a second with one mutex, with one for what is ready, and as it is now, simulated."""
    note = f"simulated from measured constants: {TASK_NS / 1000:.0f} µs, three dependences, spawned by tasks"
    return [
        Figure(f"simulated tasks a second, {number} cores, {life.name}", (simulate(life, number),), "1/s", note=note)
        for number in cores
        for life in (ONE_MUTEX, ONE_QUEUE_LOCK, DEQUES)
    ]
