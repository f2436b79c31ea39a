"""The goals: what energy and time cost, and for policies each task's cost at each frequency and the workers.

A task's cost may be in any unit that all tasks of a program share, so that the costs of tasks which share a frequency
can be added. A frequency that a bound forbids costs `FORBIDDEN` times more than one that it allows, and more the
further it exceeds the bound, so that the nearest is taken if none is allowed.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    import numpy as np
    from numpy.typing import NDArray

    from .curves import Curve, Knowledge, Point

    Amount = TypeVar("Amount", float, NDArray[np.float64])

DELAY_POWERS = {"energy": 0, "edp": 1, "ed2p": 2}
"""The power of the time by which the energy is multiplied."""
FORBIDDEN = 1e9
Costs = Mapping[str, Mapping[int, float]]
"""Of an instance of each task, at each frequency in Hz."""


def delay_product(by: str, energy_j: Amount, time_s: Amount) -> Amount:
    """Return energy, energy times time, or energy times time squared, of numbers or arrays."""
    return energy_j * time_s ** DELAY_POWERS[by]


@dataclass(frozen=True)
class Span:
    """A span of a program: its joules and seconds for each second of work."""

    energy_j: float
    time_s: float


@dataclass(frozen=True)
class Choice:
    """A goal's choice.

    Attributes
    ----------
    costs : of an instance of each task at each frequency.
    workers : number of active workers.
    score : of the whole program, the lower the better.
    """

    costs: Costs
    workers: int
    score: float


class Goal(ABC):
    """Minimises a cost, which each subclass defines."""

    name = ""

    def choose(self, known: Mapping[int, Knowledge]) -> Choice:
        """Return the best choice over the known numbers of workers, with the most workers of equals."""
        choices = [self.plan(known[workers], workers) for workers in sorted(known, reverse=True)]
        return min(choices, key=lambda choice: choice.score)

    @abstractmethod
    def plan(self, known: Knowledge, workers: int) -> Choice:
        """Return costs and score with so many workers."""

    @abstractmethod
    def span_cost(self, span: Span, fastest: Span) -> float:
        """Return the cost of a span of the program, given the fastest with all workers."""


@dataclass(frozen=True)
class Energy(Goal):
    """Least energy of every task."""

    name = "energy"

    def plan(self, known: Knowledge, workers: int) -> Choice:
        """Let an instance cost its joules and its part of the package's energy beyond the tasks."""
        second_w = known.outside_w * known.stretch / workers
        costs = _costs(known, lambda point: point.energy_j + second_w * point.time_s)
        return Choice(costs, workers, known.totals(best_of(costs), workers)[0])

    def span_cost(self, span: Span, fastest: Span) -> float:  # noqa: ARG002 - the energy alone counts
        """Return its joules."""
        return span.energy_j


@dataclass(frozen=True)
class Edp(Goal):
    """Least product of the program's energy and time.

    At a price of a second each task takes the frequency that is cheapest for itself, whatever the others take, because
    the program's energy E and time T are sums over its tasks. Prices reach the least product E* T*. At the price
    E*/T* the program costs E + T E*/T*, which is 2 E* for that assignment. An assignment that costs no more has
    E · T E*/T* <= E*², since a product is at most the square of half the sum; so E T <= E* T*, and equality needs the
    same E and T. The assignment is therefore the cheapest at the price E*/T*, and no other E and T is as cheap there.
    It stays the cheapest until a task changes its frequency, which happens at a slope of that task's lower convex hull
    only. One price between each two neighbouring slopes finds it: O(n) prices of O(n) work for n points of all tasks.
    """

    name = "edp"

    def plan(self, known: Knowledge, workers: int) -> Choice:
        """Let an instance cost energy + price * time, at the price that leads to the least product."""
        share = known.stretch / workers
        outside_w = known.outside_w * share
        known = replace(known, curves={task: curve for task, curve in known.curves.items() if _is_finite(curve)})
        spans_w = itertools.pairwise(_edges(known.curves.values(), outside_w))
        found = ((low_w, self._priced(known, workers, (low_w + high_w) / 2)) for low_w, high_w in spans_w)
        low_w, least = min(found, key=lambda one: one[1].score)
        energy_j, time_s = known.totals(best_of(least.costs), workers)
        if time_s <= 0:
            return least
        # All prices from the slope below up to E*/T* lead to the same assignment. Tasks that share a control or wait
        # for each other make the program longer than T*, and its price lower, so the middle of these prices is taken.
        return self._priced(known, workers, (low_w + outside_w + energy_j / time_s * share) / 2)

    def span_cost(self, span: Span, fastest: Span) -> float:  # noqa: ARG002 - the product alone counts
        """Return its energy times its time."""
        return delay_product(self.name, span.energy_j, span.time_s)

    def _priced(self, known: Knowledge, workers: int, second_w: float) -> Choice:
        costs = _costs(known, lambda point: point.energy_j + second_w * point.time_s)
        energy_j, time_s = known.totals(best_of(costs), workers)
        return Choice(costs, workers, delay_product(self.name, energy_j, time_s))


