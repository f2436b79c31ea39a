"""Why a point was chosen, in words: what the time did when the setting fell, and what the watts did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .choice import Wish, choose

if TYPE_CHECKING:
    from .candidates import Candidates
    from .draws import Draws
    from .measured import Measured

BOUND = 0.8
"""A task is bound by what takes this share of its time."""
MISSED = 0.1
"""Where laws are off by more at measured points, what they predict is worth little."""
FAR = 0.25
"""Where they are off by more, they are not asked at all."""
FLAT = 0.04
"""A change of power below this counts as none."""


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
            _of_frequency(candidates, draws, chosen) if measured.unit == "Hz" else _of_limit(candidates, draws, chosen)
        )
    if candidates.varies_workers:
        words.append(_of_workers(candidates, draws, chosen))
    words += _of_condition(wish, draws, chosen)
    if draws.missed > MISSED:
        words.append(
            f"No law comes closer than {100 * draws.missed:.0f} % to these points: trust those that were run only."
        )
    return " ".join(words)


def reason_as_run(wish: Wish, draws: Draws, chosen: int) -> str:
    """Return why only points that were run are offered; as `reason`."""
    said = (
        f"No law comes closer than {100 * draws.missed:.0f} % to these points: chosen among those that were run only."
    )
    return " ".join([said, *_of_condition(wish, draws, chosen)])


def _of_condition(wish: Wish, draws: Draws, chosen: int) -> list[str]:
    decides = choose(Wish(wish.by), draws) != chosen
    return ["A condition decides: without it another point would be chosen."] if decides else []


def _of_frequency(candidates: Candidates, draws: Draws, chosen: int) -> str:
    low, high, ends = _ends(candidates.setting, candidates.workers == candidates.workers[chosen], draws)
    waiting = float(draws.waiting.mean())
    kind = "memory-bound" if waiting >= BOUND else "compute-bound" if waiting <= 1 - BOUND else "between the bounds"
    said = f"{kind.capitalize()}: from the highest frequency to the lowest {ends}"
    if chosen == high:
        return f"{said}, which does not pay: race to idle."
    if chosen == low:
        return f"{said}: a lower frequency costs little time." if waiting >= BOUND else f"{said}, which pays."
    return f"{said}; the best lies between."


def _of_limit(candidates: Candidates, draws: Draws, chosen: int) -> str:
    low, high, ends = _ends(candidates.setting, candidates.workers == candidates.workers[chosen], draws)
    if abs(_change(draws.power_w, low, high)) < FLAT:
        return "The job draws less than the lowest limit: limits change little, and what differs is mostly chance."
    said = f"It draws {draws.power_w[:, high].mean():.0f} W at the highest limit; from there to the lowest {ends}"
    if chosen == high:
        return f"{said}, which does not pay."
    return f"{said}, which pays." if chosen == low else f"{said}; the best lies between."


def _of_workers(candidates: Candidates, draws: Draws, chosen: int) -> str:
    alike = np.isnan(candidates.setting) | (candidates.setting == candidates.setting[chosen])
    few, many, _ = _ends(candidates.workers, alike, draws)
    faster = float((draws.time_s[:, few] / draws.time_s[:, many]).mean())
    more = float((draws.power_w[:, many] / draws.power_w[:, few]).mean())
    span = f"from {candidates.workers[few]} to {candidates.workers[many]} workers"
    said = f"{span.capitalize()} it is {faster:.1f} times as fast at {more:.1f} times the power"
    if candidates.workers[chosen] == candidates.workers[many]:
        return f"{said}: all workers pay."
    if candidates.workers[chosen] == candidates.workers[few]:
        return f"{said}: more workers draw more than they save."
    return f"{said}; beyond {candidates.workers[chosen]} they draw more than they save."


def _ends(values: np.ndarray, among: np.ndarray, draws: Draws) -> tuple[int, int, str]:
    """Return the places of the least and the most value, and what happens from the most to the least in words."""
    places = np.flatnonzero(among)
    low, high = int(places[np.argmin(values[places])]), int(places[np.argmax(values[places])])
    slower, less = _change(draws.time_s, low, high), -_change(draws.power_w, low, high)
    return low, high, f"the time {_moved(slower)} and the power {_moved(-less)}"


def _moved(change: float) -> str:
    percent = f"{abs(100 * change):.0f}"
    return "stays" if percent == "0" else f"{'grows' if change > 0 else 'falls'} by {percent} %"


def _change(values: np.ndarray, to: int, since: int) -> float:
    return float((values[:, to] / values[:, since]).mean() - 1)
