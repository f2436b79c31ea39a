"""Chooses the operating point of least expected energy, EDP or ED²P among those that satisfy the conditions.

Also chooses the point to measure next, or again: the one after which the choice has the least expected loss. For each
candidate, each of some curves is taken as the truth in turn: a simulated run on it reweights all other curves, and the
resulting choice is compared with that curve's own best (the "knowledge gradient"). A point that was run already counts
with the noise of as many further runs, so it is proposed again if noise decides the choice. O(candidates tried * truths
* curves * candidates), some ten million steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .goals import delay_product

if TYPE_CHECKING:
    from .draws import Draws

Floats = NDArray[np.float64]
INTERVAL = (2.5, 97.5)
"""Percentiles of the curves between which 95 % of them lie."""
BREACH = 10.0
"""Penalty for breaking a condition by 100 %, when choosing the next point to measure."""
TRUTHS = 50
MOST_TRIED = 40
NEGLIGIBLE_LOSS = 0.01
"""An expected loss below this is no reason to measure again."""
MOST_REMAINING = 0.9
"""Largest remaining part of the expected loss for a proposed point; smaller gains are within the noise of draws."""
LEAST_NOISE = 0.01


@dataclass(frozen=True)
class Objective:
    """The goal and the conditions.

    Attributes
    ----------
    by : "energy", "edp" or "ed2p".
    max_slowdown : relative to the fastest point, 0.05 for 5 %; None: any.
    max_power_w : upper limit of the mean power; None: any.
    certainty : part of the curves on which a chosen point must satisfy the conditions.
    """

    by: str = "energy"
    max_slowdown: float | None = None
    max_power_w: float | None = None
    certainty: float = 0.95


def cost(objective: Objective, draws: Draws) -> Floats:
    """Return the costs by the goal: (draws, m)."""
    return np.asarray(delay_product(objective.by, draws.energy_j, draws.time_s))


def allowed(objective: Objective, draws: Draws) -> NDArray[np.bool_]:
    """Mark candidates that satisfy the conditions with the requested certainty, and did so if they were run: (m,)."""
    may = (_breach(objective, draws.time_s, draws.power_w, fastest(draws)) <= 0).mean(axis=0) >= objective.certainty
    if draws.ran is None:
        return np.asarray(may)
    as_run = _breach(objective, draws.ran.time_s[None], draws.ran.power_w[None], fastest(draws))[0]
    return np.asarray(may & ~(as_run > 0))


def fastest(draws: Draws) -> int:
    """Return the candidate with the least expected time, the reference of slowdowns."""
    return int(np.argmin(draws.time_s.mean(axis=0)))


def slowdown(draws: Draws) -> Floats:
    """Return the relative slowdown of each candidate to the fastest, on each curve: (draws, m)."""
    at = fastest(draws)
    return np.asarray(draws.time_s / draws.time_s[:, at : at + 1] - 1)


def choose(objective: Objective, draws: Draws) -> int | None:
    """Return the candidate of the least expected cost; None if none is allowed."""
    may = allowed(objective, draws)
    if not may.any():
        return None
    return int(np.argmin(np.where(may, cost(objective, draws).mean(axis=0), np.inf)))


def weighed(objective: Objective, draws: Draws) -> Floats:
    """Return costs with penalties for broken conditions: (draws, m), for the value of further measurements."""
    breach = np.maximum(_breach(objective, draws.time_s, draws.power_w, fastest(draws)), 0.0)
    return cost(objective, draws) * (1 + BREACH * breach)


def expected_loss(costs: Floats, chosen: int) -> float:
    """Return the expected relative excess cost of the choice over the best candidate of each curve."""
    return float((costs[:, chosen] / costs.min(axis=1)).mean() - 1)


def front(time_s: Floats, energy_j: Floats) -> NDArray[np.bool_]:
    """Mark the Pareto front of time and energy: (m,).

    Parameters
    ----------
    time_s, energy_j
        (m,)
    """
    order = np.lexsort((energy_j, time_s))
    before = np.append(np.inf, np.minimum.accumulate(energy_j[order])[:-1])
    kept = np.zeros(len(time_s), bool)
    kept[order] = energy_j[order] < before
    return kept


def _breach(objective: Objective, time_s: Floats, power_w: Floats, fastest_at: int) -> Floats:
    """Return the relative violation of the conditions, 0 or less if satisfied: (n, m)."""
    worst = np.zeros_like(time_s)
    if objective.max_slowdown is not None:
        slower = time_s / time_s[:, fastest_at : fastest_at + 1] - 1
        worst = np.fmax(worst, slower - objective.max_slowdown)
    if objective.max_power_w is not None:
        worst = np.fmax(worst, power_w / objective.max_power_w - 1)
    return worst


@dataclass(frozen=True)
class Next:
    """A point to measure.

    Attributes
    ----------
    place : of the candidate.
    loss_after : expected relative loss of the choice after its measurement.
    again : whether it was run already, and is to be run as often again.
    """

    place: int
    loss_after: float
    again: bool = False


def next_point(
    objective: Objective, draws: Draws, chosen: int, *, measured: NDArray[np.bool_], repeat: bool = True
) -> Next | None:
    """Return the candidate to measure next; None if the choice is certain or none would help.

    Parameters
    ----------
    objective, draws, chosen
        As of the choice.
    measured
        (m,) marks the candidates that were run.
    repeat
        Whether these may be proposed again.
    """
    costs = weighed(objective, draws)
    loss = expected_loss(costs, chosen)
    tried = _most_promising(costs, np.ones_like(measured) if repeat else ~measured)
    if loss < NEGLIGIBLE_LOSS or not tried:
        return None
    losses = {place: _loss_after(costs, draws, place) for place in tried}
    best = min(losses, key=lambda place: losses[place])
    return Next(best, losses[best], bool(measured[best])) if losses[best] <= MOST_REMAINING * loss else None


def _most_promising(costs: Floats, among: NDArray[np.bool_]) -> list[int]:
    """Return these candidates, or if there are many, those that are the best on most curves."""
    places = np.flatnonzero(among)
    best_on = np.bincount(np.argmin(costs, axis=1), minlength=costs.shape[1])[places]
    order = np.argsort(-best_on, kind="stable")[:MOST_TRIED]
    return sorted(int(place) for place in places[order])


def _loss_after(costs: Floats, draws: Draws, place: int) -> float:
    truths = np.linspace(0, len(costs) - 1, min(TRUTHS, len(costs))).astype(int)
    apart = np.zeros((len(truths), len(costs)))
    for values, noise in ((draws.time_s, draws.time_noise), (draws.energy_j, draws.energy_noise)):
        seen = np.log(values[:, place])
        at_place = float(np.broadcast_to(noise, values.shape[1])[place])
        apart += ((seen[truths, None] - seen[None, :]) / max(at_place, LEAST_NOISE)) ** 2
    apart[np.arange(len(truths)), truths] = np.inf  # a curve must not confirm itself
    weight = np.exp(-0.5 * (apart - apart.min(axis=1, keepdims=True)))
    chosen = np.argmin(weight @ costs / weight.sum(axis=1, keepdims=True), axis=1)
    of_truth = costs[truths]
    return float((of_truth[np.arange(len(truths)), chosen] / of_truth.min(axis=1)).mean() - 1)
