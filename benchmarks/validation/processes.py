"""Work whose parts do not depend on each other, in as many processes as there are processors.

This module stands by itself: each process imports it, and with the validation beside it that takes two seconds.
"""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import threadpool_limits
from tprof.benchmarks.machine_description import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Progress = Callable[[int, int], None]

Result = TypeVar("Result")
LEAST = 4
"""With fewer jobs, starting processes costs more than it saves."""
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
        Called with how many are done, and of how many.
    """
    results: dict[int, Result] = {}
    for number, result in completed(work, jobs):
        results[number] = result
        if progress is not None:
            progress(len(results), len(jobs))
    return [results[number] for number in range(len(jobs))]


def completed(work: Callable[..., Result], jobs: Sequence[tuple[object, ...]]) -> Iterator[tuple[int, Result]]:
    """Yield a job's number and what `work` returns for it, as soon as it is known; `run_all` says what they are."""
    workers = min(usable_cpus(), len(jobs))
    if workers < 2 or len(jobs) < LEAST:
        for number, job in enumerate(jobs):
            yield number, work(*job)
        return
    # A fork would copy the thread that draws the progress in the middle of what it does.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_prepare_process)
    try:
        futures = {pool.submit(work, *job): number for number, job in enumerate(jobs)}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        # Those that run are seconds from their end and clean up behind themselves; an interrupt drops the rest.
        pool.shutdown(wait=True, cancel_futures=True)


def _prepare_process() -> None:
    """Limit linear algebra to one thread, since each process has one processor; ignore SIGINT: the parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limits.enter_context(threadpool_limits(1))
