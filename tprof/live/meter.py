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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.analysis.attribution.instance_sums import joined
from tprof.analysis.attribution.sharing import static_watts
from tprof.errors import TraceError
from tprof.trace.gone import read_gone
from tprof.trace.kinds import least_certain
from tprof.trace.manifest import END, read_manifest
from tprof.trace.metadata import MAX_NS, packages_of_cpus, sound_manifest, start_ns_of
from tprof.trace.metric_names import ACCOUNTS
from tprof.trace.sums import DOMAIN_SUMS, SumsReader, keeps_summary
from tprof.trace.sums_trace import await_last
from tprof.trace.tasks import TaskTable
from tprof.trace.thread import open_thread

from .domains import Domains, RunningDomains
from .natives import Natives
from .sharing import OUTSIDE, Accounts, LiveSharing
from .threads import MOST_IN_BLOCK, FollowedThread, LiveBlocks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .pools import LivePools
    from .sharing import Block


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


@dataclass(frozen=True, slots=True)
class TaskEnergy:
    """Joules that a task's instances took so far, nested tasks left out, and how many have begun."""

    energy_j: float
    instances: int


@dataclass(frozen=True, slots=True)
class Energy:
    """Where the joules of a running recording went, from the begin of its block to `until_s`.

    Attributes
    ----------
    tasks : by name
    tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j : as the accounts of a profile; they sum to
        `measured_j`. The energy of GPUs is in `runtime_j` until a profile is made
    measured_j : of the counted domains; NaN where nothing is measured
    quality : `measured`, `estimated`, …, that of the least trustworthy domain; `none` without any
    until_s : seconds from the begin of the block up to which the joules are shared out
    """

    tasks: dict[str, TaskEnergy]
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float
    measured_j: float
    quality: str
    until_s: float
    spin_j: float = 0.0
    unidentified_j: float = 0.0


