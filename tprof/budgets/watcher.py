"""A light thread that looks at something every few milliseconds until it is told to stop."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD_S, LEAST_S = 0.02, 0.002
"""From one look to the next, and at least from the end of one: who waits for the interpreter's lock is late."""
SHARE, NEAR_SHARE = 0.01, 0.05
"""Of one core: where looking takes more, looks come less often; and where something may have to be done soon."""
AHEAD_S, BEHIND_S = 0.01, 0.005
"""CPU time that may be used before it is due, and what of an excess is remembered: the next look comes within half a
second, or a tenth where it is urgent."""

SWITCH_S = 0.0002
"""How long a thread may keep the interpreter's lock from a look."""


class Watcher:
    """Calls functions over and over, on a thread of its own."""

    def __init__(self, look: Callable[[], None], glance: Callable[[], bool] | None = None) -> None:
        """Take note; `start` begins.

        Parameters
        ----------
        look : costs as much as it costs, and comes as often as that allows
        glance : costs little and comes each time before; returns whether something may have to be done soon
        """
        self._look = look
        self._glance = glance or _never
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="tprof-budget", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> Exception | None:
        """Look no more; returns what a look raised, which was the last one then."""
        self._stop.set()
        self._thread.join()
        return self._error

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # noqa: BLE001 - told by `stop`, where somebody listens
            self._error = error

    def _watch(self) -> None:
        # It loads and opens what the others use, which would count as half a second of looking away.
        self._look()
        spare_s = AHEAD_S
        due_s = before_s = time.monotonic()
        before_cpu_s = time.thread_time()
        with ExitStack() as hurry:
            while not self._stop.wait(max(due_s + PERIOD_S - time.monotonic(), LEAST_S)):
                due_s = max(due_s + PERIOD_S, time.monotonic() - PERIOD_S)
                with _hurry:
                    near = self._glance()
                    if spare_s > 0:
                        self._look()
                hurry.close()
                if near:
                    hurry.enter_context(_hurry)  # until the next look too
                now_s, cpu_s = time.monotonic(), time.thread_time()
                share = NEAR_SHARE if near else SHARE
                spare_s += share * (now_s - before_s) - (cpu_s - before_cpu_s)
                spare_s = min(max(spare_s, -BEHIND_S), AHEAD_S)
                before_s, before_cpu_s = now_s, cpu_s


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
