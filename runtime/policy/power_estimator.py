"""Estimates the power of each task at each frequency from the package's energy."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.errors import SensorError
from tprof.sensors.choose import choose
from tprof.session.preparation import energy_source
from tprof.trace.left_out import unread_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path

    ReadEnergy = Callable[[], tuple[int, float]]
    """Returns when the counters changed last, in ns, and the package's joules until then."""

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

WINDOW_S = 0.01
"""Readings are added up over this time: an energy counter is updated once a millisecond."""
SHORTEST_S = 0.002
POLLER_SHARE = 0.01
"""Part of a core that reading the sensor may take while no recording runs."""
PULL_S2 = 1e-5
"""Weight of the even share beside the windows, in core seconds squared: a window of 3 ms."""
FURTHEST = 4.0
"""Powers are limited to the even share times this, and divided by it: few windows may give worse ones."""
MOST_KINDS = 100
"""With more kinds the even share is used: solving takes O(n³), 1 ms for as many."""


class PowerEstimator:
    """Powers of kinds of work (a task at a frequency) from the package's energy while they ran side by side.

    Energy is known up to the last change of the counters, so the estimator keeps what has run since then. Each window
    gives the core seconds of each kind and the package's joules. Powers are the least-squares solution over all
    windows, regularised towards an even share by core time, which is the result for kinds that never ran apart. They
    include a share of the static power, as the package's energy does.
    """

    def __init__(self, read: ReadEnergy, quality: str = "simulated") -> None:
        """Take a function that reads the energy, and its quality."""
        self.read, self.quality = read, quality
        self._last = read()
        self._polled_ns: int | None = None
        self._spans: list[tuple[int, int, tuple[Hashable, ...]]] = []
        """Begin, end and kinds of what has run since the last change of the counters."""
        self._window: defaultdict[Hashable, float] = defaultdict(float)
        self._window_s = self._window_j = 0.0
        self._squares, self._products = np.zeros((MOST_KINDS, MOST_KINDS)), np.zeros(MOST_KINDS)
        self._windows, self._drawn_squares = 0, 0.0
        self._places: dict[Hashable, int] = {}
        self._core_s: list[float] = []
        self._shared_j: list[float] = []

    @property
    def is_paused(self) -> bool:
        """Whether the energy drawn now is attributed to no kind."""
        return self._polled_ns is None

    def pause(self) -> None:
        """Attribute the energy from the last poll to the next one to no kind."""
        self._polled_ns = None
        self._take()
        if not self._spans:
            self._fold()

    def poll(self, now_ns: int, running: Iterable[Hashable]) -> None:
        """Add what ran since the last poll, and all energy that is known now."""
        kinds = tuple(running)
        if self._polled_ns is not None and kinds:
            self._spans.append((self._polled_ns, now_ns, kinds))
        elif not self._spans:
            self._last = self.read()
        self._polled_ns = now_ns
        self._take()

    def _take(self) -> None:
        """Share the energy of the last change of the counters by what ran meanwhile."""
        if not self._spans:
            return
        since_ns, before_j = self._last
        until_ns, now_j = self.read()
        if until_ns <= since_ns:
            return
        self._last = until_ns, now_j
        spans, self._spans = self._spans, []
        for begin_ns, end_ns, kinds in spans:
            lasted_ns = min(end_ns, until_ns) - max(begin_ns, since_ns)
            if lasted_ns > 0:
                self._add(kinds, lasted_ns * 1e-9, (now_j - before_j) * (lasted_ns / (until_ns - since_ns)))
            if end_ns > until_ns:
                self._spans.append((max(begin_ns, until_ns), end_ns, kinds))

    def _add(self, kinds: tuple[Hashable, ...], lasted_s: float, drawn_j: float) -> None:
        self._window_s += lasted_s
        self._window_j += drawn_j
        for kind in kinds:
            self._window[kind] += lasted_s
            place = self._place(kind)
            self._core_s[place] += lasted_s
            self._shared_j[place] += drawn_j / len(kinds)
        if self._window_s >= WINDOW_S:
            self._fold()

    def _place(self, kind: Hashable) -> int:
        place = self._places.setdefault(kind, len(self._core_s))
        if place == len(self._core_s):
            self._core_s.append(0.0)
            self._shared_j.append(0.0)
        return place

    def _fold(self) -> None:
        """Add the window to the equations: O(k²) for the k kinds in it, which are hardly more than workers."""
        if self._window_s >= SHORTEST_S and len(self._places) <= MOST_KINDS:
            self._windows += 1
            self._drawn_squares += self._window_j**2
            places = np.array([self._places[kind] for kind in self._window], int)
            core_s = np.fromiter(self._window.values(), float, len(places))
            self._products[places] += core_s * self._window_j
            self._squares[places[:, None], places] += core_s[:, None] * core_s
        self._window.clear()
        self._window_s = self._window_j = 0.0

    def equations(self) -> Equations:
        """Return a copy of the equations so far, to be solved without a lock; copying `MOST_KINDS` takes some 20 µs."""
        count = len(self._places) if len(self._places) <= MOST_KINDS else 0
        return Equations(
            tuple(self._places),
            np.array(self._core_s),
            np.array(self._shared_j),
            self._squares[:count, :count] + PULL_S2 * np.eye(count),
            self._products[:count].copy(),
            self._windows,
            self._drawn_squares,
        )


