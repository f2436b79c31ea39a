"""Chooses the operating point of least expected energy, EDP or ED²P among those that satisfy the conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .draws import Draws

Floats = NDArray[np.float64]
DELAY_POWERS = {"energy": 0, "edp": 1, "ed2p": 2}
"""Goals, with the power of the time by which the energy is multiplied."""
INTERVAL = (2.5, 97.5)
"""Percentiles of the curves between which 95 % of them lie."""
BREACH = 10.0
"""Penalty for breaking a condition by 100 %, when choosing the next point to measure."""


@dataclass(frozen=True)
class Wish:
    """The goal and the conditions.

    Attributes
    ----------
    by : "energy", "edp" or "ed2p".
    max_slowdown : relative to the fastest point, 0.05 for 5 %; None: any.
    max_power_w : upper limit of the mean power; None: any.
    sure : part of the curves on which a chosen point must satisfy the conditions.
    """

    by: str = "energy"
    max_slowdown: float | None = None
    max_power_w: float | None = None
    sure: float = 0.95


def cost(wish: Wish, draws: Draws) -> Floats:
    """Return energy times powers of time: (draws, m)."""
    return np.asarray(draws.energy_j * draws.time_s ** DELAY_POWERS[wish.by])


def allowed(wish: Wish, draws: Draws) -> NDArray[np.bool_]:
    """Mark candidates that satisfy the conditions with the requested certainty, and did so if they were run: (m,)."""
    may = (_breach(wish, draws.time_s, draws.power_w, fastest(draws)) <= 0).mean(axis=0) >= wish.sure
    if draws.ran is None:
        return np.asarray(may)
    as_run = _breach(wish, draws.ran.time_s[None], draws.ran.power_w[None], fastest(draws))[0]
    return np.asarray(may & ~(as_run > 0))


def fastest(draws: Draws) -> int:
    """Return the candidate with the least expected time, the reference of slowdowns."""
    return int(np.argmin(draws.time_s.mean(axis=0)))


def slowdown(draws: Draws) -> Floats:
    """Return the relative slowdown of each candidate to the fastest, on each curve: (draws, m)."""
    at = fastest(draws)
    return np.asarray(draws.time_s / draws.time_s[:, at : at + 1] - 1)


def choose(wish: Wish, draws: Draws) -> int | None:
    """Return the candidate of the least expected cost; None if none is allowed."""
    may = allowed(wish, draws)
    if not may.any():
        return None
    return int(np.argmin(np.where(may, cost(wish, draws).mean(axis=0), np.inf)))


def weighed(wish: Wish, draws: Draws) -> Floats:
    """Return costs with penalties for broken conditions: (draws, m), for the value of further measurements."""
    breach = np.maximum(_breach(wish, draws.time_s, draws.power_w, fastest(draws)), 0.0)
    return cost(wish, draws) * (1 + BREACH * breach)


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


def _breach(wish: Wish, time_s: Floats, power_w: Floats, fastest_at: int) -> Floats:
    """Return the relative violation of the conditions, 0 or less if satisfied: (n, m)."""
    worst = np.zeros_like(time_s)
    if wish.max_slowdown is not None:
        slower = time_s / time_s[:, fastest_at : fastest_at + 1] - 1
        worst = np.fmax(worst, slower - wish.max_slowdown)
    if wish.max_power_w is not None:
        worst = np.fmax(worst, power_w / wish.max_power_w - 1)
    return worst
