"""A light thread that looks at something every few milliseconds until it is told to stop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD_S = 0.02
SHARE = 0.01
LONGEST_S = 0.5
"""Of one core: where looking takes more, looks come less often, down to two a second."""


class Watcher:
    """Calls a function over and over, on a thread of its own."""

    def __init__(self, look: Callable[[], None]) -> None:
        """Take note; `start` begins."""
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
        pause_s = PERIOD_S
        while not self._stop.wait(pause_s):
            begin_s = time.thread_time()
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - told by `stop`, where somebody listens
                self._error = error
                return
            cost_s = time.thread_time() - begin_s
            # The mean of recent looks counts: one that the machine delayed is no reason to look away.
            pause_s += (min(max(PERIOD_S, cost_s / SHARE), LONGEST_S) - pause_s) / 8
