"""Other processes that analyse the hosts of a job: a `map` whose results come in order, never piling up.

Processes start in about half a second, and get the function once. They are forked from a clean server process, which
has loaded the analysis once; a fork of this process would copy threads in the middle of what they do. A process that
outlives this one would only wait, so it ends itself.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    Map = Callable[..., Iterable[Any]]

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2
"""Items that each worker may have beyond the one whose result is waited for."""
_function: Callable[[Any], Any]


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
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(_call, item))
                if len(waiting) > AHEAD * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise TprofError(_KILLED) from None
        finally:
            # What runs takes seconds; an interrupt drops the rest.
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
