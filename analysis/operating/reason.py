"""Why a point was chosen, in words: what the time did when the setting fell, and what the watts did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .candidates import Candidates
    from .choice import Wish
    from .draws import Draws
    from .measured import Measured

BOUND = 0.8
"""A task is bound by what takes this share of its time."""
FLAT = 0.02
"""A change of time or power below this counts as none."""


def reason(wish: Wish, measured: Measured, candidates: Candidates, draws: Draws, chosen: int) -> str:
    """Return one or two sentences.

    Parameters
    ----------
    wish, measured, candidates, draws, chosen
        As of the choice.
    """
    words = []
    at = candidates.workers == candidates.workers[chosen]
    if candidates.varies_setting and at.sum() > 1:
        words.append(
            _of_frequency(candidates, draws, chosen) if measured.unit == "Hz" else _of_limit(draws, at, chosen)
        )
    if candidates.varies_workers:
        words.append(_of_workers(candidates, draws, chosen))
    if wish.max_slowdown is not None or wish.max_power_w is not None:
        words.append("Points that break the condition were left out.")
    return " ".join(words)


def _of_frequency(candidates: Candidates, draws: Draws, chosen: int) -> str:
    same = np.flatnonzero(candidates.workers == candidates.workers[chosen])
    low, high = same[np.argmin(candidates.setting[same])], same[np.argmax(candidates.setting[same])]
    slower = _mean_change(draws.time_s, low, high)
    less = -_mean_change(draws.power_w, low, high)
    waiting = float(draws.waiting.mean())
    kind = "memory-bound" if waiting >= BOUND else "compute-bound" if waiting <= 1 - BOUND else "between the two bounds"
    ends = f"from the highest frequency to the lowest the time grows by {slower:.0%} and the power falls by {less:.0%}"
    if chosen == high:
        return f"{kind.capitalize()}: {ends}, which does not pay: race to idle."
    if chosen == low and waiting >= BOUND:
        return f"{kind.capitalize()}: {ends}: a lower frequency costs little time."
    if chosen == low:
        return f"{kind.capitalize()}: {ends}, which pays down to the lowest."
    return f"{kind.capitalize()}: {ends}; below the chosen one the time costs more than the power saves."


def _of_limit(draws: Draws, same: np.ndarray, chosen: int) -> str:
    places = np.flatnonzero(same)
    low, high = places[0], places[-1]
    slower, less = _mean_change(draws.time_s, low, high), -_mean_change(draws.power_w, low, high)
    if abs(less) < 2 * FLAT:
        return "The job draws less than the lowest limit: limits change nothing, and what differs is chance."
    wanted = f"at the highest limit it draws {draws.power_w[:, high].mean():.0f} W"
    ends = f"{wanted}; down to the lowest limit the time grows by {slower:.0%} and the power falls by {less:.0%}"
    if chosen == high:
        return f"Slowed by a limit as much as it saves: {ends}."
    if chosen == low:
        return f"Hardly slowed by a limit: {ends}, which pays down to the lowest."
    return f"Slowed by low limits only: {ends}; below the chosen one the time costs more than the power saves."


def _of_workers(candidates: Candidates, draws: Draws, chosen: int) -> str:
    one = candidates.setting == candidates.setting[chosen]
    same = np.flatnonzero(one | np.isnan(candidates.setting))
    few, many = same[np.argmin(candidates.workers[same])], same[np.argmax(candidates.workers[same])]
    faster = float((draws.time_s[:, few] / draws.time_s[:, many]).mean())
    more = float((draws.power_w[:, many] / draws.power_w[:, few]).mean())
    counts = (
        f"{candidates.workers[few]} to {candidates.workers[many]} workers: {faster:.1f} times as fast at {more:.1f}"
    )
    if chosen == many:
        return f"{counts} times the power: all workers pay."
    if chosen == few:
        return f"{counts} times the power: more workers draw more than they save."
    return f"{counts} times the power: beyond {candidates.workers[chosen]} more workers draw more than they save."


def _mean_change(values: np.ndarray, to: int, since: int) -> float:
    return float((values[:, to] / values[:, since]).mean() - 1)