@dataclass(frozen=True)
class Equations:
    """The equations of a `PowerEstimator` at some time.

    Attributes
    ----------
    kinds : n kinds of work.
    core_s, shared_j : (n,) their core seconds, and an even share of the joules by these.
    system, products : (n, n) and (n,), of the least squares with the pull to the even share; empty with too many kinds.
    windows, drawn_squares : the number of windows, and the sum of their squared joules.
    """

    kinds: tuple[Hashable, ...]
    core_s: Floats
    shared_j: Floats
    system: Floats
    products: Floats
    windows: int
    drawn_squares: float

    def powers_w(self) -> dict[Hashable, float]:
        """Return the watts of every kind that has run."""
        known = self.core_s > 0
        powers_w = zip(self.kinds, self._solved_w.tolist(), known, strict=True)
        return {kind: power_w for kind, power_w, ran in powers_w if ran}

    @cached_property
    def _solved_w(self) -> Floats:
        even_w = self.shared_j / np.where(self.core_s > 0, self.core_s, 1.0)
        if len(self.products) < len(self.kinds):
            return even_w
        solved_w = np.linalg.solve(self.system, self.products + PULL_S2 * even_w)
        return np.asarray(np.clip(solved_w, even_w / FURTHEST, even_w * FURTHEST))

    def uncertainties(self, asked: Iterable[Hashable]) -> dict[Hashable, float]:
        """Return the relative standard deviations of some kinds' powers, from the residuals of the windows.

        They are 0 if there are too few windows or too many kinds for an estimate.
        """
        found = self._uncertainties
        return {kind: found.get(kind, math.inf) if found else 0.0 for kind in asked}

    @cached_property
    def _uncertainties(self) -> dict[Hashable, float]:
        freedom = self.windows - int(np.count_nonzero(self.core_s))
        if len(self.products) < len(self.kinds) or freedom <= 0:
            return {}
        power_w = self._solved_w
        modelled = power_w @ (self.system - PULL_S2 * np.eye(len(power_w))) @ power_w
        left = max(float(self.drawn_squares - 2 * power_w @ self.products + modelled), 0.0) / freedom
        variance = np.maximum(left * np.diag(np.linalg.inv(self.system)), 0.0)
        relative = np.where(power_w > 0, np.sqrt(variance) / np.where(power_w > 0, power_w, 1.0), np.inf)
        return dict(zip(self.kinds, relative.tolist(), strict=True))


class Meter:
    """The sum of the counted domains of this machine's sensor, as the recorder's sensor thread reads them."""

    def __init__(self, root: Path) -> None:
        """Have the thread read them. Raises SensorError if there are none."""
        choice = choose("auto", root=root)
        if choice.estimate is not None:
            why = "; ".join(unread_sentences(choice.as_json())) or choice.left_out[-1].why
            raise SensorError(
                f"a policy that learns, or caps power, needs the package's energy, and {why} (an "
                "estimate from busy time has the same watts at each frequency): give it what a sweep found on this "
                'machine, profile="sweep.csv"'
            )
        counted = [domain for domain in choice.domains if domain.counted and domain.reader is not None]
        self._observer = _core.EnergyObserver(
            tuple({**energy_source(domain), "file": ""} for domain in counted), POLLER_SHARE
        )
        self.quality = str(counted[0].quality)

    def read(self) -> tuple[int, float]:
        """Return when the counters changed last, in ns, and the joules from the beginning until then."""
        t_ns, energy_uj = self._observer.read()
        return t_ns, energy_uj * 1e-6

    def close(self) -> None:
        """End the reading."""
        self._observer.close()
