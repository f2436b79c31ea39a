"""Threads, or other processes, that analyse parts of recordings: a `map` whose results come in order, never piling up.

Threads begin at once, and hold Python's lock for a part of the time: for a short one where a window has few recorded
threads, whose arrays are long, and for most of it where it has many. Processes start in about half a second, and get
the function once. They are forked from a clean server process, which has loaded the analysis once; a fork of this
process would copy threads in the middle of what they do. A process that outlives this one would only wait, so it ends
itself.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future

    Map = Callable[..., Iterable[Any]]

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2
"""Items that each worker may have beyond the one whose result is waited for."""
FEW_RECORDED = 8
"""Recorded threads, with which a window's arrays are long."""
MOST_THREADS = 6
"""For so few: more would take more memory and no less time (measured with 1 recorded thread on 16 cores)."""
MOST_LOCKED = 3
"""For more recorded threads: more mostly waited for Python's lock (measured with 64 of them on 16 cores, before the
threads of a window were read together)."""
SHARED_FROM = 10_000_000
"""Samples and readings of a recording of many threads from which processes save more time than their start takes."""
MOST_PROCESSES = 6
"""With more, they could need more than 1 GB of memory together."""
_function: Callable[[Any], Any]


def usual_threads(recorded: int) -> Threads:
    """Return the threads that analyse a recording of so many unless somebody says it.

    Processes need a program's consent.
    """
    return Threads(min(len(os.sched_getaffinity(0)), MOST_THREADS if recorded <= FEW_RECORDED else MOST_LOCKED))


def usual_map(records: int, recorded: int) -> Threads | Processes:
    """Return what analyses so many samples and readings of one host's threads where processes may be started."""
    processors = len(os.sched_getaffinity(0))
    is_worth = processors > MOST_LOCKED and records >= SHARED_FROM and recorded > FEW_RECORDED
    return Processes(min(processors, MOST_PROCESSES)) if is_worth else usual_threads(recorded)


@dataclass(frozen=True)
class Threads:
    """Calls functions on so many threads, as the built-in `map` does."""

    count: int

    def __call__(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what a function returns for each item, in their order."""
        if self.count == 1:
            return map(function, items)
        return _in_order(ThreadPoolExecutor(self.count, "tprof-window"), self.count, function, items)


@dataclass(frozen=True)
class Processes:
    """Calls functions in so many processes, as the built-in `map` does."""

    count: int

    def __call__(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what a function returns for each item.

        Raises
        ------
        TprofError
            If a process was killed.
        """
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__, "tprof.analysis.profile"])
        pool = ProcessPoolExecutor(self.count, context, _begin, (function,))
        try:
            yield from _in_order(pool, self.count, _call, items)
        except BrokenProcessPool:
            raise TprofError(_KILLED) from None


@contextmanager
def ended(results: Iterable[Result]) -> Iterator[Iterable[Result]]:
    """Let the threads or processes that compute results end with the block, also if an error ends it."""
    try:
        yield results
    finally:
        if isinstance(results, Generator):
            results.close()


def _in_order(
    pool: Executor, workers: int, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    try:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # What runs takes less than a second; an interrupt drops the rest.
        pool.shutdown(wait=True, cancel_futures=True)


_KILLED = (
    "a process that analysed a part of the recording was killed, perhaps since memory ran out: try again with fewer of "
    "them, such as --parallel 1"
)


def _begin(function: Callable[[Any], Any]) -> None:
    """Keep the function; leave an interrupt to the process that gave it, and end with that one."""
    global _function  # noqa: PLW0603 - a pool's processes have no other place
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _function = function
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _call(item: Any) -> Any:
    return _function(item)
