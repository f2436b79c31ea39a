"""A light thread that calls functions every few milliseconds until it is stopped."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ExitStack
from contextvars import Context, copy_context
from typing import TYPE_CHECKING

from tprof.session.own_thread import OwnThread
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD_S, LEAST_S = 0.02, 0.002
"""From one call to the next, and at least after the end of one: waits for the interpreter's lock cause delays."""
SHARE, NEAR_SHARE = 0.01, 0.05
"""Parts of one core that the calls may use, normally and when a limit is near; costlier calls come less often."""
AHEAD_S, BEHIND_S = 0.01, 0.005
"""Bounds of the CPU time saved and overdrawn: the next read comes within half a second, or a tenth near a limit.

What was saved is for the read that finds itself behind: on a busy machine polls come late, and each covers more.
"""

THREAD_NAME = "tprof-budget"
SWITCH_S = 0.0002
"""Interpreter's switch interval during a call."""


class Monitor:
    """Calls functions periodically on its own thread, which `threading` does not list and which ends before forks.

    A lock signals the end: its methods are atomic, while a Ctrl-C can leave a `threading.Event` locked.
    """

    def __init__(self, read: Callable[[], None], poll: Callable[[], bool] | None = None) -> None:
        """Store the functions; `start` starts the thread.

        Parameters
        ----------
        read : may be costly; called as often as its cost allows
        poll : cheap; called each time, before `read`; returns whether a limit is near
        """
        self._read = read
        self._poll = poll or _never
        self._error: Exception | None = None
        self._started = False
        self._thread: OwnThread | None = None
        self._context = Context()
        self._spare_s: float | None = None

    @property
    def saved_s(self) -> float:
        """CPU time that a call of `read` may use, since the calls before used less than their share."""
        return self._spare_s or 0.0

    def start(self) -> None:
        """Start the thread; it has the context of the caller.

        On a Python without its lock the filters of `warnings.catch_warnings` are part of it.
        """
        self._started = True
        self._context = copy_context()
        this_process.pause_around_forks(self)
        self.resume()

    def stop(self) -> Exception | None:
        """End the thread; returns the exception of the last call, if it raised one."""
        self._started = False
        this_process.pause_no_more(self)
        self.pause()
        return self._error

    def pause(self) -> None:
        """End the thread until `resume`."""
        thread = self._thread
        if thread is not None and not thread.is_this:
            self._thread = None
            thread.end()

    def resume(self) -> None:
        """Start the thread again, unless a call has failed."""
        if self._started and self._thread is None and self._error is None:
            context = self._context.copy()
            self._thread = OwnThread(lambda thread: context.run(self._run, thread), THREAD_NAME)

    def _run(self, thread: OwnThread) -> None:
        try:
            self._loop(thread)
        except Exception as error:  # noqa: BLE001 - `stop` returns it
            self._error = error

    def _loop(self, thread: OwnThread) -> None:
        if self._spare_s is None:
            # The first call loads modules and opens files; its cost would delay the next one by half a second.
            self._read()
            self._spare_s = AHEAD_S
        due_s = before_s = time.monotonic()
        before_cpu_s = time.thread_time()
        with ExitStack() as near_limit:
            while not thread.is_over(max(due_s + PERIOD_S - time.monotonic(), LEAST_S)):
                due_s = max(due_s + PERIOD_S, time.monotonic() - PERIOD_S)
                with _short_switch_interval:
                    near = self._poll()
                    if self._spare_s > 0:
                        self._read()
                near_limit.close()
                if near:
                    near_limit.enter_context(_short_switch_interval)  # until the next call too
                now_s, cpu_s = time.monotonic(), time.thread_time()
                share = NEAR_SHARE if near else SHARE
                self._spare_s += share * (now_s - before_s) - (cpu_s - before_cpu_s)
                self._spare_s = min(max(self._spare_s, -BEHIND_S), AHEAD_S)
                before_s, before_cpu_s = now_s, cpu_s


def _never() -> bool:
    return False


class _ShortSwitchInterval:
    """Shortens the interpreter's switch interval during a call.

    Some NumPy functions release the interpreter's lock and then wait up to a switch interval to get it back: while
    other threads run Python code, a call of two milliseconds would take hundreds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._former_s = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._former_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._former_s, SWITCH_S))
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and sys.getswitchinterval() <= SWITCH_S:  # otherwise the program has set it meanwhile
                sys.setswitchinterval(self._former_s)


_short_switch_interval = _ShortSwitchInterval()
