"""A light thread that looks at something every few milliseconds until it is told to stop."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import _core, forks

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD_S, LEAST_S = 0.02, 0.002
"""From one look to the next, and at least from the end of one: who waits for the interpreter's lock is late."""
SHARE, NEAR_SHARE = 0.01, 0.05
"""Of one core: where looking takes more, looks come less often; and where something may have to be done soon."""
AHEAD_S, BEHIND_S = 0.01, 0.005
"""CPU time that may be used before it is due, and what of an excess is remembered: the next look comes within half a
second, or a tenth where it is urgent."""

THREAD_NAME = "tprof-budget"
SWITCH_S = 0.0002
"""How long a thread may keep the interpreter's lock from a look."""


class Watcher:
    """Calls functions over and over, on a thread of its own, of which `threading` does not know and forks see nothing.

    What tells it to end is a lock: its methods are whole, where `threading.Event` can be left locked by a Ctrl-C.
    """

    def __init__(self, look: Callable[[], None], glance: Callable[[], bool] | None = None) -> None:
        """Take note; `start` begins.

        Parameters
        ----------
        look : costs as much as it costs, and comes as often as that allows
        glance : costs little and comes each time before; returns whether something may have to be done soon
        """
        self._look = look
        self._glance = glance or _never
        self._error: Exception | None = None
        self._wanted = False
        self._thread: Turn | None = None
        self._spare_s: float | None = None

    def start(self) -> None:
        """Begin to look."""
        self._wanted = True
        forks.pause_around(self)
        self.go_on()

    def stop(self) -> Exception | None:
        """Look no more; returns what a look raised, which was the last one then."""
        self._wanted = False
        forks.pause_no_more(self)
        self.pause()
        return self._error

    def pause(self) -> None:
        """Look no more for now."""
        thread = self._thread
        if thread is not None and not thread.is_this:
            self._thread = None
            thread.end()

    def go_on(self) -> None:
        """Look again, unless a look has failed."""
        if self._wanted and self._thread is None and self._error is None:
            self._thread = Turn(self._run)

    def _run(self, turn: Turn) -> None:
        try:
            self._watch(turn)
        except Exception as error:  # noqa: BLE001 - told by `stop`, where somebody listens
            self._error = error

    def _watch(self, turn: Turn) -> None:
        if self._spare_s is None:
            # It loads and opens what the others use, which would count as half a second of looking away.
            self._look()
            self._spare_s = AHEAD_S
        due_s = before_s = time.monotonic()
        before_cpu_s = time.thread_time()
        with ExitStack() as hurry:
            while not turn.is_over(max(due_s + PERIOD_S - time.monotonic(), LEAST_S)):
                due_s = max(due_s + PERIOD_S, time.monotonic() - PERIOD_S)
                with _hurry:
                    near = self._glance()
                    if self._spare_s > 0:
                        self._look()
                hurry.close()
                if near:
                    hurry.enter_context(_hurry)  # until the next look too
                now_s, cpu_s = time.monotonic(), time.thread_time()
                share = NEAR_SHARE if near else SHARE
                self._spare_s += share * (now_s - before_s) - (cpu_s - before_cpu_s)
                self._spare_s = min(max(self._spare_s, -BEHIND_S), AHEAD_S)
                before_s, before_cpu_s = now_s, cpu_s


class Turn:
    """A thread from its start until it is told to end."""

    def __init__(self, run: Callable[[Turn], None]) -> None:
        """Begin."""
        self._over = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._over.acquire()
        self._ended.acquire()
        self._native_id = 0
        _thread.start_new_thread(self._begin, (run,))

    def _begin(self, run: Callable[[Turn], None]) -> None:
        self._native_id = _thread.get_native_id()
        with suppress(OSError):
            Path(f"/proc/self/task/{self._native_id}/comm").write_text(THREAD_NAME, encoding="ascii")
        try:
            run(self)
        finally:
            self._ended.release()

    @property
    def is_this(self) -> bool:
        """Whether it is the thread that asks."""
        return self._native_id == _thread.get_native_id()

    def is_over(self, timeout_s: float) -> bool:
        """Wait for the end, so long at most; called by the thread."""
        return self._over.acquire(timeout=timeout_s)

    def end(self) -> None:
        """Tell the thread to end, and wait until the process has it no more."""
        self._over.release()
        self._ended.acquire()
        _core.await_thread_end(self._native_id)


def _never() -> bool:
    return False


class _Hurry:
    """Lets threads hand the interpreter's lock over sooner while a look goes on.

    NumPy gives the lock away in the midst of some of its functions, and whoever wants it back waits for the whole
    switch interval: where threads run Python code, a look of two milliseconds would take hundreds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks = 0
        self._former_s = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._looks == 0:
                self._former_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._former_s, SWITCH_S))
            self._looks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._looks -= 1
            if self._looks == 0 and sys.getswitchinterval() <= SWITCH_S:  # else the program has set it meanwhile
                sys.setswitchinterval(self._former_s)


_hurry = _Hurry()
