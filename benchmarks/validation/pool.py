"""Runs many independent simulations over the processors there are, and tells how many are done."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import threadpool_limits
from tprof.benchmarks.catalogue import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Progress = Callable[[int, int], None]

Result = TypeVar("Result")
LEAST = 4
"""Fewer simulations than these do not pay for starting processes."""

_limits = ExitStack()


def run_all(
    work: Callable[..., Result], jobs: Sequence[tuple[object, ...]], progress: Progress | None = None
) -> list[Result]:
    """Return what `work` returns for each job, in their order.

    Parameters
    ----------
    work
        A function of a module, so that another process finds it.
    jobs
        Its arguments.
    progress
        Told how many are done, and of how many.
    """
    tell = progress or _silent
    workers = min(usable_cpus(), len(jobs))
    if workers < 2 or len(jobs) < LEAST:
        return [_reported(work(*job), number, len(jobs), tell) for number, job in enumerate(jobs, 1)]
    # A fork would copy the thread that draws the progress in the middle of what it does.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_prepare_process)
    try:
        futures = [pool.submit(work, *job) for job in jobs]
        for number, _ in enumerate(as_completed(futures), 1):
            tell(number, len(jobs))
        return [future.result() for future in futures]
    finally:
        # Those that run are seconds from their end and clean up behind themselves; an interrupt drops the rest.
        pool.shutdown(wait=True, cancel_futures=True)


def _silent(done: int, of: int) -> None:
    """Tell nobody."""
    del done, of


def _reported(result: Result, number: int, of: int, tell: Progress) -> Result:
    tell(number, of)
    return result


def _prepare_process() -> None:
    """Each process has a processor: threads of its linear algebra would take the others'. Its parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limits.enter_context(threadpool_limits(1))