class Meter:
    """The joules of a session so far; thread-safe.

    Attributes
    ----------
    session : its directory
    table, domains : its tasks, and its domains as far as they are known
    static_w : static power by domain
    start_ns, until_ns : begin of the recorded block, and up to when the joules are shared
    accounts : the joules
    listeners : called with each block, under the lock
    threads : with samples, that have not ended, as far as they are known
    processes : the process of each thread by the thread's ordinal
    left : with a keeper, threads that have ended, and whose files nobody needs once their joules are shared
    """

    def __init__(
        self,
        session: Path,
        *,
        process: int = OUTSIDE,
        count_threads: Callable[[], int] | None = None,
        has_clock: Callable[[int], bool] = lambda _: True,
        is_over: bool | None = None,
        keeper: Callable[[Block], None] | None = None,
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
        keeper : a listener that keeps the session's sums, which then are not read
        resume_ns : begin there instead, since what was before is known

        Raises
        ------
        TraceError
            If it cannot be read.
        """
        self.session = session
        self._process, self._count_threads, self._has_clock = process, count_threads, has_clock
        self._directory = session / "threads"
        self._keeps, self._resume_ns = keeper is not None, resume_ns
        self._files: set[str] = set()
        self.threads: list[FollowedThread] = []
        self.processes: dict[int, int] = {}
        self.left: list[FollowedThread] = []
        self._first_ns: int | None = None
        self._end_ns: int | None = None
        self._quality: str | None = None
        self._reached_ns = self._ended_threads = 0
        self._slice_ns, self._cheapest_s = SLICE_NS, math.inf
        self._lock = threading.Lock()
        self._blocks: LiveBlocks | None = None
        self._natives: Natives | None = None
        self._pools: LivePools | None = None
        self._manifest, _ = sound_manifest(read_manifest(session))
        self.static_w = static_watts(self._manifest)
        is_over = (session / END).exists() if is_over is None else is_over
        has_sums = keeper is None and keeps_summary(self._manifest)
        self.accounts = Accounts()
        if is_over and not has_sums:
            self._read_ended()
        else:
            if is_over:
                await_last(session)
            self._open_running()
        self._sharing = LiveSharing(
            self.domains, self.accounts, process=process, processes=self.processes, with_bounds=keeper is not None
        )
        self.listeners = self._sharing.listeners
        if keeper is not None:
            self.listeners.append(keeper)
        if has_sums:
            self._resume()
            self._end_ns = self.until_ns if is_over else None

    def _open_running(self) -> None:
        self.table = TaskTable()
        self.domains: Domains = RunningDomains(self.session, self.static_w, all_domains=self._process == OUTSIDE)
        gone = read_gone(self.session)
        self.start_ns = self.until_ns = max(start_ns_of(self._manifest) or 0, 0 if gone is None else gone.until_ns)
        self._packages_of_cpus = packages_of_cpus(self._manifest)
        if not keeps_summary(self._manifest):  # sums have no account for what native threads did
            self._natives = Natives(self.session, self.table, self._learn)

    def _read_ended(self) -> None:
        """Begin with all that is known of a session that has ended; its profile's joules, unless they are followed."""
        from . import ended  # noqa: PLC0415 - a recording that runs does without

        found = (ended.followed if self._keeps else ended.profiled)(self.session)
        self.table, self.domains, self.threads = found.table, found.domains, found.threads
        self.accounts = found.accounts
        self.processes |= {one.ordinal: one.process for one in found.threads}
        self.start_ns, self._end_ns = found.start_ns, found.end_ns
        self.until_ns = self.start_ns if self._keeps else self._end_ns
        self._quality, self._ended_threads = found.quality, found.ended_threads

    def _resume(self) -> None:
        """Begin with the sums that are kept of the session so far."""
        manifest, _ = sound_manifest(read_manifest(self.session))
        tasks, rows, until_ns = joined([]), [np.empty(0, DOMAIN_SUMS)], None
        try:
            for block in SumsReader(self.session).blocks():
                tasks, until_ns = joined([tasks, block.tasks], ["process", "task"]), block.until_ns
                rows.append(block.domains)
        except TraceError:
            return
        if until_ns is None:
            return
        counted = {at: one for at, one in enumerate(manifest.get("domains", ())) if one.get("counted")}
        sums = np.concatenate(rows)
        for at, one in counted.items():
            mine = sums[sums["domain"] == at]
            parts_j = [float(mine[f"{name}_j"].sum()) for name in ACCOUNTS[:4]]
            self.accounts.add(str(one.get("name")), np.array([*parts_j, 0.0, 0.0]))
        keys = zip(tasks["process"].tolist(), tasks["task"].tolist(), strict=True)
        places = np.array([self._index(process, number) for process, number in keys], np.int64)
        self.accounts.add_tasks(places, tasks["energy_j"], tasks["begun"])
        self._quality = least_certain({str(one.get("quality")) for one in counted.values()})
        self._resume_ns = self.until_ns = until_ns

    @property
    def quality(self) -> str:
        """Quality of the joules; `none` without any."""
        return self.domains.quality if self._quality is None else self._quality

    @property
    def read_j(self) -> float:
        """Shared joules since the first sensor reading, which precedes the recorded block."""
        return sum(one.lead_in_j for one in self.domains.shown if one.counted) + float(self.accounts.parts_j.sum())

    @property
    def lag_s(self) -> float:
        """How far the shared joules lag behind the sensor readings."""
        known_ns = self.domains.last_ns
        return 0.0 if known_ns is None else max(known_ns - self.until_ns, 0) * 1e-9

    @property
    def is_alone(self) -> bool:
        """Whether no other process of the recording has run anything."""
        return set(self.processes.values()) <= {self._process}

    @property
    def thread_count(self) -> int:
        """Number of threads with samples so far, those that have ended too."""
        return len(self.threads) + self._ended_threads

    def energy(self) -> Energy:
        """Share all joules known now, and return all figures."""
        with self._lock:
            self._catch_up()
            return self._figures()

    def figures(self) -> Energy:
        """Return the figures of the joules shared so far."""
        with self._lock:
            return self._figures()

    def shared_j(self, tasks: frozenset[str] | None) -> float:
        """Return the shared joules of tasks with these names; None: of this whole process."""
        with self._lock:
            if tasks is None:
                return self.accounts.own_j
            return sum(joules for name, joules in self._by_name(self.accounts.task_j).items() if name in tasks)

    def own_tasks_j(self) -> dict[str, float]:
        """Return the joules of this process's tasks so far, by name, of those that have any."""
        with self._lock:
            return self._by_name(self.accounts.own_task_j)

    def by_domain(self) -> dict[str, NDArray[np.float64]]:
        """Return the joules of each account, in the order of `ACCOUNTS`, of each domain that has shared any."""
        with self._lock:
            return dict(self.accounts.by_domain)

    def _by_name(self, values: NDArray[np.float64]) -> dict[str, float]:
        """Return the sums of tasks, by index, that are not 0, by name."""
        found: dict[str, float] = {}
        for entry, value in zip(self.table.entries, values.tolist(), strict=False):
            if value:
                found[entry.name] = found.get(entry.name, 0.0) + value
        return found

    def _figures(self) -> Energy:
        task_j, starts = self._by_name(self.accounts.task_j), self._by_name(self.accounts.starts)
        tasks = {name: TaskEnergy(task_j.get(name, 0.0), int(starts.get(name, 0))) for name in starts | task_j}
        is_known = self.quality != "none"
        parts_j = self.accounts.parts_j if is_known else np.full(len(ACCOUNTS), math.nan)
        tasks_j, runtime_j, other_j, idle_j, spin_j, unidentified_j = parts_j.tolist()
        until_s = (self.until_ns - self.start_ns) * 1e-9
        return Energy(
            tasks, tasks_j, runtime_j, other_j, idle_j, float(parts_j.sum()), self.quality, until_s, spin_j,
            unidentified_j,
        )  # fmt: skip

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
        domains = self.domains
        if self._end_ns is not None and self.until_ns >= self._end_ns:
            return False
        more = domains.read()
        if domains.counted and domains.last_ns is None:
            return False
        now_ns = self._now_ns()
        # After reading the sensors: threads that began before have a file by now.
        self._find_threads()
        blocks = self._blocks or self._begin()
        since_ns = self.until_ns
        most_ns = since_ns + slice_ns
        if self._natives is not None and domains.counted:
            self._natives.read(self.processes.values(), since_ns, most_ns)
            most_ns = self._natives.known_ns(most_ns, now_ns)
            if most_ns <= since_ns:
                return False
        end_ns = domains.until(since_ns, most_ns, now_ns)
        if end_ns is None:
            return more
        until_ns = domains.reach(end_ns)
        full_ns = self._load(until_ns, max(MOST_IN_BLOCK // max(len(self.threads), 1), 1))
        if full_ns < until_ns:
            end_ns = domains.until(since_ns, min(full_ns, end_ns), now_ns) or end_ns
            until_ns = domains.reach(end_ns)
            self._load(until_ns)
        self._share_block(blocks, since_ns, end_ns, until_ns, now_ns)
        self.until_ns = end_ns
        if isinstance(domains, RunningDomains):
            domains.so_far.leave(end_ns)
        self._leave([thread for thread in self.threads if thread.is_over(end_ns)])
        return more or end_ns < (domains.last_ns or now_ns)

    def _load(self, until_ns: int, most: int = sys.maxsize) -> int:
        """Read all threads up to a time, or so many samples of one; returns up to when, at most that."""
        for one in self.threads:
            one.load(until_ns, self._learn, most)
        return min([until_ns, *(one.loaded_ns for one in self.threads if one.loaded >= most)])

    def finish(self) -> None:
        """Follow the samples of a session that has ended after its last reading. Raises OSError, TraceError."""
        with self._lock:
            self._find_threads()
            blocks = self._blocks or self._begin()
            self._load(MAX_NS)
            end_ns = 1 + max([self._end_ns or 0, *(one.loaded_ns for one in self.threads)])
            if end_ns > self.until_ns:
                self._share_block(blocks, self.until_ns - 1, end_ns, end_ns, end_ns)

    def _share_block(self, blocks: LiveBlocks, since_ns: int, end_ns: int, until_ns: int, now_ns: int) -> None:
        """Share the quanta that begin between two times, the last of which ends at `until_ns`."""
        domains = self.domains
        ran = blocks.read(self.threads, end_ns, until_ns, max(now_ns, until_ns))
        if self._first_ns is None:
            self._first_ns = min((one.first_ns for one in self.threads if one.first_ns is not None), default=None)
        if self._natives is not None and self._natives.have_moved:
            if self._pools is None:
                from .pools import LivePools  # noqa: PLC0415 - most programs have none

                self._pools = LivePools(self._natives, self._manifest, self.table)
            self._pools.find(self.threads, ran, (since_ns, end_ns), until_ns)
        pools = self._pools

        def seen_at(t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
            seen_s = blocks.seen_at(t_ns)
            return seen_s if pools is None else seen_s + pools.seen_at(t_ns)

        if isinstance(domains, RunningDomains) and until_ns > self._reached_ns:
            domains.so_far.extend(self._reached_ns, until_ns, seen_at, first_ns=self._first_ns)
            self._reached_ns = until_ns
        self._sharing.step(blocks, ran, (since_ns, end_ns), pools)

    def _begin(self) -> LiveBlocks:
        """Begin with the first block."""
        domains = self.domains
        begin_ns = max(domains.first_ns or 0, self._resume_ns or self.start_ns)
        self.until_ns = self._reached_ns = begin_ns
        if isinstance(domains, RunningDomains):
            domains.find_static(self.start_ns)
        domains.begin(begin_ns)
        self._blocks = LiveBlocks(begin_ns, packages=len(domains.packages) > 1, widths=self._sharing.widths)
        return self._blocks

    def leave_processes(self, ended: Collection[int]) -> None:
        """Follow no thread any more of processes that were killed, which are read to their end."""
        with self._lock:
            gone = [one for one in self.threads if one.process in ended and one.done >= one.committed()]
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
            self.threads = [one for one in self.threads if one not in threads]
            if self._keeps:
                self.left += threads

    def _learn(self, process: int, numbers: NDArray[np.uint32]) -> None:
        """Enter tasks with these numbers into the table; those whose names are not there have lost them."""
        is_small = int(numbers.max(initial=0)) < MOST_NUMBERS
        distinct = np.flatnonzero(np.bincount(numbers)) if is_small else np.unique(numbers)
        missing = set(distinct.tolist()) - self.table.numbers(process).keys()
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
        if self._end_ns is not None or (self._count_threads is not None and self._count_threads() == len(self._files)):
            return
        for name in os.listdir(self._directory):  # noqa: PTH208 - it is hot
            if not name.endswith(SAMPLES) or name in self._files:
                continue
            try:
                thread = open_thread(self._directory / name, self.table, self._packages_of_cpus)
            except TraceError:
                continue  # its header is not whole yet: next time
            own = thread.process == self._process
            self.threads.append(FollowedThread(thread, own=own, has_clock=own or self._has_clock(thread.pid)))
            self.processes[thread.ordinal] = thread.process
            self._files.add(name)
