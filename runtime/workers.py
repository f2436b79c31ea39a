"""The threads of a runtime: one for each worker and spare ones for tasks that wait, each placed on its core."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import forks
from tprof.sensors.topology import read_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.runtime._scheduler import Scheduler


def usable_cpus(root: Path = Path("/")) -> list[int]:
    """Return the processors that this process may run on: one of each core first, then their siblings."""
    allowed = os.sched_getaffinity(0)
    seen: dict[tuple[int, int], int] = {}
    rank = {}
    for cpu in sorted(read_topology(root), key=lambda cpu: cpu.cpu):
        if cpu.cpu not in allowed:
            continue
        core = (cpu.package, cpu.core)
        rank[cpu.cpu] = seen.get(core, 0)
        seen[core] = rank[cpu.cpu] + 1
    return sorted(allowed, key=lambda cpu: (rank.get(cpu, 0), cpu))


_lock = threading.Lock()
forks.reset_in_child(_lock._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
_limiting: list[Workers] = []
"""Those that hold the libraries, the last one's word counts."""


class Workers:
    """Starts threads, sets them on the cores of their seats, and keeps numerical libraries from starting more.

    Parameters
    ----------
    name
        What the threads' names begin with.
    cpus : the processor of each seat; None leaves the threads where the kernel puts them.
    library_threads : how many threads BLAS and OpenMP may use inside a task; None leaves them alone.
    """

    def __init__(self, name: str, *, cpus: Sequence[int] | None, library_threads: int | None) -> None:
        """Take note; no thread is started yet."""
        self._name = name
        self._cpus = cpus
        self._library_threads = library_threads
        self._libraries: Any = None
        self._limits: list[Any] = []
        self._threads: list[threading.Thread] = []

    def limit_libraries(self) -> None:
        """Hold what is loaded now to so many threads, until `release_libraries`."""
        if self._library_threads is None:
            return
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - looks through all loaded libraries

        with _lock:
            self._libraries = ThreadpoolController()
            self._limits = [self._libraries.limit(limits=self._library_threads)]
            _limiting.append(self)

    def release_libraries(self) -> None:
        """Give the libraries back what they had, or leave that to who limited them since and still does."""
        with _lock:
            if self not in _limiting:
                return
            at = _limiting.index(self)
            _limiting.remove(self)
            if at < len(_limiting):
                _limiting[at]._limits[:0] = self._limits  # noqa: SLF001 - the same class
                return
            for limit in reversed(self._limits):
                limit.restore_original_limits()

    def start(self, scheduler: Scheduler) -> None:
        """Start one more thread that works for the scheduler."""
        thread = threading.Thread(
            target=self._serve, args=(scheduler,), name=f"{self._name}-{len(self._threads)}", daemon=True
        )
        thread.start()
        # Only now: another thread may be joining them, and a thread that has not started cannot be joined.
        self._threads.append(thread)

    def place(self, seat: int) -> None:
        """Set the calling thread on the core of this seat."""
        if self._cpus is None:
            return
        try:
            os.sched_setaffinity(0, {self._cpus[seat % len(self._cpus)]})
        except OSError:
            # The processor was taken from this process since it was counted: the kernel's choice is as good.
            self._cpus = None

    def join(self) -> None:
        """Wait until all threads have ended; the scheduler has been stopped."""
        for thread in self._threads:
            thread.join()

    def _serve(self, scheduler: Scheduler) -> None:
        if self._libraries is not None and self._library_threads is not None:
            # OpenMP counts its threads for each thread that uses it.
            self._libraries.select(user_api="openmp").limit(limits=self._library_threads)
        scheduler.serve()
        if scheduler.counts()["threads"] == 0:
            # The last to go, where the program went without waiting.
            self.release_libraries()