def _edges(curves: Iterable[Curve], least_w: float) -> list[float]:
    """Return the prices at which a task changes its frequency, with the least price before and a higher one after."""
    slopes = {slope for curve in curves for slope in _slopes(curve)}
    edges = [least_w, *sorted(slope for slope in slopes if least_w < slope < math.inf)]
    return [*edges, edges[-1] * 2 + 1.0]


def _slopes(curve: Curve) -> Iterator[float]:
    """Yield the joules that a second saves along a task's lower convex hull, from its fastest point on."""
    here = min(curve.values(), key=lambda point: (point.time_s, point.energy_j))
    while cheaper := [point for point in curve.values() if point.energy_j < here.energy_j]:
        slopes = {point: (here.energy_j - point.energy_j) / (point.time_s - here.time_s) for point in cheaper}
        here = max(cheaper, key=lambda point: (slopes[point], point.time_s, -point.energy_j))
        yield slopes[here]


def _is_finite(curve: Curve) -> bool:
    return all(math.isfinite(point.energy_j + point.time_s) for point in curve.values())


@dataclass(frozen=True)
class MaxSlowdown(Goal):
    """Least energy while no task is slower than at its fastest frequency by more than a share."""

    share: float
    name = "max_slowdown"

    def choose(self, known: Mapping[int, Knowledge]) -> Choice:
        """Leave out numbers of workers with which the whole program exceeds the slowdown."""
        plans = [self.plan(known[workers], workers) for workers in sorted(known, reverse=True)]
        limit_s = (1 + self.share) * min(_fastest_s(known[workers], workers) for workers in known)
        allowed = [
            plan for plan in plans if known[plan.workers].totals(best_of(plan.costs), plan.workers)[1] <= limit_s
        ]
        return min(allowed or plans[:1], key=lambda choice: choice.score)

    def plan(self, known: Knowledge, workers: int) -> Choice:
        """Let an instance cost its joules if it is fast enough."""
        costs = {}
        for task, curve in known.curves.items():
            limit_s = (1 + self.share) * min(point.time_s for point in curve.values())
            costs[task] = {
                hz: point.energy_j if point.time_s <= limit_s else FORBIDDEN * (point.energy_j + point.time_s)
                for hz, point in curve.items()
            }
        return Choice(costs, workers, known.totals(best_of(costs), workers)[0])

    def span_cost(self, span: Span, fastest: Span) -> float:
        """Return its joules if it is fast enough."""
        return span.energy_j if span.time_s <= (1 + self.share) * fastest.time_s else math.inf


def _fastest_s(known: Knowledge, workers: int) -> float:
    fastest = _costs(known, lambda point: point.time_s)
    return known.totals(best_of(fastest), workers)[1]


@dataclass(frozen=True)
class PowerCap(Goal):
    """Least time while the package stays below the cap; each worker may draw an equal part of it."""

    watts: float
    name = "power_cap"

    def plan(self, known: Knowledge, workers: int) -> Choice:
        """Let an instance cost its seconds if its power fits."""
        each_w = (self.watts - known.outside_w) / workers
        costs = {
            task: {
                hz: point.time_s if point.power_w <= each_w else FORBIDDEN * (point.power_w + point.time_s)
                for hz, point in curve.items()
            }
            for task, curve in known.curves.items()
        }
        best = best_of(costs)
        fits = all(costs[task][hz] < FORBIDDEN * known.curves[task][hz].time_s for task, hz in best.items())
        # If nothing fits, fewer workers come nearer to the cap.
        score = known.totals(best, workers)[1] if fits else FORBIDDEN * (1 + workers)
        return Choice(costs, workers, score)

    def span_cost(self, span: Span, fastest: Span) -> float:  # noqa: ARG002 - the sensor keeps the cap
        """Return its seconds."""
        return span.time_s


def best_of(costs: Costs) -> dict[str, int]:
    """Return each task's cheapest frequency, the higher of equals."""
    return {task: min(curve, key=lambda hz: (curve[hz], -hz)) for task, curve in costs.items()}


def _costs(known: Knowledge, cost: Callable[[Point], float]) -> Costs:
    costs = {task: {hz: cost(point) for hz, point in curve.items()} for task, curve in known.curves.items()}
    return {task: curve for task, curve in costs.items() if all(map(math.isfinite, curve.values()))}
