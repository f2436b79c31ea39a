"""The threads of a runtime: one for each worker and spare ones for tasks that wait, each pinned to its core."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.sensors.topology import read_topology
from tprof.session.process_state import this_process

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
    """A stack of limits, whose owners may remove theirs in any order."""

    def __init__(self) -> None:
        self._limits: list[tuple[Workers, list[Any]]] = []

    def add(self, owner: Workers, limit: Any) -> None:
        self._limits.append((owner, [limit]))

    def take_back(self, owner: Workers) -> None:
        """Restore the values before the owner's limit, once; if there are later limits, the next one restores them."""
        at = next((at for at, (other, _) in enumerate(self._limits) if other is owner), None)
        if at is None:
            return
        _, limits = self._limits.pop(at)
        if at < len(self._limits):
            self._limits[at][1][:0] = limits
            return
        for limit in reversed(limits):
            limit.restore_original_limits()


class _ThreadLimits(threading.local):
    """OpenMP has a thread count for each thread that uses it, so only that thread can restore its own."""

    def __init__(self) -> None:
        self.limits = _Limits()


_lock = threading.Lock()
this_process.reset_in_child(_lock._at_fork_reinit)  # type: ignore[attr-defined]  # noqa: SLF001 - as concurrent.futures does
_of_process = _Limits()
"""Guarded by the lock."""
_of_thread = _ThreadLimits()


@contextmanager
def _controls_openblas() -> Iterator[None]:
    """Let this thread, and later any other, set the number of OpenBLAS's threads.

    From 3.8 on threadpoolctl lets only the first thread that sets it do so, and ignores the others.
    """
    from threadpoolctl import OpenBLASController  # noqa: PLC0415 - needed only if libraries are limited

    let_go = getattr(OpenBLASController, "clear_controlling_thread", lambda *, force: None)  # noqa: ARG005
    let_go(force=True)
    try:
        yield
    finally:
        let_go(force=True)


class Workers:
    """Starts threads, pins them to the cores of their slots, and keeps numerical libraries from starting more.

    Parameters
    ----------
    name
        The beginning of the threads' names.
    cpus : the processor of each slot; None does not pin threads.
    library_threads : how many threads BLAS and OpenMP may use inside a task; None does not limit them.
    """

    def __init__(self, name: str, *, cpus: Sequence[int] | None, library_threads: int | None) -> None:
        """Keep the arguments; no thread is started yet."""
        self._name = name
        self._cpus = cpus
        self._library_threads = library_threads
        self._libraries: Any = None
        self._threads: list[threading.Thread] = []

    def limit_libraries(self) -> None:
        """Limit the libraries that are loaded now, until `release_libraries` on this thread."""
        if self._library_threads is None:
            return
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - looks through all loaded libraries

        with _lock, _controls_openblas():
            self._libraries = ThreadpoolController()
            others = {library["user_api"] for library in self._libraries.info()} - {"openmp"}
            # OpenMP is limited first and restored last: a BLAS that uses OpenMP sets its count too.
            _of_thread.limits.add(self, self._limit("openmp"))
            _of_process.add(self, self._limit(*others))

    def release_libraries(self) -> None:
        """Restore the libraries' former values, once; OpenMP's only on the thread that limited them."""
        if self._libraries is None:
            return
        with _lock, _controls_openblas():
            _of_process.take_back(self)
        self.release_thread()

    def release_thread(self) -> None:
        """Restore OpenMP's former value on this thread, once, if this thread limited the libraries."""
        _of_thread.limits.take_back(self)

    def _limit(self, *kinds: str) -> Any:
        return self._libraries.select(user_api=list(kinds)).limit(limits=self._library_threads)

    def start(self, scheduler: Scheduler) -> None:
        """Start one more thread that works for the scheduler."""
        thread = threading.Thread(
            target=self._serve, args=(scheduler,), name=f"{self._name}-{len(self._threads)}", daemon=True
        )
        thread.start()
        # It is added after its start: another thread may join all of them, and an unstarted one cannot be joined.
        self._threads.append(thread)

    def pin(self, slot: int) -> None:
        """Pin the calling thread to the core of this slot."""
        if self._cpus is None:
            return
        try:
            os.sched_setaffinity(0, {self._cpus[slot % len(self._cpus)]})
        except OSError:
            # The process may have lost the processor since it was listed: the kernel places threads from now on.
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
            # This is the last thread, and the program ended without waiting for it.
            self.release_libraries()
