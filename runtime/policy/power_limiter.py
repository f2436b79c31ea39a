"""Keeps a cap on the package's power by polling its sensor: limits the frequencies and workers of another strategy.

Readings vary though nothing changes, so the limiter uses the mean since the last change and the spread of the spans. A
span far above the cap lowers the frequency at once, a mean above the cap after some spans. Power is modelled as
proportional to f^k. k begins at 3, the highest possible, so that a raise does not pass the cap; large steps correct k.
If power stays below the cap and the model allows no raise, the limiter tries one step, later each time that a try has
passed the cap. At the lowest frequency it reduces the number of workers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tprof.analysis.operating_points.curves import POWER_EXPONENTS

from .shared_cap import HostPower
from .strategy import Change, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .power_estimator import ReadEnergy
    from .strategy import Entry, Present, Run

SPAN_S = 0.05
"""Length of a span, whose mean is one reading; over a shorter one the counter is accurate to a few percent only."""
SPARE = 0.97
"""Part of the cap that a raise aims at."""
LEAST_BUSY = 0.5
"""A span in which tasks ran for a smaller part is ignored."""
LEAST_STEP = 0.1
"""Smaller steps of the frequency's logarithm do not correct k."""
TRY_AFTER = 4, 256
"""Spans below the cap before a step up is tried, and their number if tries have always passed the cap."""
FAR = 2.0
"""Standard deviations above the cap at which one span lowers the frequency."""
ENOUGH, MOST = 4, 16
"""Spans that make a mean, and those after which it is a mean of the latest."""
SMOOTHING = 0.2
"""Weight of a new span in the variance."""


