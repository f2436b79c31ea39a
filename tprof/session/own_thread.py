"""A thread of tprof's own, which `threading` does not list and recordings leave out."""

from __future__ import annotations

import _thread
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import _core

if TYPE_CHECKING:
    from collections.abc import Callable


class OwnThread:
    """A native thread that runs until `end`.

    A lock signals the end: its methods are atomic, while a Ctrl-C can leave a `threading.Event` locked.
    """

    def __init__(self, run: Callable[[OwnThread], None], name: str) -> None:
        """Begin; the kernel shows up to 15 letters of the name."""
        self._name = name
        self._over = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._over.acquire()
        self._ended.acquire()
        self._native_id = 0
        _thread.start_new_thread(self._begin, (run,))

    def _begin(self, run: Callable[[OwnThread], None]) -> None:
        self._native_id = _thread.get_native_id()
        _core.leave_out_thread(True)  # noqa: FBT003 - a function of C
        with suppress(OSError):
            Path(f"/proc/self/task/{self._native_id}/comm").write_text(self._name, encoding="ascii")
        try:
            run(self)
        finally:
            _core.leave_out_thread(False)  # noqa: FBT003 - a function of C
            self._ended.release()

    @property
    def is_this(self) -> bool:
        """Whether it is the calling thread."""
        return self._native_id == _thread.get_native_id()

    def is_over(self, timeout_s: float) -> bool:
        """Wait for `end`, at most `timeout_s`; called by the thread."""
        return self._over.acquire(timeout=timeout_s)

    def end(self, timeout_s: float = -1) -> bool:
        """End the thread, and wait until the kernel does not list it any more.

        Returns False if it has not ended within `timeout_s`; then it goes on as if it had not been asked.
        """
        self._over.release()
        if not self._ended.acquire(timeout=timeout_s):
            if self._over.acquire(blocking=False):
                return False
            self._ended.acquire()
        _core.await_thread_end(self._native_id)
        return True
