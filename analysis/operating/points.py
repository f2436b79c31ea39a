"""Every candidate for the page and the JSON: measurements where it was run, predictions elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .choice import INTERVAL, Wish, allowed, front
from .measured import NORMAL_95

if TYPE_CHECKING:
    from .candidates import Candidates
    from .choice import Floats
    from .draws import Draws
    from .measured import Measured

UNITS = {"time": "s", "energy": "j", "power": "w"}


def points(wish: Wish, measured: Measured, candidates: Candidates, draws: Draws) -> list[dict[str, Any]]:
    """Return time, energy and mean power of each candidate with 95 % intervals, and its kind.

    A measured point has the means of its runs and the interval of their noise, other points those of the curves.
    """
    columns = {"time": draws.time_s, "energy": draws.energy_j, "power": draws.power_w}
    shown = {name: (values.mean(axis=0), *np.percentile(values, INTERVAL, axis=0)) for name, values in columns.items()}
    places = [measured.at(*pair) for pair in zip(candidates.setting, candidates.workers, strict=True)]
    noises = {"time": measured.time_noise, "energy": measured.energy_noise, "power": measured.power_noise}
    means = {"time": measured.time_s, "energy": measured.energy_j, "power": measured.power_w}
    for here, place in enumerate(places):
        if place is not None:
            for name, values in shown.items():
                for value, end in zip(values, _ends(means[name][place], noises[name][place]), strict=True):
                    value[here] = end
    may, kept = allowed(wish, draws), front(shown["time"][0], shown["energy"][0])
    return [
        _row(shown, here) | {"measured": place is not None, "front": bool(kept[here]), "allowed": bool(may[here])}
        for here, place in enumerate(places)
    ]


def _row(shown: dict[str, tuple[Floats, Floats, Floats]], here: int) -> dict[str, float]:
    row: dict[str, float] = {}
    for name, values in shown.items():
        heads = name, f"{name}_low", f"{name}_high"
        row |= {f"{head}_{UNITS[name]}": float(value[here]) for head, value in zip(heads, values, strict=True)}
    return row


def _ends(value: float, noise: float) -> tuple[float, float, float]:
    factor = float(np.exp(NORMAL_95 * noise))
    return value, value / factor, value * factor
