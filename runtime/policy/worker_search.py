"""Searches for the best number of workers while the program runs: it tries half of them, and keeps that if it pays.

A try has three spans: the former number, half, the former number again. Half has to be better than both, so that a
change of the program's speed decides nothing. Work is measured in seconds of the tasks' mean instances, so that spans
with different tasks can be compared. Tries may take a small share of the time so far; a short program has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.analysis.operating_points.goals import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from .power_estimator import ReadEnergy

SHARE = 0.02
"""Share of the time so far that tries may take."""
LEAST_S, INSTANCES = 0.1, 10
"""A span lasts at least this long, and at least this many mean instances of the longest task."""
SPANS = 3
SHORTER = 4
"""After a try that does not pay, `SHARE` is divided by this."""


class WorkerSearch:
    """Chooses the number of active workers; call `on_end` and `poll` whenever a task ends.

    Parameters
    ----------
    most
        The number of all workers.
    span_cost
        Returns the cost of a span, given the fastest so far with all workers.
    read
        Reads the package's energy.
    gain
        Part of the cost that fewer workers have to save.
    """

    def __init__(self, most: int, span_cost: Callable[[Span, Span], float], read: ReadEnergy, gain: float) -> None:
        """Begin with all workers."""
        self.workers = most
        self._most, self._span_cost, self._read, self._gain = most, span_cost, read, gain
        self._kept = most
        self._spans: list[Span] = []
        self._fastest: Span | None = None
        self._begun_ns: int | None = None
        self._due_share = SHARE
        self._span_begin: tuple[int, tuple[int, float]] | None = None
        self._settles_ns = 0
        self._work_s = 0.0

    @property
    def is_trying(self) -> bool:
        """Whether a try is in progress."""
        return self._span_begin is not None

    def on_end(self, work_s: float) -> None:
        """Count an instance of a task whose mean duration is `work_s`."""
        self._work_s += work_s

    def interrupt(self) -> bool:
        """Give a try up; returns whether the number of workers has changed."""
        changed = self.workers != self._kept
        self.workers, self._span_begin, self._spans = self._kept, None, []
        return changed

    def poll(self, now_ns: int, longest_s: float) -> bool:
        """Start, continue or end a try; returns whether the number of workers has changed."""
        if self._begun_ns is None:
            self._begun_ns = now_ns
        span_s = max(LEAST_S, INSTANCES * longest_s)
        if self._span_begin is None:
            if self._kept > 1 and SPANS * span_s <= self._due_share * (now_ns - self._begun_ns) * 1e-9:
                self._start(now_ns, 0.0)
            return False
        if now_ns < self._settles_ns:
            self._restart(now_ns)  # tasks of the former number of workers may still run
            return False
        lasted_s = (now_ns - self._span_begin[0]) * 1e-9
        return lasted_s >= span_s and self._end_span(now_ns, lasted_s, longest_s)

    def _start(self, now_ns: int, longest_s: float) -> None:
        self._settles_ns = now_ns + round(longest_s * 1e9)
        self._restart(now_ns)

    def _restart(self, now_ns: int) -> None:
        self._span_begin, self._work_s = (now_ns, self._read()), 0.0

    def _end_span(self, now_ns: int, lasted_s: float, longest_s: float) -> bool:
        if self._span_begin is None or self._work_s <= 0:
            return self.interrupt()
        (before_ns, before_j), (t_ns, energy_j) = self._span_begin[1], self._read()
        if t_ns <= before_ns:
            return self.interrupt()  # the sensor has shown nothing
        power_w = (energy_j - before_j) / ((t_ns - before_ns) * 1e-9)
        span = Span(power_w * lasted_s / self._work_s, lasted_s / self._work_s)
        self._spans.append(span)
        if self.workers == self._most and (self._fastest is None or span.time_s < self._fastest.time_s):
            self._fastest = span
        if len(self._spans) == SPANS:
            return self._decide(now_ns)
        self.workers = (self._kept + 1) // 2 if len(self._spans) == 1 else self._kept
        self._start(now_ns, longest_s)
        return True

    def _decide(self, now_ns: int) -> bool:
        fastest = self._fastest or self._spans[0]
        before, fewer, after = (self._span_cost(span, fastest) for span in self._spans)
        pays = fewer < (1 - self._gain) * min(before, after)
        if pays:
            self._kept = (self._kept + 1) // 2
        else:
            self._due_share /= SHORTER
        self._begun_ns = now_ns if pays else self._begun_ns
        return self.interrupt()
