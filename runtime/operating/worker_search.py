"""How many workers are best, found out while the program runs: half of them are tried, and kept where that pays.

A try is three spans: as before, with half, as before again. Half has to be better than both, so that a program which
changes its pace meanwhile decides nothing. Work is counted in seconds of the tasks' mean instances, so that spans in
which other tasks ran can be compared. Tries may take a small share of the time so far: a short program sees none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = 0.02
"""Of the time so far that trying may take."""
LEAST_S, INSTANCES = 0.1, 10
"""A span lasts so long, and so many times as long as the longest task's mean instance."""
SPANS = 3
SHORTER = 4
"""Half is tried again after a try that did not pay only once so many times as long has passed."""


@dataclass(frozen=True)
class Pace:
    """What a span showed: joules and seconds for each second of work."""

    energy_j: float
    time_s: float


class WorkerSearch:
    """Which number of workers to let take tasks; `ended` and `look` whenever a task ends.

    Parameters
    ----------
    most
        Workers there are.
    judge
        What a pace costs, given the fastest that was seen with all workers.
    read_j
        The package's joules so far.
    gain
        Part of the cost that fewer workers have to save.
    """

    def __init__(
        self, most: int, judge: Callable[[Pace, Pace], float], read_j: Callable[[], float], gain: float
    ) -> None:
        """Begin with all."""
        self.workers = most
        self._most, self._judge, self._read_j, self._gain = most, judge, read_j, gain
        self._kept = most
        self._spans: list[Pace] = []
        self._fastest: Pace | None = None
        self._begun_ns: int | None = None
        self._due_share = SHARE
        self._span: tuple[int, float] | None = None
        self._settles_ns = 0
        self._work_s = 0.0

    @property
    def tries(self) -> bool:
        """Whether it is not decided that this number stays."""
        return self._span is not None

    def ended(self, work_s: float) -> None:
        """Count an instance of a task whose mean is so long."""
        self._work_s += work_s

    def interrupt(self) -> bool:
        """Give a try up; returns whether the number of workers is another now."""
        changed = self.workers != self._kept
        self.workers, self._span, self._spans = self._kept, None, []
        return changed

    def look(self, now_ns: int, longest_s: float) -> bool:
        """Go on; returns whether the number of workers is another now."""
        if self._begun_ns is None:
            self._begun_ns = now_ns
        span_s = max(LEAST_S, INSTANCES * longest_s)
        if self._span is None:
            if self._kept > 1 and SPANS * span_s <= self._due_share * (now_ns - self._begun_ns) * 1e-9:
                self._start(now_ns, 0.0)
            return False
        if now_ns < self._settles_ns:
            self._restart(now_ns)  # what ran with another number of workers is no part of it
            return False
        lasted_s = (now_ns - self._span[0]) * 1e-9
        return lasted_s >= span_s and self._end_span(now_ns, lasted_s, longest_s)

    def _start(self, now_ns: int, longest_s: float) -> None:
        self._settles_ns = now_ns + round(longest_s * 1e9)
        self._restart(now_ns)

    def _restart(self, now_ns: int) -> None:
        self._span, self._work_s = (now_ns, self._read_j()), 0.0

    def _end_span(self, now_ns: int, lasted_s: float, longest_s: float) -> bool:
        if self._span is None or self._work_s <= 0:
            return self.interrupt()
        pace = Pace((self._read_j() - self._span[1]) / self._work_s, lasted_s / self._work_s)
        self._spans.append(pace)
        if self.workers == self._most and (self._fastest is None or pace.time_s < self._fastest.time_s):
            self._fastest = pace
        if len(self._spans) == SPANS:
            return self._decide(now_ns)
        self.workers = (self._kept + 1) // 2 if len(self._spans) == 1 else self._kept
        self._start(now_ns, longest_s)
        return True

    def _decide(self, now_ns: int) -> bool:
        fastest = self._fastest or self._spans[0]
        before, fewer, after = (self._judge(pace, fastest) for pace in self._spans)
        pays = fewer < (1 - self._gain) * min(before, after)
        if pays:
            self._kept = (self._kept + 1) // 2
        else:
            self._due_share /= SHORTER
        self._begun_ns = now_ns if pays else self._begun_ns
        return self.interrupt()
