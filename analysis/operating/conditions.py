"""Describes how a choice satisfies the conditions on time and power, in figures and sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .choice import INTERVAL, Wish, allowed, choose, fastest, slowdown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .candidates import Candidates
    from .choice import Floats
    from .draws import Draws


def conditions(wish: Wish, draws: Draws, chosen: int) -> list[dict[str, float | str]]:
    """Return for each condition its limit, the expected value of the choice, the 95 % interval, and its probability."""
    limits = {"slowdown": (wish.max_slowdown, slowdown(draws)), "power_w": (wish.max_power_w, draws.power_w)}
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


def decided(wish: Wish, candidates: Candidates, draws: Draws, chosen: int, base: int) -> list[str]:
    """Return sentences on the conditions at the choice, and on their cost if they changed it."""
    words = []
    for one in conditions(wish, draws, chosen):
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
    free = choose(Wish(wish.by), draws)
    if free is not None and free != chosen:
        energy_j = draws.energy_j
        saved = float(1 - (energy_j[:, free] / energy_j[:, base]).mean())
        words.append(
            f"A condition decides: without it {candidates.named(free)} would be chosen, which saves "
            f"{100 * saved:.1f} % of the energy."
        )
    return words


def none_allowed(wish: Wish, candidates: Candidates, draws: Draws) -> str:
    """Return sentences on conditions that no point satisfies, together and each alone."""
    surely = f"with {100 * wish.sure:g} % certainty"
    if wish.max_power_w is None:
        return f"No operating point keeps to the conditions {surely}."
    cap = f"at most {wish.max_power_w:g} W"
    by_cap = allowed(replace(wish, max_slowdown=None), draws)
    power_w = draws.power_w
    least = f"the least mean power is {_spread(power_w[:, _least(power_w)])} W"
    if wish.max_slowdown is None:
        return f"No operating point keeps to {cap} {surely}; {least}."
    text = f"No operating point keeps to both {cap} and at most {100 * wish.max_slowdown:g} % of extra time {surely}. "
    if not by_cap.any():
        return f"{text}None keeps to the cap alone, either: {least}."
    slower = 100 * slowdown(draws)
    by_time = allowed(replace(wish, max_power_w=None), draws)
    first, thrifty = _least(slower, by_cap), _least(power_w, by_time)
    return (
        f"{text}The cap alone leaves {by_cap.sum()} of {len(by_cap)} points, of which {candidates.named(first)} takes "
        f"the least extra time, {_spread(slower[:, first])} %; the bound on time alone leaves {by_time.sum()}, "
        f"of which {candidates.named(thrifty)} draws the least, {_spread(power_w[:, thrifty])} W."
    )


def _least(values: Floats, among: NDArray[np.bool_] | None = None) -> int:
    """Return the place of the least mean among the marked ones."""
    means = values.mean(axis=0)
    return int(np.argmin(means if among is None else np.where(among, means, np.inf)))


def _spread(values: Floats) -> str:
    low, high = np.percentile(values, INTERVAL)
    return f"{values.mean():.3g} ({low:.3g} … {high:.3g})"
