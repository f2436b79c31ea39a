"""The calibrated power model that a manifest may carry: its fields, and whether they can be believed.

    {"format": 1, "processor": "…", "date": "2026-11-20", "tprof": "…", "source": "…", "quality": "measured",
     "coefficients": {"a": …, "b": …, "c": …, "C1": …, "C2": …}, "intervals": {"a": [low, high], …},
     "scales": [[hz, factor], …], "counters": ["instructions", "cycles", …], "residual_share": 0.03, …}

Coefficients are watts per unit of IPC (a), per GB/s of L2 and LLC traffic (b, c), per active core (C1) and of the
package (C2): equation 1 of TProf. The same object is the file that keeps the model for a machine.
"""

from __future__ import annotations

import itertools

from .plain_values import is_finite, shown

FORMAT = 1
MOST = 1e30
"""Of a number in it; energies are products of a few, which a float has to hold."""
COEFFICIENTS = ("a", "b", "c", "C1", "C2")


def problem_of(model: object) -> str | None:
    """Say why this is no power model, or None."""
    if not isinstance(model, dict):
        return "it is no JSON object"
    if model.get("format") != FORMAT:
        return f"its format is {shown(model.get('format'))}, this tprof reads {FORMAT}"
    coefficients = model.get("coefficients")
    if not isinstance(coefficients, dict) or not all(_is_power(coefficients.get(name)) for name in COEFFICIENTS):
        return f"its coefficients are not {', '.join(COEFFICIENTS)}, each finite and 0 or more"
    if not _are_scales(model.get("scales", [])):
        return "its scales are not pairs of a rising frequency and a factor above 0"
    if not (model.get("residual_share") is None or _is_power(model["residual_share"])):
        return "its residual_share is no number of 0 or more"
    return None if _are_names(model.get("counters", [])) else "its counters are no list of names"


def _is_power(value: object) -> bool:
    return is_finite(value) and 0 <= value <= MOST  # type: ignore[operator]


def _are_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _are_scales(scales: object) -> bool:
    if not isinstance(scales, list):
        return False
    for pair in scales:
        if not isinstance(pair, list) or len(pair) != 2 or not all(_is_power(value) and value > 0 for value in pair):
            return False
    return all(one[0] < other[0] for one, other in itertools.pairwise(scales))
