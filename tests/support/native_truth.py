"""Traces of tasks with native threads whose truth is known: who made each pool thread work, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tprof
from tprof.trace import NativeCounts, NativeThread, PoolCalls

from . import traces

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from tprof.analysis import Profile

MS = 1_000_000
READ_NS = 5 * MS
PID = 1000
GHZ = 3


@dataclass
class Pool:
    """A library's threads; `works` holds what each of them does as (begin_ns, end_ns, user).

    If `noted`, its calls are in the trace: `calls` holds (tid, task, begin_ns, end_ns, inside). Of its threads the
    first `counted` have counters, with `ipc` instructions a cycle for each user.
    """

    library: str = "/lib/libopenblas.so.0"
    name: str = "python3"
    threads: int = 1
    created_ns: int | None = None
    creator_tid: int | None = None
    creator_task: int | None = None
    creator_instance: int | None = None
    ended_ns: int | None = None
    pid: int = PID
    noted: bool = False
    counted: int = 0
    ipc: dict[str, float] = field(default_factory=dict)
    works: list[tuple[int, int, str]] = field(default_factory=list)
    calls: list[tuple[int, int, int, int, float]] = field(default_factory=list)

    def work(self, begin_ns: int, end_ns: int, user: str) -> None:
        """Let all threads compute."""
        self.works.append((begin_ns, end_ns, user))

    def used_s(self, user: str) -> float:
        """Return the CPU seconds of all threads for a user."""
        return self.threads * sum(end - begin for begin, end, one in self.works if one == user) * 1e-9

    def instructions(self, at_ns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return what one of its threads has executed up to each time; works must not overlap."""
        users = {user for _, _, user in self.works}
        each = (
            self.ipc.get(user, 1.0) * _busy_ns([work for work in self.works if work[2] == user], at_ns)
            for user in users
        )
        return GHZ * sum(each, np.zeros(len(at_ns)))

    def busy_s(self) -> float:
        """Return the CPU seconds of all threads."""
        return self.threads * float(_busy_ns(self.works, np.array([1 << 62]))[0]) * 1e-9

    def alone_s(self, user: str) -> float:
        """Return the seconds in which one of its threads worked for this user and for nobody else."""
        others = [work for work in self.works if work[2] != user]
        own = [work for work in self.works if work[2] == user]
        end_ns = np.array([max((end for _, end, _ in self.works), default=0)])
        return float((_busy_ns(own + others, end_ns) - _busy_ns(others, end_ns))[0]) * 1e-9


