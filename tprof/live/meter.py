"""Follows a running recording: at each look it shares out the joules that came since the one before.

It reads what the recorder has committed, as any reader of the session could, so that nothing is asked of the threads
that record. The end of what is shared is the last moment of which both are known, who ran and what was drawn: a
millisecond ago where a sensor measures, up to 20 where it is estimated. What a thread is in the midst of counts by the
thread's own CPU clock. Each look costs in proportion to what is new.

NumPy only: `tprof.analysis` would bring pandas into the program that is measured.
"""

from __future__ import annotations

import os
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.errors import TraceError
from tprof.trace.manifest import read_manifest
from tprof.trace.said import packages_of_cpus, recorded_start_ns, sound_manifest
from tprof.trace.tasks import TaskTable

from .accounts import Accounts
from .domain import Curve, Domain
from .figures import Energy, TaskEnergy
from .hidden import Watch
from .share import Hidden, share
from .thread import LiveThread, Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

MOST_RECORDS = 1 << 16
"""Of one file at a time: a first look at a long recording takes as much memory as one at a short."""

_DOUBT = ("estimated", "simulated", "given", "measured")


class Meter:
    """The joules of a session so far; may be asked by any thread."""

    def __init__(self, session: Path, *, process: int = 0) -> None:
        """Begin at the session's start.

        Parameters
        ----------
        session : its directory
        process : the ordinal of this process, whose threads' clocks can be read

        Raises
        ------
        TraceError
            If it cannot be read.
        """
        manifest, _ = sound_manifest(read_manifest(session))
        static = manifest.get("static_power_w")
        self.table = TaskTable()
        self.accounts = Accounts()
        self.listeners: list[Callable[[Stretch, NDArray[np.float64]], None]] = []
        self._session = session
        self._place = os.fspath(session)
        self._process = process
        self._start_ns = recorded_start_ns(manifest) or 0
        self._static_w: dict[str, float] = static if isinstance(static, dict) else {}
        self._packages_of_cpus = packages_of_cpus(manifest)
        self._files: set[str] = set()
        self._threads: list[LiveThread] = []
        self._domains: list[Domain] = []
        self._watch = Watch()
        self._began_ns: int | None = None
        self._until_ns: int | None = None
        self._lock = threading.Lock()

    @property
    def quality(self) -> str:
        """How the joules are got; `none` where none are."""
        qualities = {domain.quality for domain in self._domains}
        return next((name for name in _DOUBT if name in qualities), "none")

    @property
    def until_ns(self) -> int:
        """Up to when the joules are shared out."""
        return self._until_ns or self._start_ns

    @property
    def packages_only(self) -> bool:
        """Whether all that counts is packages, so that `tprof._core.drawn_uj` tells it without a look."""
        return all(domain.package is not None and domain.said.get("scope") == "package" for domain in self._domains)

    def energy(self) -> Energy:
        """Look, and return all figures."""
        with self._lock:
            self._catch_up()
            return self._figures()

    def used_j(self, tasks: frozenset[str] | None) -> float:
        """Look, and return what tasks of these names took; None: all that this process ran."""
        with self._lock:
            self._catch_up()
            accounts = self.accounts
            if tasks is not None:
                names = enumerate(entry.name for entry in self.table.entries[: len(accounts.task_j)])
                return float(sum(accounts.task_j[index] for index, name in names if name in tasks))
            own = (accounts.process_tasks_j, accounts.process_runtime_j)
            return (
                float(sum(values[self._process] for values in own if len(values) > self._process)) + accounts.unseen_j
            )

    def _figures(self) -> Energy:
        accounts = self.accounts
        tasks: dict[str, TaskEnergy] = {}
        for index, entry in enumerate(self.table.entries):
            energy_j = float(accounts.task_j[index]) if index < len(accounts.task_j) else 0.0
            starts = int(accounts.starts[index]) if index < len(accounts.starts) else 0
            before = tasks.get(entry.name, TaskEnergy(0.0, 0))
            if starts or energy_j:
                tasks[entry.name] = TaskEnergy(before.energy_j + energy_j, before.instances + starts)
        known = bool(self._domains)
        tasks_j = float(accounts.task_j.sum())
        figures = (tasks_j, accounts.runtime_j, accounts.other_j, accounts.idle_j, accounts.measured_j)
        figures = figures if known else (float("nan"),) * 5
        return Energy(tasks, *figures, self.quality, (self.until_ns - self._start_ns) * 1e-9)

    def _catch_up(self) -> None:
        try:
            while self._look():
                pass
        except OSError as error:
            message = f"cannot read {self._session} any more: {error.strerror}; its joules so far are not known"
            raise TraceError(message) from error

    def _look(self) -> bool:
        """Take one step; returns whether there is more to read."""
        self._find_files()
        now_ns = _core.now_ns()
        curves: tuple[Curve, ...] = (*self._domains, *self._watch.busy, *self._watch.program)
        more = [curve.look(MOST_RECORDS) for curve in curves]
        for thread in self._threads:
            self._look_at(thread, now_ns)
        ends = [int(domain.t_ns[-1]) for domain in self._domains if len(domain.t_ns)]
        if len(ends) < len(self._domains):
            return False
        ends += [thread.last_ns for thread in self._threads if thread.behind and thread.last_ns is not None]
        until_ns = min(ends, default=now_ns)
        before_ns = self._until_ns
        if before_ns is None:
            before_ns = max((int(domain.t_ns[0]) for domain in self._domains), default=self._start_ns)
        if until_ns > before_ns:
            self._share(before_ns, until_ns)
            self._until_ns = until_ns
        return any(more) or any(thread.behind for thread in self._threads)

    def _look_at(self, thread: LiveThread, now_ns: int) -> None:
        try:
            starts = thread.look(now_ns, MOST_RECORDS, self._know)
        except (OSError, struct.error):
            # Somebody took the file away: what it held is not known.
            self._threads.remove(thread)
            return
        self.accounts.count(starts)
        if self._began_ns is None:
            self._began_ns = thread.first_ns

    def _know(self, process: int, numbers: Iterable[int]) -> None:
        """Read the names of tasks that are new."""
        known = self.table.numbers(process)
        if all(number in known for number in numbers):
            return
        with suppress(TraceError):  # without a table they are lost names
            self.table.read(self._session / "tasks" / f"{process:08d}.jsonl", process)
        for number in numbers:
            if number not in self.table.numbers(process):
                self.table.lost(process, number)

    def _share(self, since_ns: int, until_ns: int) -> None:
        parts = [part for thread in self._threads if (part := thread.take(since_ns, until_ns)) is not None]
        ran = Stretch.joined(parts)
        hidden = self._watch.claim(until_ns, ran, began_ns=self._began_ns)
        shares = []
        count = max(len(self._domains), 1)
        packages = {domain.package for domain in self._domains if domain.package is not None}
        for domain in self._domains:
            edges_ns, energy_j = domain.take(since_ns, until_ns)
            wide = domain.package is None or len(packages) < 2
            weight = None if wide else _weight(ran.package, domain.package or 0, len(packages))
            even = 1.0 if wide else 1.0 / count
            of_it = Hidden(hidden.other_s * even, hidden.unseen_s * even)
            static_w = self._static_w.get(domain.name, 0.0)
            shares.append(share(ran, edges_ns, energy_j, hidden=of_it, static_w=static_w, weight=weight))
        segment_j = self.accounts.settle(ran, shares)
        for listener in self.listeners:
            listener(ran, segment_j)

    def _find_files(self) -> None:
        """Open what has been added to the session; the readings are there from the start."""
        rooms = (
            {"threads": self._open_thread}
            if self._domains
            else {"readings": self._open_readings, "threads": self._open_thread}
        )
        for room, open_file in rooms.items():
            for name in os.listdir(f"{self._place}/{room}"):  # noqa: PTH208 - it is hot
                if name not in self._files:
                    open_file(self._session / room / name)

    def _open_thread(self, path: Path) -> None:
        try:
            self._threads.append(LiveThread(path, self.table, self._packages_of_cpus, self._process))
        except TraceError:
            return  # its header is not whole yet: next time
        self._files.add(path.name)

    def _open_readings(self, path: Path) -> None:
        try:
            curve = Curve(path)
            if curve.said.get("quantity") == "energy" and curve.said.get("counted") is True:
                self._domains.append(Domain(path))
        except TraceError:
            return
        kinds = {"busy": self._watch.busy, "program": self._watch.program}
        if curve.said.get("quantity") in kinds:
            kinds[curve.said["quantity"]].append(curve)
        self._files.add(path.name)


def _weight(package: NDArray[np.int64], wanted: int, count: int) -> NDArray[np.float64]:
    return np.where(package < 0, 1.0 / count, (package == wanted).astype(np.float64))
