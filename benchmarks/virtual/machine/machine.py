"""The process that is the machine: it hears what tasks did at which frequency, and advances `energy_uj`.

A task reports each slice of its work by a datagram to an abstract socket whose name stands in the tree: what it is,
the frequency that the tree held, its CPU time. It draws the power of its law for just that CPU time, so that what the
tasks draw in all is known even where other programs take the processor away from them; besides there is a little idle
power. The count is overwritten in place by one write of constant length: a reader never sees an empty file.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tprof.sensors.choose import SYSROOT
from tprof.session.process_state import SESSION

from .response import RESPONSES
from .tree import ENERGY, RANGE_UJ, Shape, make_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

PERIOD_S = 0.001
IDLE_W = 0.05
"""Next to nothing: then a task's energy is its law's, and no part of it is static."""
TEXT_BYTES = 24
READY = "ready"
START = "from tprof.benchmarks.virtual.machine.machine import main; main()"


class Machine:
    """A machine below a folder, as a context manager; programs see it with its `environment`."""

    def __init__(self, root: Path, shape: Shape) -> None:
        """Make its files."""
        self.root = root
        self._address = f"tprof-machine-{secrets.token_hex(8)}"
        make_tree(root, shape, self._address)

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to see the machine: the environment of now and the root of its /sys."""
        return {**os.environ, SYSROOT: str(self.root)}

    def __enter__(self) -> Self:
        """Start it and wait until it hears."""
        environment = {name: value for name, value in os.environ.items() if name != SESSION}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-c", START, str(self.root), self._address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._process.stdout.readline()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it: it ends with its standard input."""
        self._process.communicate()


class Package:
    """The joules so far."""

    def __init__(self, root: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Begin to count below a root."""
        self._fd = os.open(root / ENERGY, os.O_WRONLY)
        self._clock_s = clock_s
        self._joules, self._since_s = 0.0, clock_s()

    def hear(self, message: str) -> None:
        """Add what a slice drew (TASK HZ NANOSECONDS)."""
        task, hz, cpu_ns = message.split()
        self._joules += RESPONSES[task].power_w(int(hz)) * int(cpu_ns) * 1e-9

    def advance(self) -> None:
        """Add the idle power since the last time, and show it all."""
        now_s = self._clock_s()
        self._joules += IDLE_W * (now_s - self._since_s)
        self._since_s = now_s
        text = f"{int(self._joules * 1e6) % (RANGE_UJ + 1)}\n".ljust(TEXT_BYTES, "\n")
        os.pwrite(self._fd, text.encode(), 0)


def main() -> None:
    """Be the machine until standard input ends."""
    import selectors  # noqa: PLC0415 - only the process needs it

    root, address = sys.argv[1:]
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(f"\0{address}")
    package = Package(Path(root))
    with selectors.DefaultSelector() as selector:
        for source in (heard, sys.stdin):
            selector.register(source, selectors.EVENT_READ)
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        while True:
            for key, _ in selector.select(PERIOD_S):
                if key.fileobj is sys.stdin:
                    return
                package.hear(heard.recv(256).decode())
            package.advance()
