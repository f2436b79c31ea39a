"""A process that advances energy counters as hardware would: 1000 times a second, from CLOCK_MONOTONIC alone.

Run as a program it takes orders, one JSON object a line, and answers each with a line when it is carried out. The
count is overwritten in place by one pwrite of constant length, so that a reader never sees an empty file.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np

PERIOD_S = 0.001
TEXT_BYTES = 24
DEADLINE_S = 30


class Counter:
    """A count in µJ that grows with known watts and wraps."""

    def __init__(self, path: str, start_uj: int, modulus: int, watts: float) -> None:
        self.modulus, self.watts, self.shown = modulus, watts, None
        self.base_uj, self.since_ns = start_uj, time.monotonic_ns()
        self.fd = os.open(path, os.O_WRONLY)

    def value_uj(self) -> int:
        """Return the count of now."""
        return self.base_uj + round((time.monotonic_ns() - self.since_ns) * self.watts / 1000)

    def advance(self) -> None:
        """Show it, unless something else is to be shown."""
        if self.shown is None:
            os.pwrite(self.fd, f"{self.value_uj() % self.modulus}\n".ljust(TEXT_BYTES, "\n").encode(), 0)

    def obey(self, order: dict[str, Any]) -> None:
        """Show a text instead of the count (None: the count again), change the watts, step, or write elsewhere."""
        self.base_uj, self.since_ns = self.value_uj() + order.get("step_uj", 0), time.monotonic_ns()
        self.watts = order.get("watts", self.watts)
        if "path" in order:
            os.close(self.fd)
            self.fd = os.open(order["path"], os.O_WRONLY)
        if "text" in order:
            self.shown = order["text"]
            if self.shown is not None:
                os.pwrite(self.fd, self.shown.encode(), 0)
                os.ftruncate(self.fd, len(self.shown.encode()))
        self.advance()


def main() -> None:
    """Advance until standard input ends."""
    counters = {name: Counter(**given) for name, given in json.loads(sys.argv[1]).items()}
    _answer("ready")
    while True:
        for counter in counters.values():
            counter.advance()
        if select.select([0], [], [], PERIOD_S)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            order = json.loads(line)
            counters[order.pop("counter")].obey(order)
            _answer("done")


def _answer(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class FakeSensor:
    """The process, as a context manager; counters are named by their paths."""

    def __init__(self, *, watts: float, modulus: int, start_uj: int = 1_000_000) -> None:
        self._given = {"watts": watts, "modulus": modulus, "start_uj": start_uj}
        self._counters: dict[str, dict[str, Any]] = {}

    def drives(self, path: Path, **changes: float) -> Self:
        """Let it advance this file."""
        self._counters[str(path)] = {"path": str(path), **self._given, **changes}
        return self

    def __enter__(self) -> Self:
        """Start it and wait until it has written."""
        command = [sys.executable, __file__, json.dumps(self._counters)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)
        self._process.stdout.close()

    def order(self, path: Path, **order: object) -> None:
        """Carry out `Counter.obey` before returning."""
        print(json.dumps({"counter": str(path), **order}), file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"


def wait_for(what: Callable[[], object], said: str) -> Any:
    """Return what `what()` gives as soon as it is true."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not (found := what()):
        assert time.monotonic() < deadline_s, f"waited in vain for {said}"
        time.sleep(PERIOD_S)
    return found


def raw_readings(session: Path, domain: str = "package-0") -> np.ndarray[Any, Any]:
    """Return the committed readings of a domain as they lie in the file, while it is written too."""
    from tprof.trace import kinds, layout  # noqa: PLC0415 - the process above needs none of it
    from tprof.trace.stream import open_stream  # noqa: PLC0415

    path = session / "readings" / f"{domain}.readings"
    return open_stream(path, kinds.StreamKind.READINGS).read(layout.READING)


def is_missing(readings: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Tell which readings failed."""
    return (readings["flags"] & 1) != 0


def is_reopened(readings: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Tell before which readings the counter was opened again."""
    return (readings["flags"] & 2) != 0


def joules_by_hand(values: np.ndarray[Any, Any], modulus: int) -> float:
    """Return what a counter in µJ took from its first value to its last, in whole numbers, one wrap a step at most."""
    whole = [int(value) for value in values]
    return sum((after - before) % modulus for before, after in pairwise(whole)) / 1e6


if __name__ == "__main__":
    main()
