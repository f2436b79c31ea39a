"""Follows a running recording: each read shares the joules that came since the last one.

It reads what the recorder has committed, like any reader of the session, so the recording threads do no extra work.
Joules are shared up to the last time with known load and known energy: a millisecond ago with a sensor, up to 20 with
an estimate. A running task counts by its thread's CPU clock. A read proceeds in steps of a slice of the recording, so
that budgets can act between steps. The core gathers the samples of a step into a row for each task and quantum
(csrc/follow.h); the work in Python is proportional to these rows.

NumPy only: `tprof.analysis` would bring pandas into the program that is measured.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tprof import _core
from tprof.errors import TraceError
from tprof.trace.manifest import read_manifest
from tprof.trace.metadata import packages_of_cpus, sound_manifest, start_ns_of
from tprof.trace.tasks import TaskTable

from .accounts import Accounts
from .figures import Energy, TaskEnergy
from .readings import Readings
from .thread import LiveThread, Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

SLICE_NS = 100_000_000
READ_S = 0.002
"""CPU time of one `read`; the rest is left to the next one."""
SHORTEST_NS, LONGEST_NS = 5_000_000, 200_000_000
"""Bounds of a slice; its length adapts so that a step takes a part of that time."""


class Meter:
    """The joules of a session so far; thread-safe."""

    def __init__(self, session: Path, *, process: int = 0, count_threads: Callable[[], int] | None = None) -> None:
        """Begin at the session's start.

        Parameters
        ----------
        session : its directory
        process : the ordinal of this process, whose threads' clocks can be read
        count_threads : returns the number of threads so far, so that the directory is listed only for new ones; None:
            unknown

        Raises
        ------
        TraceError
            If it cannot be read.
        """
        manifest, _ = sound_manifest(read_manifest(session))
        static = manifest.get("static_power_w")
        self.session = session
        self.static_w: dict[str, float] = static if isinstance(static, dict) else {}
        self.table = TaskTable()
        self.accounts = Accounts()
        self.listeners: list[Callable[[Stretch, NDArray[np.float64]], None]] = []
        self.readings = Readings(session, self.static_w)
        self._count_threads = count_threads
        self._threads_directory = os.fspath(session / "threads")
        self._process = process
        self._start_ns = start_ns_of(manifest) or 0
        self._lead_in_j: float | None = None
        self._packages_of_cpus = packages_of_cpus(manifest)
        self._files: set[str] = set()
        self._threads: list[LiveThread] = []
        self._began_ns: int | None = None
        self._until_ns: int | None = None
        self._slice_ns = SHORTEST_NS
        self._lock = threading.Lock()

    @property
    def quality(self) -> str:
        """Quality of the joules; `none` without any."""
        return self.readings.quality

    @property
    def read_j(self) -> float:
        """Shared joules since the first sensor reading, which precedes the recorded block."""
        return (self._lead_in_j or 0.0) + self.accounts.measured_j

    @property
    def until_ns(self) -> int:
        """Time up to which the joules are shared."""
        return self._until_ns or self._start_ns

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
            accounts = self.accounts
            if tasks is not None:
                names = enumerate(entry.name for entry in self.table.entries[: len(accounts.task_j)])
                return float(sum(accounts.task_j[index] for index, name in names if name in tasks))
            own = (accounts.process_tasks_j, accounts.process_runtime_j)
            return (
                float(sum(values[self._process] for values in own if len(values) > self._process)) + accounts.unseen_j
            )

    def step(self, slice_ns: int = SLICE_NS) -> bool:
        """Share the joules of the next slice of the recording; returns whether there is more. Raises TraceError."""
        with self._lock:
            return self._step(slice_ns)

    def read(self) -> Iterator[None]:
        """Share more joules for at most `READ_S` of CPU time, and yield after each step. Raises TraceError."""
        begin_s = before_s = time.thread_time()
        more = True
        while more and before_s - begin_s < READ_S:
            more = self.step(self._slice_ns)
            now_s = time.thread_time()
            self._fit_slice(now_s - before_s)
            before_s = now_s
            yield

    def _fit_slice(self, took_s: float) -> None:
        if took_s < READ_S / 4:
            self._slice_ns = min(self._slice_ns * 2, LONGEST_NS)
        elif took_s > READ_S / 2:
            self._slice_ns = max(self._slice_ns // 2, SHORTEST_NS)

    def figures(self) -> Energy:
        """Return the figures of the joules shared so far."""
        with self._lock:
            return self._figures()

    def _figures(self) -> Energy:
        accounts = self.accounts
        tasks: dict[str, TaskEnergy] = {}
        for index, entry in enumerate(self.table.entries):
            energy_j = float(accounts.task_j[index]) if index < len(accounts.task_j) else 0.0
            starts = int(accounts.starts[index]) if index < len(accounts.starts) else 0
            before = tasks.get(entry.name, TaskEnergy(0.0, 0))
            if starts or energy_j:
                tasks[entry.name] = TaskEnergy(before.energy_j + energy_j, before.instances + starts)
        known = bool(self.readings.domains)
        tasks_j = float(accounts.task_j.sum())
        figures = (tasks_j, accounts.runtime_j, accounts.other_j, accounts.idle_j, accounts.measured_j)
        figures = figures if known else (float("nan"),) * 5
        return Energy(tasks, *figures, self.quality, (self.until_ns - self._start_ns) * 1e-9)

    def _catch_up(self) -> None:
        """Share the joules known at the call, not those that arrive meanwhile."""
        now_ns = _core.now_ns()
        while self._step(SLICE_NS) and self.until_ns < now_ns:
            pass

    def _step(self, slice_ns: int) -> bool:
        try:
            return self._share_more(slice_ns)
        except OSError as error:
            message = f"cannot read {self.session} any more: {error.strerror}; its joules so far are not known"
            raise TraceError(message) from error

    def _share_more(self, slice_ns: int) -> bool:
        readings = self.readings
        more = readings.read()
        if not readings.is_whole:
            return False
        now_ns = _core.now_ns()
        # After reading the sensors: threads that began before have a file by now.
        self._find_threads()
        if self._until_ns is None:
            first_ns = readings.first_ns
            self._until_ns = self._start_ns if first_ns is None else max(first_ns, self._start_ns)
        since_ns, at_most_ns = self._until_ns, self._until_ns + slice_ns
        until_ns = readings.until(since_ns, at_most_ns) if readings.domains else now_ns
        if until_ns is None:
            return more
        if self._lead_in_j is None:
            self._lead_in_j = readings.read_j(since_ns)
        self._share(since_ns, until_ns, now_ns)
        self._until_ns = until_ns
        return more or until_ns < (readings.last_ns or now_ns)

    def _share(self, since_ns: int, until_ns: int, now_ns: int) -> None:
        edges_ns = self.readings.edges(since_ns, until_ns).tobytes()
        rows = [self._follow(thread, edges_ns, now_ns) for thread in tuple(self._threads)]
        ran = Stretch.of(b"".join(rows))
        shares = self.readings.share(ran, since_ns, until_ns, began_ns=self._began_ns)
        segment_j = self.accounts.settle(ran, shares)
        for listener in self.listeners:
            listener(ran, segment_j)

    def _follow(self, thread: LiveThread, edges_ns: bytes, now_ns: int) -> bytes:
        def learn(number: int) -> tuple[int, bool]:
            return self._know(thread.process, number)

        try:
            rows, starts = thread.follow(edges_ns, now_ns, learn)
        except OSError:
            # The file was removed: its content is unknown.
            self._threads.remove(thread)
            return b""
        self.accounts.count(starts)
        if self._began_ns is None:
            self._began_ns = thread.first_ns
        return rows

    def _know(self, process: int, number: int) -> tuple[int, bool]:
        """Return a task's index, and whether its instances have budgets."""
        if number not in self.table.numbers(process):
            with suppress(TraceError):  # without a table it is a lost name
                self.table.read(self.session / "tasks" / f"{process:08d}.jsonl", process)
            if number not in self.table.numbers(process):
                self.table.lost(process, number)
        index = self.table.numbers(process)[number]
        return index, self.table.entries[index].budget_j is not None

    def _find_threads(self) -> None:
        """Open the files of threads that are new. To list a folder gives the interpreter's lock away."""
        if self._count_threads is not None and self._count_threads() == len(self._files):
            return
        for name in os.listdir(self._threads_directory):  # noqa: PTH208 - it is hot
            if name not in self._files:
                self._open_thread(name)

    def _open_thread(self, name: str) -> None:
        path = self.session / "threads" / name
        try:
            self._threads.append(LiveThread(path, self.table, self._packages_of_cpus, self._process))
        except TraceError:
            return  # its header is not whole yet: next time
        self._files.add(name)
