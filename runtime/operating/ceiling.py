"""A cap on the package's power, kept by looking at its sensor: the highest frequency that is allowed now.

Spans of the sensor differ though nothing was changed, so what counts is the mean since the last change, and how far the
spans stray from each other. A span far above the cap lowers the frequency at once, a mean above it after some spans.
Power is taken to go with the frequency to a power k, at first the cube: the most that it can, so that going up does not
pass the cap; steps that are large enough tell how far power really went. Where spare watts last and no step up seems
safe, one is tried; the more often that passed the cap, the later the next. At the lowest frequency fewer workers are
left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SPAN_S = 0.05
"""The mean of so long is one look at the sensor; a counter that is read over less tells it to a few percent only."""
SPARE = 0.97
"""Part of the cap that a raise aims at."""
WORKED = 0.5
"""Where tasks ran for less than this part of the span, it says nothing of what they draw."""
EXPONENTS = 1.0, 3.0
"""Between these k is believed."""
TELLING = 0.1
"""Of the frequency, in logarithms: smaller steps tell nothing of k."""
PATIENCE = 4, 256
"""So many spans of spare watts come before a step up is tried, and so many where that always passed the cap."""
FAR = 2.0
"""Standard deviations of a span above the cap that need no second one."""
SURE, MOST = 4, 16
"""Spans that are a mean; of more than the second it is a mean of the latest."""
STEADY = 0.2
"""What a new span counts in the deviation."""


class Ceiling:
    """What is allowed, from the package's joules; `look` whenever a task begins or ends.

    Parameters
    ----------
    frequencies_hz
        There are, ascending.
    watts, workers
        The cap, and how many workers there are.
    read_j
        The package's joules so far.
    begins_hz
        Where to begin: the lowest where nothing is known of the tasks.
    quality
        Of the joules, in a word.
    """

    def __init__(
        self,
        frequencies_hz: Sequence[int],
        watts: float,
        workers: int,
        read_j: Callable[[], float],
        begins_hz: int,
        quality: str = "simulated",
    ) -> None:
        """Begin before the first look."""
        self.quality = quality
        self._frequencies_hz, self._watts, self._most, self._read_j = frequencies_hz, watts, workers, read_j
        self.highest_hz, self.workers = begins_hz, workers
        self.drawn_w = 0.0
        self._exponent = EXPONENTS[1]
        self._worker_w: float | None = None
        self._former: tuple[int, int, float] | None = None
        self._raised = False
        self._patience = PATIENCE[0]
        self._spans, self._mean_w, self._variance = 0, 0.0, 0.0
        self._since: tuple[int, float] | None = None
        self._last_ns = 0
        self._worked_s = 0.0

    def look(self, now_ns: int, *, works: bool) -> bool:
        """Hear that tasks ran, or none, since the last look; returns whether something else is allowed now."""
        if self._since is None:
            self._begin(now_ns)
            return False
        self._worked_s += (now_ns - self._last_ns) * 1e-9 if works else 0.0
        self._last_ns = now_ns
        lasted_s = (now_ns - self._since[0]) * 1e-9
        if lasted_s < SPAN_S:
            return False
        before = self._since[1]
        tells = self._worked_s >= WORKED * lasted_s
        self._begin(now_ns)
        return tells and self._judge((self._since[1] - before) / lasted_s)

    def _begin(self, now_ns: int) -> None:
        self._since, self._last_ns, self._worked_s = (now_ns, self._read_j()), now_ns, 0.0

    def _judge(self, drawn_w: float) -> bool:
        former = self.highest_hz, self.workers
        self._add(drawn_w)
        if self._is_above(drawn_w):
            self._patience = min(2 * self._patience, PATIENCE[1]) if self._raised else self._patience
            self._learn()
            self._lower()
        elif self._mean_w + self._doubt_w() < SPARE * self._watts:
            if self._raised and self._spans >= SURE:
                self._raised, self._patience = False, max(self._patience // 2, PATIENCE[0])
            self._learn()
            self._raise(tries=self._spans >= self._patience)
        changed = former != (self.highest_hz, self.workers)
        if changed:
            self._raised = former < (self.highest_hz, self.workers)
            self._former, self._spans = (*former, self._mean_w), 0
        return changed

    def _add(self, drawn_w: float) -> None:
        if self._spans:
            # Of two spans that stray alike the difference strays twice as far.
            self._variance += STEADY * ((drawn_w - self.drawn_w) ** 2 / 2 - self._variance)
        self.drawn_w = drawn_w
        self._mean_w += (drawn_w - self._mean_w) / min(self._spans + 1, MOST)
        self._spans += 1

    def _doubt_w(self) -> float:
        return math.sqrt(self._variance / min(self._spans, MOST))

    def _is_above(self, drawn_w: float) -> bool:
        if drawn_w > self._watts + FAR * math.sqrt(self._variance) and self._mean_w > self._watts:
            return True
        return self._spans >= SURE and self._mean_w > self._watts

    def _learn(self) -> None:
        """See what the last step did, once the mean since is sure."""
        if self._former is None or min(self._mean_w, self._former[2]) <= 0:
            return
        hz, workers, former_w = self._former
        if hz != self.highest_hz and abs(math.log(self.highest_hz / hz)) >= TELLING:
            seen = math.log(self._mean_w / former_w) / math.log(self.highest_hz / hz)
            self._exponent = (self._exponent + min(max(seen, EXPONENTS[0]), EXPONENTS[1])) / 2
        if workers != self.workers:
            self._worker_w = max((self._mean_w - former_w) / (self.workers - workers), 0.0)
        self._former = None

    def _lower(self) -> None:
        lower = [hz for hz in self._frequencies_hz if hz < self.highest_hz]
        if not lower:
            self.workers = max(self.workers - 1, 1)
            return
        wanted_hz = self.highest_hz * (self._watts / self._mean_w) ** (1 / self._exponent)
        self.highest_hz = max((hz for hz in lower if hz <= wanted_hz), default=lower[0])

    def _raise(self, *, tries: bool) -> None:
        aim_w, likely_w = SPARE * self._watts, self._mean_w + self._doubt_w()
        if self.workers < self._most:
            more_w = likely_w / self.workers if self._worker_w is None else self._worker_w
            self.workers += 1 if tries or likely_w + more_w <= aim_w else 0
            return
        wanted_hz = self.highest_hz * (aim_w / max(likely_w, 1e-9)) ** (1 / self._exponent)
        higher = [hz for hz in self._frequencies_hz if hz > self.highest_hz]
        within = [hz for hz in higher if hz <= wanted_hz] or higher[: int(tries)]
        self.highest_hz = within[-1] if within else self.highest_hz
