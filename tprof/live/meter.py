"""Follows a session: each read shares the joules that came since the last one.

Joules are shared up to the last time with known load and known energy: a millisecond ago with a sensor, up to 20 with
an estimate. A running task counts by its thread's CPU clock. A read proceeds in steps of a slice of the recording, so
that budgets can act between steps.

Of a session that has ended everything is known, so its figures are those of the profile by the model `cputime`.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.analysis.attribution.sharing import static_watts
from tprof.errors import TraceError
from tprof.trace.estimate import most_watts
from tprof.trace.gone import read_gone
from tprof.trace.manifest import END, read_manifest
from tprof.trace.metadata import MAX_NS, packages_of_cpus, sound_manifest, start_ns_of
from tprof.trace.sums import keeps_summary
from tprof.trace.sums_trace import await_last
from tprof.trace.tasks import TaskTable
from tprof.trace.thread import open_thread

from .blocks import MOST_IN_BLOCK, FollowedThread, LiveBlocks
from .energy import Energy, TaskEnergy
from .natives import Natives
from .readings import Readings, RunningReadings
from .resumed import Resumed
from .shares import LiveSharing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .ended import EndedFigures
    from .kept_rows import KeptRows
    from .pools import LivePools


OUTSIDE = -1
SAMPLES = ".samples"
SLICE_NS, CATCH_UP_NS = 100_000_000, 2_000_000_000
MOST_NUMBERS = 1 << 16
"""Of tasks, for which a count of each is made; they are seldom larger."""
READ_S = 0.002
"""CPU time of one `read`, unless more was saved; the rest is left to the next one."""
SHORTEST_NS, LONGEST_NS = 10_000_000, 1_000_000_000
"""Bounds of a slice; its length adapts to the CPU time that a step takes."""
STEP_S, TIMES = 0.004, 4.0
"""Most CPU time of a step, unless the cheapest one takes a good part of it: then so many times that.

