"""Explains a choice in sentences: how time and power changed with the setting and the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .choice import Wish, choose
from .conditions import decided

if TYPE_CHECKING:
    from .candidates import Candidates
    from .draws import Draws
    from .measured import Measured

BOUND = 0.8
"""A task is bound by a resource with this share of its time."""
MISSED = 0.1
"""With larger errors of the laws at measured points, predictions are uncertain."""
FAR = 0.25
"""With larger errors, laws are not used."""
FLAT = 0.04
"""Smaller relative changes of power count as none."""


def reason(wish: Wish, measured: Measured, candidates: Candidates, draws: Draws, chosen: int, base: int) -> str:
    """Return a few sentences, relative to the base like the savings.

    They compare the best point without conditions first, then state the cost of the conditions that decide.

    Parameters
    ----------
    wish, measured, candidates, draws, chosen, base
        As of the choice.
    """
    words, free = [], choose(Wish(wish.by), draws)
    best = chosen if free is None else free
    at = candidates.workers == candidates.workers[base]
    if candidates.varies_setting and at.sum() > 1:
        of_unit = _of_frequency if measured.unit == "Hz" else _of_limit
        words.append(of_unit(candidates, draws, best, base))
    if candidates.varies_workers:
        words.append(_of_workers(candidates, draws, best, base))
    words += decided(wish, candidates, draws, chosen, base)
    if draws.missed > MISSED:
        words.append(
            f"No law comes closer than {100 * draws.missed:.0f} % to these points: trust those that were run only."
        )
    return " ".join(words)


def reason_as_run(wish: Wish, candidates: Candidates, draws: Draws, chosen: int, base: int) -> str:
    """Return the reason for offering only measured points; as `reason`."""
    text = (
        f"No law comes closer than {100 * draws.missed:.0f} % to these points: chosen among those that were run only."
    )
    return " ".join([text, *decided(wish, candidates, draws, chosen, base)])


def _of_frequency(candidates: Candidates, draws: Draws, best: int, base: int) -> str:
    low, high, ends = _ends(candidates, draws, base)
    waiting = float(draws.waiting.mean())
    kind = "memory-bound" if waiting >= BOUND else "compute-bound" if waiting <= 1 - BOUND else "between the bounds"
    text = f"{kind.capitalize()}: from the highest frequency to the lowest {ends}"
    setting = candidates.setting
    if setting[best] == setting[high]:
        return f"{text}, which does not pay: race to idle."
    if setting[best] == setting[low]:
        return f"{text}: a lower frequency costs little time." if waiting >= BOUND else f"{text}, which pays."
    return f"{text}; the best lies between."


def _of_limit(candidates: Candidates, draws: Draws, best: int, base: int) -> str:
    low, high, ends = _ends(candidates, draws, base)
    if abs(_change(draws.power_w, low, high)) < FLAT:
        return "The job draws less than the lowest limit: limits change little, and what differs is mostly chance."
    text = f"It draws {draws.power_w[:, high].mean():.0f} W at the highest limit; from there to the lowest {ends}"
    setting = candidates.setting
    if setting[best] == setting[high]:
        return f"{text}, which does not pay."
    return f"{text}, which pays." if setting[best] == setting[low] else f"{text}; the best lies between."


def _of_workers(candidates: Candidates, draws: Draws, best: int, base: int) -> str:
    same_setting = np.isnan(candidates.setting) | (candidates.setting == candidates.setting[base])
    places = np.flatnonzero(same_setting)
    few = int(places[np.argmin(candidates.workers[places])])
    many = int(places[np.argmax(candidates.workers[places])])
    faster = float((draws.time_s[:, few] / draws.time_s[:, many]).mean())
    more = float((draws.power_w[:, many] / draws.power_w[:, few]).mean())
    span = f"from {candidates.workers[few]} to {candidates.workers[many]} workers"
    where = f" at {candidates.named(base, workers=False)}" if candidates.varies_setting else ""
    text = f"{span.capitalize()}{where} it is {faster:.1f} times as fast at {more:.1f} times the power"
    if candidates.workers[best] == candidates.workers[many]:
        return f"{text}: all workers pay."
    if candidates.workers[best] == candidates.workers[few]:
        return f"{text}: more workers draw more than they save."
    return f"{text}; beyond {candidates.workers[best]} they draw more than they save."


def _ends(candidates: Candidates, draws: Draws, base: int) -> tuple[int, int, str]:
    """Return the places of the lowest and highest setting with the base's workers, and a text on the changes."""
    places = np.flatnonzero(candidates.workers == candidates.workers[base])
    values = candidates.setting[places]
    low, high = int(places[np.argmin(values)]), int(places[np.argmax(values)])
    slower, less = _change(draws.time_s, low, high), -_change(draws.power_w, low, high)
    crew = int(candidates.workers[base])
    on = f" on {crew} worker{'' if crew == 1 else 's'}" if candidates.varies_workers else ""
    return low, high, f"the time {_moved(slower)} and the power {_moved(-less)}{on}"


def _moved(change: float) -> str:
    percent = f"{abs(100 * change):.0f}"
    return "stays" if percent == "0" else f"{'grows' if change > 0 else 'falls'} by {percent} %"


def _change(values: np.ndarray, to: int, since: int) -> float:
    return float((values[:, to] / values[:, since]).mean() - 1)
