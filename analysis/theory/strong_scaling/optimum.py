"""The best execution of any algorithm within limits on time, energy and power: section V, by SciPy.

In the logarithms of p and M every range is a polygon, and log T and log E of sums of powers are convex; bounds on
power, E/T, are not. So a grid over the polygon finds where to begin, and sequential quadratic programming goes on from
its best points: O(points of the grid) evaluations at once, then some hundred single ones. p is a real number.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.errors import UsageError

from .distributed_machine import Run, evaluate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .communication import Algorithm
    from .distributed_machine import Machine

# Quantities to bound or minimise, by the names of their values in `Run`.
QUANTITIES = {"energy": "energy_j", "time": "time_s", "edp": "edp_js", "power": "power_w",
              "processor_power": "processor_power_w"}  # fmt: skip

Floats = NDArray[np.float64]
_POINTS = (241, 121)
_STARTS = 4
_SLACK = 1e-7  # of a logarithm: how far a limit may be missed by rounding


@dataclass(frozen=True)
class Limits:
    """Upper bounds; None is none.

    Attributes
    ----------
    time_s, energy_j : of the run.
    power_w : mean power of all processors together.
    processor_power_w : mean power of one processor.

    Raises
    ------
    UsageError
        If a bound is not above 0.
    """

    time_s: float | None = None
    energy_j: float | None = None
    power_w: float | None = None
    processor_power_w: float | None = None

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            if not (math.isfinite(value) and value > 0):
                raise UsageError(f"a bound on {name} must be above 0 and finite, got {value:g}")

    def given(self) -> dict[str, float]:
        """Return the bounds there are."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def without(self, name: str) -> Limits:
        """Return the other bounds."""
        return dataclasses.replace(self, **{name: None})


