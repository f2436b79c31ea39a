"""Samples the Python stacks of this process's threads about every 10 ms, for flame graphs by functions.

A thread of tprof's own takes Python's lock for some microseconds and walks all threads' frames in C
(csrc/binding_stacks.c). A thread that computes in Python hands over the lock after the switch interval, so samples come
up to 5 ms late, but never before or after some code only: the time between samples is random. They come less often if
they would take more than 1 % of a core. The thread ends before a fork and starts again after it.
"""

from __future__ import annotations

import os
from pathlib import Path

from tprof import _core
from tprof.errors import UsageError
from tprof.trace.directory import STACKS

from .own_thread import OwnThread
from .process_state import this_process

PERIOD_NS = 10_000_000
SHARE = 0.01
THREAD_NAME = "tprof-stacks"
_MULTIPLIER, _INCREMENT, _MODULUS = 1_664_525, 1_013_904_223, 1 << 32
"""A generator of random numbers of our own: the program's stays as it is."""


def check_stacks() -> None:
    """Raise UsageError if this Python's stacks cannot be sampled."""
    if not hasattr(_core, "StackFile"):
        raise UsageError("stacks are sampled under Python's lock, which this free-threaded build lacks: use another")


class StackSampling:
    """The thread and the file of one process's membership."""

    def __init__(self, directory: Path, process: int) -> None:
        """Make the file and start the thread; a process without room for either has no stacks."""
        self._thread: OwnThread | None = None
        self._file: _core.StackFile | None = None
        self.problem: str | None = None
        self._random = os.getpid() & (_MODULUS - 1)
        try:
            (directory / STACKS).mkdir(mode=0o700, exist_ok=True)
            path = directory / STACKS / f"{process:08d}.stacks"
            self._file = _core.StackFile(os.fspath(path), process, _launchers())
        except OSError as error:
            self.problem = error.strerror or str(error)
            return
        this_process.pause_around_forks(self)
        self.resume()

    def pause(self) -> None:
        """End the thread until `resume`."""
        thread = self._thread
        if thread is not None and not thread.is_this and thread.end():
            self._thread = None

    def resume(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None and self._file is not None:
            try:
                self._thread = OwnThread(self._run, THREAD_NAME)
            except RuntimeError as error:
                self.problem = f"no thread could be started ({error})"

    def stop(self) -> None:
        """End the thread and the file."""
        if self._file is None:
            return
        this_process.pause_no_more(self)
        self.pause()
        self._file.close()
        self._file = None

    def _run(self, thread: OwnThread) -> None:
        file = self._file
        mean_ns = float(PERIOD_NS)
        while file is not None and not thread.is_over(self._wait_s(mean_ns)):
            mean_ns = max(PERIOD_NS, 0.9 * mean_ns, file.sample() / SHARE)

    def _wait_s(self, mean_ns: float) -> float:
        """Return a random time, from half the mean to one and a half: a periodic program is not hit in step."""
        self._random = (_MULTIPLIER * self._random + _INCREMENT) % _MODULUS
        return mean_ns * (0.5 + self._random / _MODULUS) * 1e-9


def _launchers() -> str:
    """Return the folder whose functions run a program, and are no part of it."""
    return os.fspath(Path(__file__).resolve().parent.parent)
