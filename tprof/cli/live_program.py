"""A program on a terminal of its own: what it prints is kept, and what is typed is passed on.

The program is the leader of a session on a pseudo-terminal, so for it nothing differs from the terminal in which it was
started: Ctrl-C, job control, the width, the question whether standard output is a terminal. A standard stream that is
redirected stays so.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import termios
import threading
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Sequence

TAIL_BYTES = 1 << 16
"""Of its output, what a view can show."""
CHUNK_BYTES = 1 << 16
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class LiveProgram:
    """A program that runs; its output is read by a thread until the terminal is given to it."""

    def __init__(self, words: Sequence[str], terminal: int, environment: dict[str, str]) -> None:
        """Start it, with the settings and the size of a terminal. Raises OSError."""
        self._terminal = terminal
        self._master, slave = pty.openpty()
        self._kept: BinaryIO = tempfile.TemporaryFile(prefix="tprof-live-")  # noqa: SIM115 - for as long as it runs
        self._tail = b""
        self._passing = False
        self._lock = threading.Lock()
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(terminal))
        self.fit()
        streams = [slave if os.isatty(number) else None for number in (0, 1, 2)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own program
                words,
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=environment,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no other thread runs
            )
        finally:
            os.close(slave)
        self._reader = threading.Thread(target=self._read, name="tprof-output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has, and all of its output is there."""
        return self._process.poll() is not None and not self._reader.is_alive()

    def lines(self, most: int) -> list[str]:
        """Return the last lines of its output, without what steers a terminal."""
        text = _ESCAPE.sub(b"", self._tail).decode("utf-8", "replace").replace("\r\n", "\n")
        lines = [line.rpartition("\r")[2] for line in text.split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines[-most:] if most > 0 else []

    def type(self, text: str) -> None:
        """Type a text into its terminal."""
        with suppress(OSError):  # it has ended
            os.write(self._master, text.encode())

    def send(self, number: int) -> None:
        """Send it a signal."""
        with suppress(OSError):  # it has ended
            self._process.send_signal(number)

    def fit(self) -> None:
        """Give its terminal the size of the real one."""
        with suppress(OSError):
            size = fcntl.ioctl(self._terminal, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def go_on_in_terminal(self) -> None:
        """Print all of its output, and connect it with the terminal until it ends, or the terminal is closed."""
        with self._lock:
            self._passing = True
            self._kept.seek(0)
            while part := self._kept.read(CHUNK_BYTES):
                self._show(part)
            self._kept.close()
        if self._reader.is_alive():
            self._connect()
        self._reader.join()

    def wait(self) -> int:
        """Return its exit status, negative after a signal."""
        return self._process.wait()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, CHUNK_BYTES)
            except OSError:
                return  # no process has the terminal open any more
            if not part:
                return
            with self._lock:
                if self._passing:
                    self._show(part)
                else:
                    self._keep(part)

    def _keep(self, part: bytes) -> None:
        self._tail = (self._tail + part)[-TAIL_BYTES:]
        with suppress(OSError):  # the disk is full: the view still shows the latest output
            self._kept.write(part)

    def _show(self, part: bytes) -> None:
        """Print it; what is printed after the terminal was closed is lost, as without a view."""
        view = memoryview(part)
        with suppress(OSError):
            while view:
                view = view[os.write(self._terminal, view) :]

    def _connect(self) -> None:
        """Pass on what is typed, byte by byte, and the terminal's size."""
        try:
            before = termios.tcgetattr(self._terminal)
        except termios.error:
            return  # the terminal was closed
        resized = signal.signal(signal.SIGWINCH, lambda *_: self.fit())
        tty.setraw(self._terminal, termios.TCSANOW)
        try:
            self.fit()
            while self._reader.is_alive():
                if select.select([self._terminal], [], [], 0.05)[0] and not self._pass_on():
                    return
        finally:
            with suppress(termios.error):  # the terminal was closed
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, before)
            signal.signal(signal.SIGWINCH, resized)

    def _pass_on(self) -> bool:
        """Pass on what was typed; returns whether the terminal is still there."""
        try:
            typed = os.read(self._terminal, CHUNK_BYTES)
        except OSError:
            return False
        with suppress(OSError):  # the program has ended
            os.write(self._master, typed)
        return bool(typed)
