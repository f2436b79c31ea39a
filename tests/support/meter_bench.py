"""A meter on a serial line: a pseudo-terminal to which a thread writes lines as the meter of a test."""

from __future__ import annotations

import os
import pty
import threading
import time
import tty
from contextlib import suppress
from typing import TYPE_CHECKING

from .sensor_conformance import PowerBench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


class SerialMeter:
    """Writes what a function returns as a line every few milliseconds, until it is closed."""

    def __init__(self, path: Path, line: Callable[[], str], period_s: float = 0.004) -> None:
        """Make the terminal and a link to it."""
        self._path, self._line, self._period_s = path, line, period_s
        self._end = threading.Event()
        self._master, self._slave = pty.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        path.symlink_to(os.ttyname(self._slave))
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        while not self._end.wait(self._period_s):
            with suppress(BlockingIOError):  # nobody reads
                os.write(self._master, self._line().encode() + b"\r\n")

    def close(self) -> None:
        """Pull the plug."""
        self._end.set()
        self._thread.join()
        self._path.unlink()
        os.close(self._master)
        os.close(self._slave)


class MeterBench(PowerBench):
    """A meter at the plug."""

    domain = "wall"

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        self.path = place / "ttyMeter"
        self.energy = f"meter:{self.path}"
        self.watts_now = 0.0
        self.meter: SerialMeter | None = SerialMeter(self.path, lambda: f"{self.watts_now:.3f}")

    def show(self, value: float) -> None:
        """Change the watts of the lines; those written before have arrived a moment later."""
        self.watts_now = value
        time.sleep(0.03)

    def remove(self) -> None:
        """Pull the plug."""
        if self.meter is not None:
            self.meter.close()
            self.meter = None

    def put_back(self) -> None:
        """Plug it in again, as another terminal."""
        self.meter = SerialMeter(self.path, lambda: f"{self.watts_now:.3f}")

    def forbid(self) -> None:
        """A folder in its place is one that root cannot read either."""
        self.remove()
        self.path.mkdir()

    def close(self) -> None:
        """Pull the plug."""
        self.remove()
