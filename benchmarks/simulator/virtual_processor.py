"""A package of cores that run a schedule under a law: joules and counts as integrals of step functions.

What a core does changes only where an instance begins or ends on some core, since then the frequency and the load on
the shared cache may change for all. Between two such moments everything is constant, so every integral is exact; only
the warming of the package is followed on a grid of a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.published import TABLES_HZ

from .effects import NO_EFFECTS, Effects
from .power_law import COUNTERS, STATED, Law, Rates, demand_gbs, rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .power_law import Kernel

Floats = NDArray[np.float64]
GRID_S = 1e-3


@dataclass(frozen=True)
class Core:
    """What one core does: instances one after the other, seconds; `task` is an index, (n,) each.

    Attributes
    ----------
    begin_s, end_s : whole nanoseconds.
    scale : of each instance's power, relative to the law's power of its kernel.
    """

    begin_s: Floats
    end_s: Floats
    task: NDArray[np.int64]
    scale: Floats


@dataclass(frozen=True)
class Package:
    """A package under a law.

    Attributes
    ----------
    set_hz : the frequency that was asked for.
    turbo : whether a package at the law's base frequency may run faster.
    effects : what changes powers beside the law.
    """

    law: Law = STATED
    set_hz: float = float(TABLES_HZ)
    turbo: bool = False
    effects: Effects = NO_EFFECTS


@dataclass(frozen=True)
class Run:
    """A schedule on a package until `end_s`; `kernels` are what the tasks of its cores run.

    `seed` is that of effects that are drawn: random walks of powers, bursts that no sample shows.
    """

    package: Package
    kernels: Sequence[Kernel]
    cores: Sequence[Core]
    end_s: float
    seed: int = 0

    @cached_property
    def moments_s(self) -> Floats:
        """Where something changes, (m,)."""
        ends = [np.array([0.0, self.end_s]), *[one.begin_s for one in self.cores], *[one.end_s for one in self.cores]]
        return np.unique(np.concatenate([*ends, self.drift_s, *self._bursts_s]))

    @cached_property
    def drift_s(self) -> Floats:
        """Where powers that drift change: from the begin of the first instance to the end of the last."""
        busy = [one for one in self.cores if len(one.task)]
        if not busy:
            return np.empty(0)
        return self.package.effects.grid_s(min(one.begin_s[0] for one in busy), max(one.end_s[-1] for one in busy))

    @cached_property
    def drift_factor(self) -> Floats:
        """The factor of each task's power from each moment of `drift_s` on: (tasks, n)."""
        part = np.arange(len(self.drift_s)) / max(len(self.drift_s), 1)
        return self.package.effects.drift.factor(len(self.kernels), part, np.random.default_rng((self.seed, 1)))

    @cached_property
    def _bursts_s(self) -> tuple[Floats, Floats]:
        """When hidden bursts begin and end."""
        hidden = self.package.effects.hidden
        if hidden is None:
            return np.empty(0), np.empty(0)
        return hidden.between(0.0, self.end_s, np.random.default_rng((self.seed, 2)))

    def task_at(self, place: int) -> NDArray[np.int64]:
        """Return which task runs on a core from each moment on: (m - 1,), -1 none."""
        return np.asarray(self._numbers[place])

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        rows = zip(self.cores, self.instance, strict=True)
        found = [np.append(core.task, -1)[instance] for core, instance in rows]
        return np.array(found, np.int64).reshape(len(self.cores), len(self.moments_s) - 1)

    @cached_property
    def instance(self) -> NDArray[np.int64]:
        """Which instance runs on each core from each moment on: (cores, m - 1), -1 none."""
        since = self.moments_s[:-1]
        found = np.full((len(self.cores), len(since)), -1, np.int64)
        for row, core in zip(found, self.cores, strict=True):
            if len(core.task):
                last = np.searchsorted(core.begin_s, since, side="right") - 1
                row[:] = np.where((last >= 0) & (core.end_s[last] > since), last, -1)
        return found

    @cached_property
    def busy(self) -> NDArray[np.int64]:
        """How many cores run from each moment on: (m - 1,)."""
        return np.asarray((self.instance >= 0).sum(axis=0))

    @cached_property
    def hz(self) -> Floats:
        """Frequency from each moment on: (m - 1,)."""
        return self.package.law.frequency_hz(self.busy, self.package.set_hz, turbo=self.package.turbo)

    def rates(self, place: int) -> Rates:
        """What a core does from each moment on."""
        number = self.task_at(place)
        others_gbs = self._demand_gbs - demand_gbs(self.package.law, self.kernels, number, self.hz)
        return rates(self.package.law, self.kernels, number, self.hz, np.maximum(others_gbs, 0.0))

    @cached_property
    def dynamic_j(self) -> list[Floats]:
        """Joules of each core up to each moment: (m,) each."""
        return [self._dynamic_j(place) for place in range(len(self.cores))]

    def instances_j(self, place: int) -> Floats:
        """Return dynamic joules of each instance of a core."""
        return self._by_instance(self.cores[place], self.dynamic_j[place])

    def static_shares_j(self, place: int, edges_s: Floats) -> Floats:
        """Return static joules of each instance of a core, by the convention that quanta set.

        Who causes static power is a matter of convention: between two edges each core that runs takes an even share,
        each as far as it is busy, and the rest of one core goes to none.
        """
        edges_s = np.unique(np.concatenate(([0.0], edges_s, [self.end_s])))
        busy_s = np.append(0.0, np.cumsum(self.busy * np.diff(self.moments_s)))
        claimed_s = np.maximum(np.diff(np.interp(edges_s, self.moments_s, busy_s)), np.diff(edges_s))
        per_second = np.diff(self.static_j(edges_s)) / claimed_s
        total_j = np.append(0.0, np.cumsum(per_second * np.diff(edges_s)))
        core = self.cores[place]
        return np.asarray(np.interp(core.end_s, edges_s, total_j) - np.interp(core.begin_s, edges_s, total_j))

    def joules(self, t_s: Floats) -> Floats:
        """Joules drawn by the package up to each time."""
        dynamic_j = np.interp(t_s, self.moments_s, self._all_dynamic_j + self._hidden_j)
        return np.asarray(dynamic_j + self.static_j(t_s))

    def static_j(self, t_s: Floats) -> Floats:
        """Static joules of the package up to each time, what its warmth leaks included."""
        return np.asarray(np.interp(t_s, *self._static))

    def counts(self, place: int, t_s: Floats) -> dict[str, NDArray[np.uint64]]:
        """Return the counters of a core at times at which something changes."""
        done, at = self.rates(place), np.searchsorted(self.moments_s, t_s)
        return {name: np.floor(self._integral(getattr(done, name))[at]).astype(np.uint64) for name in COUNTERS}

    def _dynamic_j(self, place: int) -> Floats:
        power_w = self.rates(place).power_w * np.append(self.cores[place].scale, 0.0)[self.instance[place]]
        if self.package.effects.changes_tasks:
            power_w = power_w * self.package.effects.factor(self, place, self.task_at(place))
        return self._integral(np.asarray(power_w))

    @cached_property
    def _all_dynamic_j(self) -> Floats:
        return sum(self.dynamic_j, np.zeros(len(self.moments_s)))

    @cached_property
    def _hidden_j(self) -> Floats:
        """Joules of hidden bursts up to each moment."""
        hidden = self.package.effects.hidden
        if hidden is None:
            return np.zeros(len(self.moments_s))
        begin_s, end_s = self._bursts_s
        last = np.searchsorted(begin_s, self.moments_s[:-1], side="right") - 1
        on = (last >= 0) & (np.append(end_s, 0.0)[last] > self.moments_s[:-1])
        return self._integral(np.where(on, hidden.power_w, 0.0))

    @cached_property
    def _demand_gbs(self) -> Floats:
        law, places = self.package.law, range(len(self.cores))
        alone = (demand_gbs(law, self.kernels, self.task_at(place), self.hz) for place in places)
        return sum(alone, np.zeros(len(self.hz)))

    @cached_property
    def _static(self) -> tuple[Floats, Floats]:
        """Static joules up to each point of a grid."""
        law = self.package.law
        t_s = np.append(np.arange(0.0, self.end_s, GRID_S), self.end_s)
        static_j = law.static_at_w(self.package.set_hz) * t_s
        if not law.leak:
            return t_s, static_j
        from scipy.signal import lfilter  # noqa: PLC0415 - a second that a simulated machine's programs do without

        power_w = np.diff(np.interp(t_s, self.moments_s, self._all_dynamic_j)) / np.diff(t_s)
        fading = np.exp(-GRID_S / law.warm_s)
        warm_w = lfilter([1 - fading], [1, -fading], power_w)
        return t_s, static_j + np.append(0.0, np.cumsum(law.leak * warm_w * np.diff(t_s)))

    def _integral(self, rate: Floats) -> Floats:
        return np.append(0.0, np.cumsum(rate * np.diff(self.moments_s)))

    def _by_instance(self, core: Core, total: Floats) -> Floats:
        end, begin = np.searchsorted(self.moments_s, core.end_s), np.searchsorted(self.moments_s, core.begin_s)
        return np.asarray(total[end] - total[begin])
