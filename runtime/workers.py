"""The threads of a runtime: one for each worker and spare ones for tasks that wait, each placed on its core."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import forks
from tprof.sensors.topology import read_topology

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


class _Limits:
    """Limits that were set one over the other, each by somebody who will take it back."""

    def __init__(self) -> None:
        self._limits: list[tuple[Workers, list[Any]]] = []

    def add(self, owner: Workers, limit: Any) -> None:
        self._limits.append((owner, [limit]))

    def take_back(self, owner: Workers) -> None:
        """Restore what was before this one's, once; or leave it to who set a limit over it and still does."""
        at = next((at for at, (other, _) in enumerate(self._limits) if other is owner), None)
        if at is None:
            return
        _, limits = self._limits.pop(at)
        if at < len(self._limits):
            self._limits[at][1][:0] = limits
            return
        for limit in reversed(limits):
            limit.restore_original_limits()


class _Here(threading.local):
    """OpenMP counts its threads for each thread that uses it, so only that thread can restore its count."""

    def __init__(self) -> None:
        self.limits = _Limits()


_lock = threading.Lock()
forks.reset_in_child(_lock._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
_of_process = _Limits()
"""Guarded by the lock."""
_here = _Here()


@contextmanager
def _controls_openblas() -> Iterator[None]:
    """Let this thread, and then any other, set OpenBLAS's threads.

    From 3.8 on threadpoolctl lets one thread alone set them, the first that did, and does nothing for the others.
    """
    from threadpoolctl import OpenBLASController  # noqa: PLC0415 - as above, only where libraries are limited

    let_go = getattr(OpenBLASController, "clear_controlling_thread", lambda *, force: None)  # noqa: ARG005
    let_go(force=True)
    try:
        yield
    finally:
        let_go(force=True)


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
        self._threads: list[threading.Thread] = []

    def limit_libraries(self) -> None:
        """Hold what is loaded now to so many threads, until `release_libraries` on this thread."""
        if self._library_threads is None:
            return
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - looks through all loaded libraries

        with _lock, _controls_openblas():
            self._libraries = ThreadpoolController()
            others = {library["user_api"] for library in self._libraries.info()} - {"openmp"}
            # OpenMP first and back last: a BLAS that runs on it sets its count too.
            _here.limits.add(self, self._limit("openmp"))
            _of_process.add(self, self._limit(*others))

    def release_libraries(self) -> None:
        """Give the libraries back what they had, once; OpenMP on this thread, if it limited them."""
        if self._libraries is None:
            return
        with _lock, _controls_openblas():
            _of_process.take_back(self)
        self.release_thread()

    def release_thread(self) -> None:
        """Give OpenMP back what it had on this thread, once, if it is the one that limited the libraries."""
        _here.limits.take_back(self)

    def _limit(self, *kinds: str) -> Any:
        return self._libraries.select(user_api=list(kinds)).limit(limits=self._library_threads)

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
        if self._libraries is not None:
            self._limit("openmp")
        scheduler.serve()
        if scheduler.counts()["threads"] == 0:
            # The last to go, where the program went without waiting.
            self.release_libraries()