@dataclass(frozen=True)
class Optimum:
    """The best execution within limits, or the limits that would allow one.

    Attributes
    ----------
    feasible : whether any execution keeps the limits.
    p, memory_words, time_s, energy_j, power_w, gflops_per_w : of the best one; NaN where there is none.
    p_from, p_to : processors that reach the same optimum at this memory; both are `p` where only `p` does.
    nearest : for each limit that was given, the least value of it that the other limits leave possible; without the
        others where they contradict each other. Empty where the limits are feasible.
    """

    feasible: bool
    p: float = math.nan
    memory_words: float = math.nan
    time_s: float = math.nan
    energy_j: float = math.nan
    power_w: float = math.nan
    gflops_per_w: float = math.nan
    p_from: float = math.nan
    p_to: float = math.nan
    nearest: Mapping[str, float] = field(default_factory=dict)

    @property
    def processor_power_w(self) -> float:
        """Mean power of one processor."""
        return self.power_w / self.p

    @property
    def edp_js(self) -> float:
        """Energy times time."""
        return self.energy_j * self.time_s

    def as_plain(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return dataclasses.asdict(self)


def optimum_of(run: Run, p_from: float | None = None, p_to: float | None = None) -> Optimum:
    """Return a single execution as an optimum."""
    p = float(run.p)
    return Optimum(
        feasible=True, p=p, memory_words=float(run.memory_words), time_s=float(run.time_s),
        energy_j=float(run.energy_j), power_w=float(run.power_w), gflops_per_w=float(run.gflops_per_w),
        p_from=p if p_from is None else p_from, p_to=p if p_to is None else p_to,
    )  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """An algorithm of one size on one machine, with the processors there are.

    Attributes
    ----------
    algorithm, machine, n : as in `evaluate`.
    p_range : fewest and most processors; without it all that can hold the data and still use a word of memory each.
    """

    algorithm: Algorithm
    machine: Machine
    n: float
    p_range: tuple[float, float] | None = None

    def ends(self) -> tuple[float, float]:
        """Return the fewest and the most processors. Raises UsageError if there are none."""
        algorithm, copy = self.algorithm, float(self.n) ** self.algorithm.size_power
        fewest = max((copy / self.machine.memory_words) ** (1 / algorithm.least), 1.0)
        most = max(copy ** (1 / algorithm.most), 1.0)
        low, high = self.p_range or (fewest, most)
        if max(low, fewest) > min(high, most) * (1 + 1e-12):
            raise UsageError(
                f"{algorithm.name} with n = {self.n:g} runs on {fewest:.6g} to {most:.6g} processors of "
                f"{self.machine.name}, and none of them is in {low:.6g} to {high:.6g}"
            )
        return max(low, fewest), max(min(high, most), low, fewest)

    def run(self, points: Floats) -> Run:
        """Evaluate at log p and M's place in its range from 0 to 1, along the last axis."""
        p = np.exp(points[..., 0])
        least, most = self.algorithm.memory_range(self.n, p)
        most = np.maximum(np.minimum(most, self.machine.memory_words), least)
        return evaluate(self.algorithm, self.machine, self.n, p, least ** (1 - points[..., 1]) * most ** points[..., 1])


def optimise(problem: Problem, minimise: str = "energy", limits: Limits | None = None) -> Optimum:
    """Find the execution that minimises one quantity within limits.

    Parameters
    ----------
    problem
        What runs where.
    minimise
        ``"energy"``, ``"time"``, ``"edp"``, ``"power"`` or ``"processor_power"``. Of many executions of least energy
        the fastest is returned, with the processors that reach the same.
    limits
        What must be kept.

    Returns
    -------
    Optimum
        Not feasible, with the nearest values that are, where no execution keeps the limits.

    Raises
    ------
    UsageError
        If `minimise` is none of these, or the problem has no execution at all.
    """
    if minimise not in QUANTITIES:
        raise UsageError(f"minimise must be one of {', '.join(QUANTITIES)}, got {minimise!r}")
    limits = limits or Limits()
    point = _search(problem, QUANTITIES[minimise], limits)
    if point is not None:
        return _widest(problem, minimise, limits, point)
    nearest = {}
    for name in limits.given():
        others = _search(problem, name, limits.without(name))
        best = others if others is not None else _search(problem, name, Limits())
        if best is not None:
            nearest[name] = float(getattr(problem.run(best), name))
    return Optimum(feasible=False, nearest=nearest)


def _search(problem: Problem, quantity: str, limits: Limits) -> Floats | None:
    """Return the best point that keeps the limits, or None."""
    low, high = (math.log(end) for end in problem.ends())
    logs, places = np.linspace(low, high, _POINTS[0]), np.linspace(0, 1, _POINTS[1])
    grid = np.stack(np.meshgrid(logs, places, indexing="ij"), axis=-1).reshape(-1, 2)
    run = problem.run(grid)
    excess = np.max([np.zeros(len(grid)), *_excesses(run, limits)], axis=0)
    order = np.lexsort((np.log(getattr(run, quantity)), excess))
    candidates = [grid[order[0]], *(_refined(problem, quantity, limits, grid[at]) for at in _apart(grid, order))]
    kept = [point for point in candidates if _most_excess(problem.run(point), limits) <= _SLACK]
    return min(kept, key=lambda point: float(getattr(problem.run(point), quantity)), default=None)


def _apart(grid: Floats, order: NDArray[np.intp]) -> list[int]:
    """Return the best point and some of the next that are not beside it, so that one valley is not searched twice."""
    chosen = [int(order[0])]
    spread = np.ptp(grid, axis=0) + 1e-300
    for at in order[1:2000]:
        if all(np.max(np.abs(grid[at] - grid[one]) / spread) > 0.1 for one in chosen):
            chosen.append(int(at))
        if len(chosen) == _STARTS:
            break
    return chosen


def _excesses(run: Run, limits: Limits) -> list[Floats]:
    """Return by how much each limit is passed, in logarithms; above 0 is too much."""
    return [np.log(getattr(run, name)) - math.log(value) for name, value in limits.given().items()]


def _most_excess(run: Run, limits: Limits) -> float:
    return max((float(excess) for excess in _excesses(run, limits)), default=0.0)


def _refined(problem: Problem, quantity: str, limits: Limits, start: Floats) -> Floats:
    """Go downhill from a point of the grid; the variables are scaled to 0 to 1."""
    from scipy.optimize import minimize  # noqa: PLC0415 - a quarter of a second that evaluations alone do without

    low, high = (math.log(end) for end in problem.ends())
    scale = np.array([max(high - low, 1e-12), 1.0])
    origin = np.array([low, 0.0])

    def run(x: Floats) -> Run:
        return problem.run(origin + np.clip(x, 0, 1) * scale)

    constraints = [
        {"type": "ineq", "fun": lambda x, name=name, value=value: math.log(value / float(getattr(run(x), name)))}
        for name, value in limits.given().items()
    ]
    found = minimize(
        lambda x: math.log(float(getattr(run(x), quantity))), (start - origin) / scale, method="SLSQP", jac="3-point",
        bounds=[(0, 1), (0, 1)], constraints=constraints, options={"ftol": 1e-15, "maxiter": 300},
    )  # fmt: skip
    point: Floats = origin + np.clip(found.x, 0, 1) * scale
    return point


def _widest(problem: Problem, minimise: str, limits: Limits, point: Floats) -> Optimum:
    """Where energy does not depend on p, move along p to the fastest run that keeps the limits."""
    run = problem.run(point)
    if minimise != "energy" or not problem.algorithm.scales:
        return optimum_of(run)
    memory, work_s = float(run.memory_words), float(run.time_s * run.p)
    low, high = problem.ends()
    fewest, most = (float(end) for end in problem.algorithm.processor_range(problem.n, memory))
    if limits.power_w is not None:
        most = min(most, max(limits.power_w * work_s / float(run.energy_j), float(run.p)))
    if limits.time_s is not None:
        fewest = max(fewest, work_s / limits.time_s)
    fewest, most = min(max(fewest, low), float(run.p)), max(min(most, high), float(run.p))
    best = optimum_of(evaluate(problem.algorithm, problem.machine, problem.n, most, memory))
    return dataclasses.replace(best, p_from=fewest, p_to=most)


def figure_4(
    algorithm: Algorithm, machine: Machine, n: float, limits: Limits | None = None, *,
    p: Floats | None = None, memory_words: Floats | None = None, points: int = 160,
) -> dict[str, Any]:  # fmt: skip
    """Return energy and time over processors and memory, with the possible ones marked.

    Parameters
    ----------
    algorithm, machine, n
        As in `evaluate`.
    limits
        For each that is given the region that keeps it.
    p, memory_words
        The axes; without them p up to n, and memory from the least of the most processors to the most of one.

    Returns
    -------
    dict
        `p` (k,), `memory_words` (j,), `least_words` and `most_words` (k,) the two thick lines, and (j, k) arrays
        `energy_j` and `time_s`, NaN where the algorithm cannot run, and `within`: a bool array for each limit.
    """
    count = np.geomspace(1.0, n, points) if p is None else np.asarray(p, float)
    least, most = algorithm.memory_range(n, count)
    if memory_words is None:
        memory_words = np.geomspace(least.min(), most.max(), points)
    memory = np.asarray(memory_words, float)
    run = evaluate(algorithm, machine, n, count, memory[:, None])
    slack = 1 + 1e-9
    possible = (memory[:, None] * slack >= least) & (memory[:, None] <= most * slack)
    given = (limits or Limits()).given()
    return {
        "p": count,
        "memory_words": memory,
        "least_words": least,
        "most_words": most,
        "energy_j": np.where(possible, run.energy_j, np.nan),
        "time_s": np.where(possible, run.time_s, np.nan),
        "within": {name: possible & (getattr(run, name) <= value) for name, value in given.items()},
    }
