"""Explains a choice: how time and power change with the setting and the workers, and how conditions are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tprof.trace.plain_values import counted

from .choice import INTERVAL, Objective, allowed, choose, fastest, slowdown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .candidates import Candidates
    from .choice import Floats
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


def reason(
    objective: Objective, measured: Measured, candidates: Candidates, draws: Draws, chosen: int, base: int
) -> str:
    """Return a few sentences, relative to the base like the savings.

    They compare the best point without conditions first, then state the cost of the conditions that decide.

    Parameters
    ----------
    objective, measured, candidates, draws, chosen, base
        As of the choice.
    """
    words, free = [], choose(Objective(objective.by), draws)
    best = chosen if free is None else free
    at = candidates.workers == candidates.workers[base]
    if candidates.varies_setting and at.sum() > 1:
        of_unit = _of_frequency if measured.unit == "Hz" else _of_limit
        words.append(of_unit(candidates, draws, best, base))
    if candidates.varies_workers:
        words.append(_of_workers(candidates, draws, best, base))
    words += decided(objective, candidates, draws, chosen, base)
    if draws.missed > MISSED:
        words.append(
            f"No law comes closer than {100 * draws.missed:.0f} % to these points: trust those that were run only."
        )
    return " ".join(words)


def reason_as_run(objective: Objective, candidates: Candidates, draws: Draws, chosen: int, base: int) -> str:
    """Return the reason for offering only measured points; as `reason`."""
    text = (
        f"No law comes closer than {100 * draws.missed:.0f} % to these points: chosen among those that were run only."
    )
    return " ".join([text, *decided(objective, candidates, draws, chosen, base)])


def conditions(objective: Objective, draws: Draws, chosen: int) -> list[dict[str, float | str]]:
    """Return for each condition its limit, the expected value of the choice, the 95 % interval, and its probability."""
    limits = {"slowdown": (objective.max_slowdown, slowdown(draws)), "power_w": (objective.max_power_w, draws.power_w)}
    found: list[dict[str, float | str]] = []
    for name, (limit, values) in limits.items():
        if limit is not None:
            here = values[:, chosen]
            low, high = np.percentile(here, INTERVAL)
            found.append(
                {"of": name, "limit": limit, "mean": float(here.mean()), "low": float(low), "high": float(high),
                 "kept": float((here <= limit).mean())}
            )  # fmt: skip
    return found


def decided(objective: Objective, candidates: Candidates, draws: Draws, chosen: int, base: int) -> list[str]:
    """Return sentences on the conditions at the choice, and on their cost if they changed it."""
    words = []
    for one in conditions(objective, draws, chosen):
        mean, low, high, limit = (float(one[name]) for name in ("mean", "low", "high", "limit"))
        kept = f"is kept on {100 * float(one['kept']):.0f} % of the curves"
        if one["of"] == "power_w":
            words.append(f"Mean power there {mean:.3g} W ({low:.3g} … {high:.3g} W); the cap of {limit:g} W {kept}.")
        else:
            against = candidates.named(fastest(draws))
            words.append(
                f"Extra time there against the fastest, {against}: {100 * mean:.1f} % ({100 * low:.1f} … "
                f"{100 * high:.1f} %); the bound of {100 * limit:g} % {kept}."
            )
    free = choose(Objective(objective.by), draws)
    if free is not None and free != chosen:
        energy_j = draws.energy_j
        saved = float(1 - (energy_j[:, free] / energy_j[:, base]).mean())
        words.append(
            f"A condition decides: without it {candidates.named(free)} would be chosen, which saves "
            f"{100 * saved:.1f} % of the energy."
        )
    return words


def none_allowed(objective: Objective, candidates: Candidates, draws: Draws) -> str:
    """Return sentences on conditions that no point satisfies, together and each alone."""
    certainty = f"with {100 * objective.certainty:g} % certainty"
    if objective.max_power_w is None:
        return f"No operating point keeps to the conditions {certainty}."
    cap = f"at most {objective.max_power_w:g} W"
    by_cap = allowed(replace(objective, max_slowdown=None), draws)
    power_w = draws.power_w
    least = f"the least mean power is {_spread(power_w[:, _least(power_w)])} W"
    if objective.max_slowdown is None:
        return f"No operating point keeps to {cap} {certainty}; {least}."
    bound = f"at most {100 * objective.max_slowdown:g} % of extra time"
    text = f"No operating point keeps to both {cap} and {bound} {certainty}. "
    if not by_cap.any():
        return f"{text}None keeps to the cap alone, either: {least}."
    slower = 100 * slowdown(draws)
    by_time = allowed(replace(objective, max_power_w=None), draws)
    first, thrifty = _least(slower, by_cap), _least(power_w, by_time)
    return (
        f"{text}The cap alone leaves {by_cap.sum()} of {len(by_cap)} points, of which {candidates.named(first)} takes "
        f"the least extra time, {_spread(slower[:, first])} %; the bound on time alone leaves {by_time.sum()}, "
        f"of which {candidates.named(thrifty)} draws the least, {_spread(power_w[:, thrifty])} W."
    )


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
    span = f"from {candidates.workers[few]} to {counted(candidates.workers[many], 'worker')}"
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
    on = f" on {counted(crew, 'worker')}" if candidates.varies_workers else ""
    return low, high, f"the time {_moved(slower)} and the power {_moved(-less)}{on}"


def _moved(change: float) -> str:
    percent = f"{abs(100 * change):.0f}"
    return "stays" if percent == "0" else f"{'grows' if change > 0 else 'falls'} by {percent} %"


def _change(values: np.ndarray, to: int, since: int) -> float:
    return float((values[:, to] / values[:, since]).mean() - 1)


def _least(values: Floats, among: NDArray[np.bool_] | None = None) -> int:
    """Return the place of the least mean among the marked ones."""
    means = values.mean(axis=0)
    return int(np.argmin(means if among is None else np.where(among, means, np.inf)))


def _spread(values: Floats) -> str:
    low, high = np.percentile(values, INTERVAL)
    return f"{values.mean():.3g} ({low:.3g} … {high:.3g})"
