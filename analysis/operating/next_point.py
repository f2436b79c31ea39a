"""Which point to measure next, or again: the one after which the choice is expected to lose least.

For each candidate, each of some curves is taken for the truth in turn: the run that it would show reweighs all other
curves, and the choice that follows is held against that curve's own best (the "knowledge gradient"). A point that was
run counts with the noise that as many runs again would have: where chance is what the choice hangs on, it is proposed
again. O(looked at * truths * curves * candidates), some ten million steps.
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
"""What a point may leave of the expected loss to be worth measuring; a smaller gain drowns in the chance of draws."""
LEAST_NOISE = 0.01


@dataclass(frozen=True)
class Next:
    """A point worth measuring.

    Attributes
    ----------
    place : of the candidate.
    loss_after : what the choice is expected to lose, as a part, once it was measured.
    again : whether it was run, and is to be as often again.
    """

    place: int
    loss_after: float
    again: bool = False


def next_point(
    wish: Wish, draws: Draws, chosen: int, *, measured: NDArray[np.bool_], repeat: bool = True
) -> Next | None:
    """Return the candidate to measure next, None where the choice is sure or none would help.

    Parameters
    ----------
    wish, draws, chosen
        As of the choice.
    measured
        (m,) which candidates were run.
    repeat
        Whether these may be run again.
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
    """Return these candidates; of many those that are the best on most curves."""
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
    apart[np.arange(len(truths)), truths] = np.inf  # a curve must not vouch for itself
    weight = np.exp(-0.5 * (apart - apart.min(axis=1, keepdims=True)))
    chosen = np.argmin(weight @ costs / weight.sum(axis=1, keepdims=True), axis=1)
    of_truth = costs[truths]
    return float((of_truth[np.arange(len(truths)), chosen] / of_truth.min(axis=1)).mean() - 1)
