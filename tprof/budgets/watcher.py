"""A light thread that looks at something every few milliseconds until it is told to stop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD_S = 0.02
SHARE, NEAR_SHARE = 0.01, 0.05
"""Of one core: where looking takes more, looks come less often; and where something may have to be done soon."""
AHEAD_S = 0.01
"""CPU time that may be used before it is due: a few costly looks in a row are no reason to look away."""
LONGEST_S = 0.5


class Watcher:
    """Calls a function over and over, on a thread of its own."""

    def __init__(self, look: Callable[[], bool | None]) -> None:
        """Take note; `start` begins. `look` returns whether something may have to be done soon."""
        self._look = look
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
        pause_s, ahead_s = PERIOD_S, AHEAD_S
        before_s, before_cpu_s = time.monotonic(), time.thread_time()
        while not self._stop.wait(pause_s):
            try:
                share = NEAR_SHARE if self._look() else SHARE
            except Exception as error:  # noqa: BLE001 - told by `stop`, where somebody listens
                self._error = error
                return
            now_s, cpu_s = time.monotonic(), time.thread_time()
            ahead_s = min(ahead_s + share * (now_s - before_s) - (cpu_s - before_cpu_s), AHEAD_S)
            before_s, before_cpu_s = now_s, cpu_s
            pause_s = min(max(PERIOD_S, PERIOD_S - ahead_s / share), LONGEST_S)