class Program:
    """A program that is written down as it runs: each thread goes on from its own time."""

    def __init__(self, tasks: list[str], *, threads: int = 1, seed: int = 0, counted: bool = False) -> None:
        """Begin at 0 on every thread.

        If `counted`, its threads execute one instruction a cycle, and all power is proportional to instructions.
        """
        self.tasks = tasks
        self.counted = counted
        self.random = np.random.default_rng(seed)
        self.now_ns = [0] * threads
        self.pools: list[Pool] = []
        self._samples: list[list[tuple[int, int, int, int]]] = [[] for _ in range(threads)]
        self._cpu_ns = [0] * threads
        self._instances = 0

    def pool(self, **options: Any) -> Pool:
        """Add a pool."""
        self.pools.append(Pool(**options))
        return self.pools[-1]

    def run(self, task: str, length_ns: int, *, thread: int = 0, busy: float = 1.0) -> tuple[int, int, int]:
        """Run an instance and return its number, begin and end."""
        self._instances += 1
        begin_ns = self.now_ns[thread]
        self._sample(thread, self._instances, self.tasks.index(task))
        self._cpu_ns[thread] += round(length_ns * busy)
        self.now_ns[thread] += length_ns
        self._sample(thread, 0, -1)
        return self._instances, begin_ns, self.now_ns[thread]

    def call(
        self, task: str, pool: Pool, length_ns: int, *, thread: int = 0, before_ns: int = 0, spin_ns: int = 0
    ) -> tuple[int, int, int]:
        """Run an instance that computes on its own, then with the pool to its end; the pool spins after that."""
        instance, begin_ns, end_ns = self.run(task, before_ns + length_ns, thread=thread)
        pool.work(begin_ns + before_ns, end_ns, task)
        pool.calls.append((PID + thread, self.tasks.index(task), begin_ns + before_ns, end_ns, 1.0))
        if spin_ns:
            pool.work(end_ns, end_ns + spin_ns, "spinning")
        return instance, begin_ns, end_ns

    def rest(self, length_ns: int, *, thread: int = 0) -> None:
        """Let a thread wait outside tasks."""
        self.now_ns[thread] += length_ns

    def outside(self, *, thread: int = 0) -> None:
        """Let a thread write a sample outside tasks."""
        self._sample(thread, 0, -1)

    def _sample(self, thread: int, instance: int, task: int) -> None:
        self._samples[thread].append((self.now_ns[thread], instance, task, self._cpu_ns[thread]))

    def write(self, path: Path, *, watts: float = 10.0, native: bool = True, passive: bool = True) -> tprof.Trace:
        """Write the trace, with so many watts a busy core and readings of the sensor every millisecond.

        If `passive`, the program was told to let OpenBLAS's threads sleep at once.
        """
        threads = [
            dict(zip(("t_ns", "instance", "task", "cpu_ns"), map(list, zip(*samples, strict=True)), strict=True))
            | {"pid": PID, "tid": PID + number}
            for number, samples in enumerate(self._samples)
            if samples
        ]
        for one in threads if self.counted else ():
            one["cycles"] = one["instructions"] = GHZ * np.array(one["cpu_ns"])
        end_ns = max(*self.now_ns, *(end for pool in self.pools for _, end, _ in pool.works), 10 * MS) + 20 * MS
        grid_ns = np.arange(0, end_ns + MS, MS)
        joules = sum((np.interp(grid_ns, one["t_ns"], one["cpu_ns"]) for one in threads), np.zeros(len(grid_ns)))
        for pool in self.pools:
            took = pool.instructions(grid_ns) / GHZ if self.counted else _busy_ns(pool.works, grid_ns)
            joules = joules + pool.threads * took
        tprof.write_trace(
            path,
            tasks=self.tasks,
            threads=threads,
            energy={"package-0": (grid_ns, joules * 1e-9 * watts)},
            quality="measured",
            native=[*self._native(end_ns), *self._noted()] if native else (),
        )
        if passive:
            traces.set_json(path / "manifest.json", pool_settings={"OPENBLAS_THREAD_TIMEOUT": "20"})
        return tprof.load(path)

    def _native(self, end_ns: int) -> list[NativeThread]:
        passes_ns = np.cumsum(self.random.integers(READ_NS * 9 // 10, READ_NS * 13 // 10, end_ns // READ_NS + 2))
        return [
            self._read(pool, PID + 100 * (place + 1) + number, passes_ns, end_ns)
            for place, pool in enumerate(self.pools)
            for number in range(pool.threads)
        ]

    def _noted(self) -> list[PoolCalls]:
        """Return the calls of pools of one library together."""
        noted = {(pool.pid, pool.library) for pool in self.pools if pool.noted and pool.library}
        return [self._calls_of(pid, library) for pid, library in sorted(noted)]

    def _calls_of(self, pid: int, library: str) -> PoolCalls:
        calls = sorted(call for pool in self.pools if (pool.pid, pool.library) == (pid, library) for call in pool.calls)
        tid, task, begin_ns, end_ns = (np.array([call[place] for call in calls], np.int64) for place in range(4))
        inside = np.array([call[4] for call in calls])
        several = np.zeros(len(tid), bool)
        return PoolCalls(
            pid,
            library,
            0,
            complete=True,
            tid=tid,
            task=task,
            begin_ns=begin_ns,
            end_ns=end_ns,
            inside=inside,
            several=several,
        )

    def _read(self, pool: Pool, tid: int, passes_ns: np.ndarray[Any, Any], end_ns: int) -> NativeThread:
        first_ns, last_ns = pool.created_ns or 0, pool.ended_ns or end_ns
        # The threads are read one after the other, a microsecond each.
        t_ns = passes_ns + 1000 * (tid % 100)
        t_ns = np.concatenate(([first_ns], t_ns[(t_ns > first_ns) & (t_ns < last_ns)], [last_ns]))
        cpu_ns = np.round(_busy_ns(pool.works, t_ns)).astype(np.int64)
        counts = None
        if tid % 100 < pool.counted:
            at = np.arange(1, len(t_ns))
            values = {"cycles": GHZ * cpu_ns[at], "instructions": pool.instructions(t_ns[at]).astype(np.int64)}
            counts = NativeCounts(at, values, np.zeros(len(at), bool))
        return NativeThread(
            pool.pid, tid, pool.name, pool.library, pool.created_ns, pool.creator_tid, pool.creator_task,
            pool.creator_instance, pool.ended_ns, t_ns, cpu_ns - cpu_ns[0], counts,
        )  # fmt: skip


def _busy_ns(works: list[tuple[int, int, str]], at_ns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the nanoseconds of work up to each time; works that overlap count once."""
    if not works:
        return np.zeros(len(at_ns))
    begins, ends = (np.sort([work[side] for work in works]) for side in (0, 1))
    edges = np.unique(np.concatenate((begins, ends)))
    running = np.searchsorted(begins, edges, side="right") - np.searchsorted(ends, edges, side="right")
    total = np.concatenate(([0], np.cumsum(np.diff(edges) * (running[:-1] > 0))))
    return np.interp(at_ns, edges, total)


SHARES = ["tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]


def account(profile: Profile) -> pd.Series[float]:
    """Return the package's account, whose parts are all that was measured."""
    row = profile.accounts.loc["package-0"]
    assert row[SHARES].sum() == pytest.approx(row["measured_j"], rel=1e-9)
    return row


def credited(profile: Any) -> dict[str, float]:
    """Return each task's CPU seconds of native threads."""
    return profile.summary()["native_cpu_s"].to_dict()
