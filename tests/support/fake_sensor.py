"""A process that advances energy counters as hardware would, 1000 times a second, and keeps what it showed when.

Run as a program it takes orders, one JSON object a line, and answers each with a line when it is carried out. The
count is overwritten in place by one pwrite of constant length, so that a reader never sees an empty file. Its watts are
by CLOCK_MONOTONIC; where it may be late, `longest_step_s` bounds what one step adds, so that a process which got no
processor for a while does not jump. What was drawn is then what it kept, not watts times time.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np

PERIOD_S = 0.001
TEXT_BYTES = 24
DEADLINE_S = 120


class Counter:
    """A count in µJ that grows with known watts and wraps."""

    def __init__(
        self, path: str, start_uj: int, modulus: int, watts: float, longest_step_s: float | None = None
    ) -> None:
        self.modulus, self.watts, self.shown = modulus, watts, None
        self.longest_ns = None if longest_step_s is None else round(longest_step_s * 1e9)
        self.count_uj, self.drawn_uj, self.since_ns = float(start_uj), 0.0, time.monotonic_ns()
        self.kept: list[tuple[int, int, str, float]] = []
        self.fd = os.open(path, os.O_WRONLY)

    def draw(self) -> None:
        """Count what was drawn since the last step."""
        now_ns = time.monotonic_ns()
        step_ns = now_ns - self.since_ns
        if self.longest_ns is not None:
            step_ns = min(step_ns, self.longest_ns)
        self.drawn_uj += step_ns * self.watts / 1000
        self.count_uj += step_ns * self.watts / 1000
        self.since_ns = now_ns

    def advance(self) -> None:
        """Show the count of now, unless something else is to be shown."""
        self.draw()
        if self.shown is None:
            self.write(f"{int(self.count_uj) % self.modulus}\n".ljust(TEXT_BYTES, "\n"))

    def write(self, text: str) -> None:
        """Show a text."""
        begin_ns = time.monotonic_ns()
        os.pwrite(self.fd, text.encode(), 0)
        self.kept.append((begin_ns, time.monotonic_ns(), text.strip(), self.drawn_uj))

    def obey(self, order: dict[str, Any]) -> None:
        """Show a text instead of the count (None: the count again), change the watts, step, or write elsewhere."""
        self.draw()
        self.count_uj += order.get("step_uj", 0)
        self.watts = order.get("watts", self.watts)
        if "path" in order:
            os.close(self.fd)
            self.fd = os.open(order["path"], os.O_WRONLY)
        if "text" in order:
            self.shown = order["text"]
            if self.shown is not None:
                self.write(self.shown)
                os.ftruncate(self.fd, len(self.shown.encode()))
        self.advance()


def main() -> None:
    """Advance until standard input ends."""
    counters = {name: Counter(**given) for name, given in json.loads(sys.argv[1]).items()}
    for counter in counters.values():
        counter.advance()  # so that what is read from now on is a count that the log knows
    _answer("ready")
    while True:
        for counter in counters.values():
            counter.advance()
        if select.select([0], [], [], PERIOD_S)[0]:
            line = sys.stdin.readline()
            if not line:
                _answer(json.dumps({name: counter.kept for name, counter in counters.items()}))
                return
            order = json.loads(line)
            counters[order.pop("counter")].obey(order)
            _answer("done")


def _answer(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class FakeSensor:
    """The process, as a context manager; counters are named by their paths."""

    def __init__(
        self, *, watts: float, modulus: int, start_uj: int = 1_000_000, longest_step_s: float | None = None
    ) -> None:
        self._given = {"watts": watts, "modulus": modulus, "start_uj": start_uj, "longest_step_s": longest_step_s}
        self._counters: dict[str, dict[str, Any]] = {}
        self._kept: dict[str, list[tuple[int, int, str, float]]] = {}

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
        self.stop()

    def stop(self) -> Self:
        """End it, and learn what it showed."""
        if self._process.returncode is None:
            self._process.stdin.close()
            self._kept = json.loads(self._process.stdout.read())
            self._process.wait(DEADLINE_S)
            self._process.stdout.close()
        return self

    def order(self, path: Path, **order: object) -> None:
        """Carry out `Counter.obey` before returning."""
        print(json.dumps({"counter": str(path), **order}), file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == "done\n"

    def truth(self, path: Path) -> Truth:
        """Return what a file showed, once the process has ended."""
        begin_ns, end_ns, text, drawn_uj = zip(*self._kept[str(path)], strict=True)
        return Truth(begin_ns, end_ns, text, drawn_uj)


class Truth(NamedTuple):
    """What a counter's file showed: from when to when each text was written, and the µJ that were drawn until then."""

    begin_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    text: tuple[str, ...]
    drawn_uj: tuple[float, ...]

    def showed(self, text: str, since_ns: int, until_ns: int) -> bool:
        """Tell whether it showed a text at any moment between two."""
        may_have_begun = range(max(bisect_right(self.end_ns, since_ns) - 1, 0), bisect_right(self.begin_ns, until_ns))
        return any(self.text[at] == text for at in may_have_begun)

    def drawn_j(self, since_ns: int, until_ns: int) -> tuple[float, float]:
        """Return the least and the most that the count may have moved by between two moments."""
        (least, most), (least_after, most_after) = self._drawn_uj(since_ns), self._drawn_uj(until_ns)
        return (least_after - most) / 1e6, (most_after - least) / 1e6

    def _drawn_uj(self, t_ns: int) -> tuple[float, float]:
        """Return what was drawn until the last count that surely was there at a moment, and until the last that may."""
        surely, perhaps = bisect_right(self.end_ns, t_ns) - 1, bisect_right(self.begin_ns, t_ns) - 1
        return self.drawn_uj[max(surely, 0)], self.drawn_uj[max(perhaps, 0)]


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