class PowerLimiter:
    """Limits frequency and workers by the package's energy; call `poll` after each `SPAN_S`.

    Parameters
    ----------
    frequencies_hz
        Those available, ascending.
    watts, workers
        The cap, and the number of workers.
    read
        Reads the package's energy.
    begins_hz
        The first frequency: the lowest if nothing is known of the tasks.
    quality
        Of the joules: "measured", "estimated", …
    """

    def __init__(
        self,
        frequencies_hz: Sequence[int],
        watts: float,
        workers: int,
        read: ReadEnergy,
        begins_hz: int,
        quality: str = "simulated",
    ) -> None:
        """Begin without a reading."""
        self.quality = quality
        self._frequencies_hz, self._watts, self._most, self._read = frequencies_hz, watts, workers, read
        self.highest_hz, self.workers = begins_hz, workers
        self.drawn_w = 0.0
        self._exponent = POWER_EXPONENTS[1]
        self._worker_w: float | None = None
        self._former: tuple[int, int, float] | None = None
        self._raised = False
        self._try_after = TRY_AFTER[0]
        self._spans, self._mean_w, self._variance = 0, 0.0, 0.0
        self._since_ns: int | None = None
        self._busy_ns = self._busy_before_ns = 0
        self._energy = 0, 0.0

    def keep(self, watts: float) -> None:
        """Keep another cap from now on."""
        self._watts = watts

    def state(self) -> HostPower:
        """Return what is known of the power, for a cap that several hosts share."""
        range_hz = self._frequencies_hz[0], self._frequencies_hz[-1]
        return HostPower(self._mean_w, self.highest_hz, range_hz, self._exponent, self.workers, self._busy_ns * 1e-9)

    def poll(self, now_ns: int, busy_ns: int) -> bool:
        """Read the sensor; `busy_ns`: time so far in which tasks ran. Returns whether the limits have changed."""
        self._busy_ns = busy_ns
        if self._since_ns is None:
            self._begin(now_ns)
            return False
        lasted_ns = now_ns - self._since_ns
        if lasted_ns < SPAN_S * 1e9:
            return False
        before_ns, before_j = self._energy
        counts = busy_ns - self._busy_before_ns >= LEAST_BUSY * lasted_ns
        self._begin(now_ns)
        t_ns, energy_j = self._energy
        return counts and t_ns > before_ns and self._evaluate((energy_j - before_j) / ((t_ns - before_ns) * 1e-9))

    def _begin(self, now_ns: int) -> None:
        self._since_ns, self._energy, self._busy_before_ns = now_ns, self._read(), self._busy_ns

    def _evaluate(self, drawn_w: float) -> bool:
        former = self.highest_hz, self.workers
        self._add(drawn_w)
        if self._is_above(drawn_w):
            self._try_after = min(2 * self._try_after, TRY_AFTER[1]) if self._raised else self._try_after
            self._learn()
            self._lower()
        elif self._mean_w + self._uncertainty_w() < SPARE * self._watts:
            if self._raised and self._spans >= ENOUGH:
                self._raised, self._try_after = False, max(self._try_after // 2, TRY_AFTER[0])
            self._learn()
            self._raise(tries=self._spans >= self._try_after)
        changed = former != (self.highest_hz, self.workers)
        if changed:
            self._raised = former < (self.highest_hz, self.workers)
            self._former, self._spans = (*former, self._mean_w), 0
        return changed

    def _add(self, drawn_w: float) -> None:
        if self._spans:
            # The variance of the difference of two spans is twice that of one.
            self._variance += SMOOTHING * ((drawn_w - self.drawn_w) ** 2 / 2 - self._variance)
        self.drawn_w = drawn_w
        self._mean_w += (drawn_w - self._mean_w) / min(self._spans + 1, MOST)
        self._spans += 1

    def _uncertainty_w(self) -> float:
        return math.sqrt(self._variance / min(self._spans, MOST))

    def _is_above(self, drawn_w: float) -> bool:
        if drawn_w > self._watts + FAR * math.sqrt(self._variance) and self._mean_w > self._watts:
            return True
        return self._spans >= ENOUGH and self._mean_w > self._watts

    def _learn(self) -> None:
        """Correct the model by the effect of the last step."""
        if self._former is None or min(self._mean_w, self._former[2]) <= 0:
            return
        hz, workers, former_w = self._former
        if hz != self.highest_hz and abs(math.log(self.highest_hz / hz)) >= LEAST_STEP:
            seen = math.log(self._mean_w / former_w) / math.log(self.highest_hz / hz)
            self._exponent = (self._exponent + min(max(seen, POWER_EXPONENTS[0]), POWER_EXPONENTS[1])) / 2
        if workers != self.workers:
            self._worker_w = max((self._mean_w - former_w) / (self.workers - workers), 0.0)
        self._former = None

    def _lower(self) -> None:
        lower = [hz for hz in self._frequencies_hz if hz < self.highest_hz]
        if not lower:
            self.workers = max(self.workers - 1, 1)
            return
        target_hz = self.highest_hz * (self._watts / self._mean_w) ** (1 / self._exponent)
        self.highest_hz = max((hz for hz in lower if hz <= target_hz), default=lower[0])

    def _raise(self, *, tries: bool) -> None:
        aim_w, likely_w = SPARE * self._watts, self._mean_w + self._uncertainty_w()
        if self.workers < self._most:
            more_w = likely_w / self.workers if self._worker_w is None else self._worker_w
            self.workers += 1 if tries or likely_w + more_w <= aim_w else 0
            return
        target_hz = self.highest_hz * (aim_w / max(likely_w, 1e-9)) ** (1 / self._exponent)
        higher = [hz for hz in self._frequencies_hz if hz > self.highest_hz]
        within = [hz for hz in higher if hz <= target_hz] or higher[: int(tries)]
        self.highest_hz = within[-1] if within else self.highest_hz


class Capped(Strategy):
    """Another strategy's decisions within the limits of a `PowerLimiter`. No task is ignored: each one draws power."""

    reads_sensor = times_tasks = True
    period_ns = round(SPAN_S * 1e9)
    limiter: PowerLimiter

    def __init__(self, limiter: PowerLimiter, inner: Strategy) -> None:
        """Take both."""
        self.name, self.limiter, self._inner = inner.name, limiter, inner
        self.keep_workers(inner.workers)

    def keep_workers(self, workers: int) -> None:
        """Keep this number, within the limit."""
        self._inner.keep_workers(workers)
        self.workers = min(workers, self.limiter.workers)

    def begin(self) -> Change | None:
        """Return the other strategy's first decision."""
        return self._inner.begin()

    def state(self) -> list[Entry]:
        """Return the limit and the other strategy's state."""
        return [self._allowed(self.limiter.highest_hz, "held"), *self._inner.state()]

    def request(self, run: Run, sharing: Sequence[Run], running: Sequence[Run], held_hz: int) -> tuple[int | None, str]:
        """Return the other strategy's frequency, or the highest allowed."""
        hz, why = self._inner.request(run, sharing, running, held_hz)
        if (held_hz if hz is None else hz) <= self.limiter.highest_hz:
            return hz, why
        return self.limiter.highest_hz, "cap"

    def poll(self, present: Present) -> Change | None:
        """Read the sensor; returns a change if the limits have changed."""
        limiter = self.limiter
        former_hz = limiter.highest_hz
        if not limiter.poll(present.now_ns, present.busy_ns):
            return None
        self.workers = min(self._inner.workers, limiter.workers)
        why = f"{limiter.drawn_w:.4g} W drawn, {limiter.quality}"
        return Change(why, [self._allowed(former_hz, why)])

    def _allowed(self, former_hz: int, why: str) -> Entry:
        return {"kind": "allowed", "frequency_hz": self.limiter.highest_hz, "former_hz": former_hz, "why": why}
