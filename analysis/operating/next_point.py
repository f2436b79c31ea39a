"""Chooses the point to measure next, or again: the one after which the choice has the least expected loss.

For each candidate, each of some curves is taken as the truth in turn: a simulated run on it reweights all other
curves, and the resulting choice is compared with that curve's own best (the "knowledge gradient"). A point that was
run already counts with the noise of as many further runs, so it is proposed again if noise decides the choice.
O(candidates tried * truths * curves * candidates), some ten million steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .choice import Wish, expected_loss, weighed

if TYPE_CHECKING:
    from .draws import Draws

Floats = NDArray[np.float64]
TRUTHS = 50
MOST_LOOKED = 40
SURE = 0.01
"""An expected loss below this is no reason to measure again."""
HELPS = 0.9
"""Largest remaining part of the expected loss for a proposed point; smaller gains are within the noise of draws."""
LEAST_NOISE = 0.01


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
    wish: Wish, draws: Draws, chosen: int, *, measured: NDArray[np.bool_], repeat: bool = True
) -> Next | None:
    """Return the candidate to measure next; None if the choice is certain or none would help.

    Parameters
    ----------
    wish, draws, chosen
        As of the choice.
    measured
        (m,) marks the candidates that were run.
    repeat
        Whether these may be proposed again.
    """
    costs = weighed(wish, draws)
    loss = expected_loss(costs, chosen)
    looked = _worth_a_look(costs, np.ones_like(measured) if repeat else ~measured)
    if loss < SURE or not looked:
        return None
    losses = {place: _loss_after(costs, draws, place) for place in looked}
    best = min(losses, key=lambda place: losses[place])
    return Next(best, losses[best], bool(measured[best])) if losses[best] <= HELPS * loss else None


def _worth_a_look(costs: Floats, among: NDArray[np.bool_]) -> list[int]:
    """Return these candidates, or if there are many, those that are the best on most curves."""
    places = np.flatnonzero(among)
    best_on = np.bincount(np.argmin(costs, axis=1), minlength=costs.shape[1])[places]
    order = np.argsort(-best_on, kind="stable")[:MOST_LOOKED]
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