Each step has a cost that does not depend on its slice: half a millisecond, and several where a busy machine's caches
are cold. If slices were shortened for it, a read could cover less of the recording than passes until the next one.
"""
FORGET = 1.05
"""By this the cost of the cheapest step grows with each step, since a machine may become slower."""


class Meter:
    """The joules of a session so far; thread-safe."""

    def __init__(
        self,
        session: Path,
        *,
        process: int = OUTSIDE,
        count_threads: Callable[[], int] | None = None,
        has_clock: Callable[[int], bool] = lambda _: True,
        is_over: bool | None = None,
        sums: KeptRows | None = None,
        by_thread: bool = False,
        resume_ns: int | None = None,
    ) -> None:
        """Begin at the session's start.

        Parameters
        ----------
        session : its directory
        process : the ordinal of this process, whose threads' clocks can be read; `OUTSIDE` if it is none of them
        count_threads : returns the number of threads so far, so that the directory is listed only for new ones; None:
            unknown
        has_clock : whether /proc has the clocks of the process with this number, rather than of an unrelated one
        is_over : whether nothing more is written; None: if the session has its end
        sums : what is told of each instance
        by_thread : whether it is told of the threads too
        resume_ns : begin there instead, since what was before is known

        Raises
        ------
        TraceError
            If it cannot be read.
        """
        self.session = session
        self._process = process
        self._count_threads = count_threads
        self._has_clock = has_clock
        self._threads_directory = os.fspath(session / "threads")
        self._files: set[str] = set()
        self._ended_threads = 0
        self._sums, self._resume_ns = sums, resume_ns
        self.left: list[FollowedThread] = []
        """With `sums`: threads that have ended, and whose files nobody needs any more once their joules are shared."""
        self._first_ns: int | None = None
        self._stepped_ns: int | None = None
        self._slice_ns = SLICE_NS
        self._cheapest_s = math.inf
        self._lock = threading.Lock()
        self._blocks: LiveBlocks | None = None
        self._natives: Natives | None = None
        self._pools: LivePools | None = None
        self._reached_ns = 0
        self._processes: dict[int, int] = {}
        is_over = (session / END).exists() if is_over is None else is_over
        self._resumed: Resumed | None = None
        self._ended: EndedFigures | None = None
        self._manifest, _ = sound_manifest(read_manifest(session))
        manifest = self._manifest
        if sums is None and keeps_summary(manifest):
            self._resume(is_over=is_over)
        elif is_over and sums is None:
            self._read_ended()
        elif is_over:
            self._follow_ended()
        else:
            self._follow_running(all_domains=process == OUTSIDE)
        qualities = {str(one.get("quality")) for one in manifest.get("domains", ()) if one.get("counted")}
        self._sharing = LiveSharing(
            self.readings.domains, self.readings.packages, self.readings.gpus, process=process,
            processes=self._processes, most_w=most_watts(manifest) if qualities == {"estimated"} else math.inf,
            by_thread=by_thread,
        )  # fmt: skip
        self.accounts, self.listeners = self._sharing.accounts, self._sharing.listeners
        if sums is not None:
            self.listeners.append(sums.add)
        if self._resumed is not None:
            self._resumed.enter(self.accounts, self._sharing.by_domain, self._index)

    def _follow_running(self, *, all_domains: bool) -> None:
        manifest = self._manifest
        self.static_w = static_watts(manifest)
        self.table = TaskTable()
        self.readings: Readings = RunningReadings(self.session, self.static_w, all_domains=all_domains)
        gone = read_gone(self.session)
        self._start_ns = max(start_ns_of(manifest) or 0, 0 if gone is None else gone.until_ns)
        self._end_ns: int | None = None
        self._packages_of_cpus = packages_of_cpus(manifest)
        self._threads: list[FollowedThread] = []
        if not keeps_summary(manifest):  # sums have no account for what native threads did
            self._natives = Natives(self.session, self.table, self._learn)

    def _resume(self, *, is_over: bool) -> None:
        """Begin with the sums that are kept of the session."""
        if is_over:
            await_last(self.session)
        self._follow_running(all_domains=self._process == OUTSIDE)
        self._resumed = Resumed.read(self.session, sound_manifest(read_manifest(self.session))[0])
        if self._resumed is not None:
            self._resume_ns = self._stepped_ns = self._resumed.until_ns
        if is_over:
            self._end_ns = self.until_ns

    def _read_ended(self) -> None:
        from .ended import EndedFigures  # noqa: PLC0415 - a recording that runs does without

        self._ended = EndedFigures.of(self.session)
        self.static_w, self.table, self.readings = self._ended.static_w, self._ended.table, self._ended.readings
        self._start_ns, self._end_ns = self._ended.start_ns, self._ended.end_ns
        self._threads = []

    def _follow_ended(self) -> None:
        from .ended import FinalReadings, followed  # noqa: PLC0415 - see above

        self.readings = FinalReadings(self.session)
        trace = self.readings.trace
        self.static_w = static_watts(trace.manifest)
        self.table = trace.threads[0].table if trace.threads else TaskTable()
        self._start_ns, self._end_ns = trace.start_ns, trace.end_ns
        self._threads = followed(trace)
        self._processes.update({one.ordinal: one.process for one in self._threads})

    @property
    def quality(self) -> str:
        """Quality of the joules; `none` without any."""
        if self._ended is not None:
            return self._ended.energy.quality
        return self._resumed.quality if self._resumed is not None else self.readings.quality

    @property
    def read_j(self) -> float:
        """Shared joules since the first sensor reading, which precedes the recorded block."""
        domains = (*self.readings.domains, *self.readings.gpus)
        return sum(domain.lead_in_j for domain in domains) + self.accounts.measured_j

    @property
    def start_ns(self) -> int:
        """Begin of the recorded block."""
        return self._start_ns

    @property
    def threads(self) -> tuple[FollowedThread, ...]:
        """The threads with samples that have not ended, as far as they are known."""
        return tuple(self._threads)

    @property
    def thread_count(self) -> int:
        """Number of threads with samples so far, those that have ended too."""
        return self._ended.thread_count if self._ended is not None else len(self._threads) + self._ended_threads

    @property
    def until_ns(self) -> int:
        """Time up to which the joules are shared."""
        if self._ended is not None:
            return self._ended.end_ns
        return self._start_ns if self._stepped_ns is None else self._stepped_ns

    def energy(self) -> Energy:
        """Share all joules known now, and return all figures."""
        with self._lock:
            self._catch_up()
            return self._figures()

    def used_j(self, tasks: frozenset[str] | None) -> float:
        """Share all joules known now, and return `shared_j`."""
        with self._lock:
            self._catch_up()
        return self.shared_j(tasks)

    def shared_j(self, tasks: frozenset[str] | None) -> float:
        """Return the shared joules of tasks with these names; None: of this whole process."""
        with self._lock:
            if self._ended is not None:
                return self._ended.energy_j(tasks)
            if tasks is None:
                return self.accounts.own_j
            task_j = self.accounts.task_j
            names = enumerate(entry.name for entry in self.table.entries[: len(task_j)])
            return float(sum(task_j[index] for index, name in names if name in tasks))

    def step(self, slice_ns: int = CATCH_UP_NS) -> bool:
        """Share the joules of the next slice of the recording; returns whether there is more. Raises TraceError."""
        with self._lock:
            return self._step(slice_ns)

    def read(self, saved_s: float = 0.0) -> Iterator[None]:
        """Share more joules, and yield after each step. Raises TraceError.

        It ends with the step by which `READ_S` of CPU time are used, or `saved_s` if that is more.
        """
        most_s = max(READ_S, saved_s)
        begin_s = before_s = time.thread_time()
        more = True
        while more and before_s - begin_s < most_s:
            until_ns = self.until_ns
            more = self.step(self._slice_ns)
            now_s = time.thread_time()
            if self.until_ns > until_ns:
                self._fit_slice(now_s - before_s, self.until_ns - until_ns)
            before_s = now_s
            yield

    def _fit_slice(self, took_s: float, covered_ns: int) -> None:
        self._cheapest_s = min(took_s, self._cheapest_s * FORGET)
        most_s = max(STEP_S, TIMES * self._cheapest_s)
        if took_s < most_s / 2 and covered_ns > self._slice_ns / 2:  # else it says nothing of so long a slice
            self._slice_ns = min(self._slice_ns * 2, LONGEST_NS)
        elif took_s > most_s:
            self._slice_ns = max(self._slice_ns // 2, SHORTEST_NS)

    def figures(self) -> Energy:
        """Return the figures of the joules shared so far."""
        with self._lock:
            return self._figures()

    def _figures(self) -> Energy:
        if self._ended is not None:
            return self._ended.energy
        accounts = self.accounts
        tasks: dict[str, TaskEnergy] = {}
        for index, entry in enumerate(self.table.entries):
            energy_j = float(accounts.task_j[index]) if index < len(accounts.task_j) else 0.0
            starts = int(accounts.starts[index]) if index < len(accounts.starts) else 0
            before = tasks.get(entry.name, TaskEnergy(0.0, 0))
            if starts or energy_j:
                tasks[entry.name] = TaskEnergy(before.energy_j + energy_j, before.instances + starts)
        figures = (accounts.tasks_j, accounts.runtime_j, accounts.other_j, accounts.idle_j, accounts.measured_j)
        native = (accounts.spin_j, accounts.unidentified_j)
        if not self.readings.domains and self._resumed is None:
            figures, native = (float("nan"),) * 5, (float("nan"),) * 2
        return Energy(tasks, *figures, self.quality, (self.until_ns - self._start_ns) * 1e-9, *native)

    def own_tasks_j(self) -> dict[str, float]:
        """Return the joules of this process's tasks so far, by name, of those that have any."""
        found_j: dict[str, float] = {}
        with self._lock:
            for entry, energy_j in zip(self.table.entries, self.accounts.own_task_j.tolist(), strict=False):
                if energy_j:
                    found_j[entry.name] = found_j.get(entry.name, 0.0) + energy_j
        return found_j

    def by_domain(self) -> dict[str, tuple[float, ...]]:
        """Return the joules of each account, in the order of `ACCOUNTS`, of each domain that has shared any."""
        with self._lock:
            return dict(self._sharing.by_domain if self._ended is None else self._ended.by_domain)

    def _now_ns(self) -> int:
        return _core.now_ns() if self._end_ns is None else self._end_ns

    def _catch_up(self) -> None:
        """Share the joules known at the call, not those that arrive meanwhile."""
        now_ns = self._now_ns()
        while self._step(CATCH_UP_NS) and self.until_ns < now_ns:
            pass

    def _step(self, slice_ns: int) -> bool:
        try:
            return self._share_more(slice_ns)
        except OSError as error:
            raise TraceError(
                f"cannot read {self.session} any more: {error.strerror}; its joules so far are not known"
            ) from error

    def _share_more(self, slice_ns: int) -> bool:
        if self._ended is not None:
            return False
        readings = self.readings
        more = readings.read()
        if readings.domains and readings.last_ns is None:
            return False
        now_ns = self._now_ns()
        # After reading the sensors: threads that began before have a file by now.
        self._find_threads()
        blocks = self._blocks or self._begin()
        since_ns = self.until_ns
        most_ns = since_ns + slice_ns
        if self._natives is not None and readings.domains:
            self._natives.read(self._processes.values(), since_ns, most_ns)
            most_ns = self._natives.known_ns(most_ns, now_ns)
            if most_ns <= since_ns:
                return False
        end_ns = readings.until(since_ns, most_ns, now_ns)
        if end_ns is None:
            return more
        until_ns = readings.reach(end_ns)
        full_ns = self._load(until_ns, max(MOST_IN_BLOCK // max(len(self._threads), 1), 1))
        if full_ns < until_ns:
            end_ns = readings.until(since_ns, min(full_ns, end_ns), now_ns) or end_ns
            until_ns = readings.reach(end_ns)
            self._load(until_ns)
        self._share_block(blocks, since_ns, end_ns, until_ns, now_ns)
        self._stepped_ns = end_ns
        readings.leave(end_ns)
        self._leave([thread for thread in self._threads if thread.is_over(end_ns)])
        return more or end_ns < (readings.last_ns or now_ns)

    def _load(self, until_ns: int, most: int = sys.maxsize) -> int:
        """Read all threads up to a time, or so many samples of one; returns up to when, at most that."""
        for one in self._threads:
            one.load(until_ns, self._learn, most)
        return min([until_ns, *(one.loaded_ns for one in self._threads if one.loaded >= most)])

    def finish(self) -> None:
        """Follow the samples of a session that has ended after its last reading. Raises OSError, TraceError."""
        with self._lock:
            self._find_threads()
            blocks = self._blocks or self._begin()
            self._load(MAX_NS)
            end_ns = 1 + max([self._end_ns or 0, *(one.loaded_ns for one in self._threads)])
            if end_ns > self.until_ns:
                self._share_block(blocks, self.until_ns - 1, end_ns, end_ns, end_ns)

    def _share_block(self, blocks: LiveBlocks, since_ns: int, end_ns: int, until_ns: int, now_ns: int) -> None:
        """Share the quanta that begin between two times, the last of which ends at `until_ns`."""
        readings = self.readings
        ran = blocks.read(self._threads, end_ns, until_ns, max(now_ns, until_ns))
        if self._first_ns is None:
            self._first_ns = min((one.first_ns for one in self._threads if one.first_ns is not None), default=None)
        if self._natives is not None and self._natives.have_moved:
            if self._pools is None:
                from .pools import LivePools  # noqa: PLC0415 - most programs have none

                self._pools = LivePools(self._natives, self._manifest, self.table)
            self._pools.find(self._threads, ran, (since_ns, end_ns), until_ns)
        pools = self._pools

        def seen_at(t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
            seen_s = blocks.seen_at(t_ns)
            return seen_s if pools is None else seen_s + pools.seen_at(t_ns)

        if until_ns > self._reached_ns:
            readings.learn(self._reached_ns, until_ns, seen_at, self._first_ns)
            self._reached_ns = until_ns
        self._sharing.step(blocks, ran, since_ns, end_ns, blocks.before, readings.hidden, pools)

    def _begin(self) -> LiveBlocks:
        """Begin with the first block."""
        readings = self.readings
        begin_ns = max(readings.first_ns or 0, self._resume_ns or self._start_ns)
        self._stepped_ns = self._reached_ns = begin_ns
        readings.find_static(self._start_ns)
        readings.begin(begin_ns)
        packages = len(readings.packages) > 1
        self._blocks = LiveBlocks(begin_ns, packages=packages, domains=len(readings.domains))
        return self._blocks

    def leave_processes(self, ended: Collection[int]) -> None:
        """Follow no thread any more of processes that were killed, which are read to their end."""
        with self._lock:
            gone = [one for one in self._threads if one.process in ended and one.done >= one.committed()]
            if self._blocks is not None and gone:
                self._blocks.end_of(one.ordinal for one in gone)
            self._leave(gone)

    def forget(self, thread: FollowedThread) -> None:
        """Forget the name of a thread's file, which was removed."""
        with self._lock:
            self._files.discard(thread.stream.path.name)

    def _leave(self, threads: Sequence[FollowedThread]) -> None:
        if threads:
            self._ended_threads += len(threads)
            self._threads = [one for one in self._threads if one not in threads]
            if self._sums is not None:
                self.left += threads

    def _learn(self, process: int, numbers: NDArray[np.uint32]) -> None:
        """Enter tasks with these numbers into the table; those whose names are not there have lost them."""
        known = self.table.numbers(process)
        missing = set(_distinct(numbers)) - known.keys()
        if not missing:
            return
        with suppress(TraceError):  # without a table they are lost names
            self.table.read(self.session / "tasks" / f"{process:08d}.jsonl", process)
        for number in sorted(missing - self.table.numbers(process).keys()):
            self.table.lost(process, number)

    def _index(self, process: int, number: int) -> int:
        self._learn(process, np.array([number], np.uint32))
        return self.table.numbers(process)[number]

    def _find_threads(self) -> None:
        """Open the files of threads that are new. To list a folder gives the interpreter's lock away."""
        if self._end_ns is not None:
            return
        if self._count_threads is not None and self._count_threads() == len(self._files):
            return
        for name in os.listdir(self._threads_directory):  # noqa: PTH208 - it is hot
            if name.endswith(SAMPLES) and name not in self._files:
                self._open_thread(name)

    def _open_thread(self, name: str) -> None:
        path = self.session / "threads" / name
        try:
            thread = open_thread(path, self.table, self._packages_of_cpus)
        except TraceError:
            return  # its header is not whole yet: next time
        own = thread.process == self._process
        self._threads.append(FollowedThread(thread, own=own, has_clock=own or self._has_clock(thread.pid)))
        self._processes[thread.ordinal] = thread.process
        self._files.add(name)


def _distinct(numbers: NDArray[np.uint32]) -> list[int]:
    """Return the different numbers, which are many and mostly small."""
    many = len(numbers) > 0 and int(numbers.max()) < min(MOST_NUMBERS, 8 * len(numbers))
    found: list[int] = (np.flatnonzero(np.bincount(numbers)) if many else np.unique(numbers)).tolist()
    return found
