"""Follows a session: each read shares the joules that came since the last one.

Joules are shared up to the last time with known load and known energy: a millisecond ago with a sensor, up to 20 with
an estimate. A running task counts by its thread's CPU clock. A read proceeds in steps of a slice of the recording, so
that budgets can act between steps.

Of a session that has ended everything is known, so its figures are those of the profile by the model `cputime`.
"""

from __future__ import annotations

import math
import threading
import time
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
from tprof.trace.metadata import MAX_NS, sound_manifest, start_ns_of
from tprof.trace.metric_names import ACCOUNTS
from tprof.trace.sums import DOMAIN_SUMS, SumsReader, keeps_summary
from tprof.trace.sums_trace import await_last

from .domains import Domains, RunningDomains
from .natives import LivePools
from .sharing import Accounts, LiveSharing
from .threads import MOST_IN_BLOCK, OUTSIDE, LiveThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from .sharing import Block
    from .threads import FollowedThread


SLICE_NS, CATCH_UP_NS = 100_000_000, 2_000_000_000
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
    threads, domains : with samples, and with joules, as far as they are known
    table : the tasks
    static_w : static power by domain
    start_ns, until_ns : begin of the recorded block, and up to when the joules are shared
    accounts : the joules
    listeners : called with each block, under the lock
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
        self._process, self._resume_ns = process, resume_ns
        self.left: list[FollowedThread] | None = None if keeper is None else []
        self._end_ns: int | None = None
        self._quality: str | None = None
        self._reached_ns: int | None = None
        self._slice_ns, self._cheapest_s = SLICE_NS, math.inf
        self._lock = threading.Lock()
        self._pools: LivePools | None = None
        self._manifest, _ = sound_manifest(read_manifest(session))
        self.static_w = static_watts(self._manifest)
        is_over = (session / END).exists() if is_over is None else is_over
        has_sums = keeper is None and keeps_summary(self._manifest)
        self.accounts = Accounts()
        self.threads = LiveThreads(
            session, self._manifest, process=process, count=count_threads, has_clock=has_clock
        )  # fmt: skip
        self.table = self.threads.tasks.table
        if is_over and not has_sums:
            self._read_ended()
        else:
            if is_over:
                await_last(session)
            self._open_running()
        self._sharing = LiveSharing(self.domains, self.accounts, process, with_bounds=keeper is not None)
        self.listeners = self._sharing.listeners
        if keeper is not None:
            self.listeners.append(keeper)
        if has_sums:
            self._resume()
            self._end_ns = self.until_ns if is_over else None

    def _open_running(self) -> None:
        self.domains: Domains = RunningDomains(self.session, self.static_w, all_domains=self._process == OUTSIDE)
        gone = read_gone(self.session)
        self.start_ns = self.until_ns = max(start_ns_of(self._manifest) or 0, 0 if gone is None else gone.until_ns)
        if not keeps_summary(self._manifest):  # sums have no account for what native threads did
            self._pools = LivePools(self.session, self._manifest, self.threads)

    def _read_ended(self) -> None:
        """Begin with all that is known of a session that has ended; its profile's joules, unless they are followed."""
        from . import ended  # noqa: PLC0415 - a recording that runs does without

        found = (ended.profiled if self.left is None else ended.followed)(self.session)
        self.threads, self.domains, self.accounts = found.threads, found.domains, found.accounts
        self.table, self._quality = self.threads.tasks.table, found.quality
        self.start_ns, self._end_ns = found.start_ns, found.end_ns
        self.until_ns = self._end_ns if self.left is None else self.start_ns

    def _resume(self) -> None:
        """Begin with the sums that are kept of the session so far."""
        tasks, domains, until_ns = joined([]), [np.empty(0, DOMAIN_SUMS)], None
        try:
            for block in SumsReader(self.session).blocks():
                tasks, until_ns = joined([tasks, block.tasks], ["process", "task"]), block.until_ns
                domains.append(block.domains)
        except TraceError:
            return
        if until_ns is None:
            return
        sums = np.concatenate(domains)
        counted = [(at, one) for at, one in enumerate(self._manifest.get("domains", ())) if one.get("counted")]
        for at, one in counted:
            mine = sums[sums["domain"] == at]
            parts_j = [mine[f"{name}_j"].sum() for name in ACCOUNTS[:4]]
            self.accounts.add(str(one.get("name")), np.array([*parts_j, 0.0, 0.0]))
        for row in np.split(tasks, len(tasks)) if len(tasks) else ():
            process = int(row["process"][0])
            self.threads.tasks.learn(process, row["task"])
            place = np.array([self.table.numbers(process)[int(row["task"][0])]])
            self.accounts.add_tasks(place, row["energy_j"], row["begun"])
        self._quality = least_certain({str(one.get("quality")) for _, one in counted})
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
        return set(self.threads.processes.values()) <= {self._process}

    def energy(self) -> Energy:
        """Share all joules known now, and return all figures."""
        with self._lock:
            # Not those that arrive meanwhile.
            now_ns = self._now_ns()
            while self._step(CATCH_UP_NS) and self.until_ns < now_ns:
                pass
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
        for index in np.flatnonzero(values).tolist():
            name = self.table.entries[index].name
            found[name] = found.get(name, 0.0) + float(values[index])
        return found

    def _figures(self) -> Energy:
        task_j, starts = self._by_name(self.accounts.task_j), self._by_name(self.accounts.starts)
        tasks = {name: TaskEnergy(task_j.get(name, 0.0), int(starts.get(name, 0))) for name in starts | task_j}
        is_known = self.quality != "none"
        parts_j = self.accounts.parts_j.tolist() if is_known else [math.nan] * len(ACCOUNTS)
        until_s = (self.until_ns - self.start_ns) * 1e-9
        tasks_j, runtime_j, other_j, idle_j, *native_j = parts_j
        return Energy(tasks, tasks_j, runtime_j, other_j, idle_j, sum(parts_j), self.quality, until_s, *native_j)

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
        since_ns = self.until_ns
        most_ns = since_ns + slice_ns
        if self._pools is not None and domains.counted:
            most_ns = self._pools.read(since_ns, most_ns, now_ns)
        end_ns = domains.until(since_ns, most_ns, now_ns) if most_ns > since_ns else None
        if end_ns is None:
            return more
        until_ns = domains.reach(end_ns)
        loaded_ns = self.threads.load(until_ns, MOST_IN_BLOCK)
        if loaded_ns < until_ns:
            end_ns = domains.until(since_ns, min(loaded_ns, end_ns), now_ns) or end_ns
            until_ns = domains.reach(end_ns)
            self.threads.load(until_ns)
        self._share_block((since_ns, end_ns), until_ns, now_ns)
        self.until_ns = end_ns
        if isinstance(domains, RunningDomains):
            domains.so_far.leave(end_ns)
        self._leave([one for one in self.threads.followed if one.is_over(end_ns)])
        return more or end_ns < (domains.last_ns or now_ns)

    def finish(self) -> None:
        """Follow the samples of a session that has ended after its last reading. Raises OSError, TraceError."""
        with self._lock:
            self._find_threads()
            self.threads.load(MAX_NS)
            end_ns = 1 + max([self._end_ns or 0, *(one.loaded_ns for one in self.threads.followed)])
            if end_ns > self.until_ns:
                self._share_block((self.until_ns - 1, end_ns), end_ns, end_ns)

    def _find_threads(self) -> None:
        """Find new threads, and begin with the first block."""
        if self._end_ns is None:
            self.threads.find()
        if self._reached_ns is not None:
            return
        domains = self.domains
        begin_ns = max(domains.first_ns or 0, self._resume_ns or self.start_ns)
        self.until_ns = self._reached_ns = begin_ns
        if isinstance(domains, RunningDomains):
            domains.find_static(self.start_ns)
        domains.begin(begin_ns)
        self.threads.begin(begin_ns, packages=len(domains.packages) > 1, widths=self._sharing.widths)

    def _share_block(self, own_ns: tuple[int, int], until_ns: int, now_ns: int) -> None:
        """Share the quanta that begin between two times, the last of which ends at `until_ns`."""
        domains, threads = self.domains, self.threads
        ran = threads.read(own_ns[1], until_ns, max(now_ns, until_ns))
        pools = self._pools
        if pools is not None:
            pools.find(ran, own_ns, until_ns)

        def seen_at(t_ns: NDArray[np.int64]) -> NDArray[np.float64]:
            seen_s = threads.seen_at(t_ns)
            return seen_s if pools is None else seen_s + pools.seen_at(t_ns)

        reached_ns = self._reached_ns or 0
        if isinstance(domains, RunningDomains) and until_ns > reached_ns:
            domains.so_far.extend(reached_ns, until_ns, seen_at, first_ns=threads.first_ns)
            self._reached_ns = until_ns
        self._sharing.step(threads, ran, own_ns, [] if pools is None else pools.cuts)

    def leave_processes(self, ended: Collection[int]) -> None:
        """Follow no thread any more of processes that were killed, which are read to their end."""
        with self._lock:
            self._leave(self.threads.leave_processes(ended))

    def forget(self, thread: FollowedThread) -> None:
        """Forget the name of a thread's file, which was removed."""
        with self._lock:
            self.threads.forget(thread)

    def _leave(self, threads: list[FollowedThread]) -> None:
        self.threads.leave(threads)
        if self.left is not None:
            self.left += threads
