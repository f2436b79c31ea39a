"""The calibrated power model in a manifest: its fields, and the check of their plausibility.

    {"format": 1, "processor": "…", "date": "2026-11-20", "tprof": "…", "source": "…", "quality": "measured",
     "coefficients": {"a": …, "b": …, "c": …, "C1": …, "C2": …}, "intervals": {"a": [low, high], …},
     "scales": [[hz, factor], …], "counters": ["instructions", "cycles", …], "residual_share": 0.03, …}

Coefficients are watts per unit of IPC (a), per GB/s of L2 and LLC traffic (b, c), per active core (C1) and of the
package (C2): equation 1 of TProf. The file with a machine's model has the same format.
"""

from __future__ import annotations

import itertools

from .bounds import MAX_HZ, MAX_SCALE, MAX_WATTS, is_between
from .plain_values import is_finite, shown

FORMAT = 1
COEFFICIENTS = ("a", "b", "c", "C1", "C2")


def problem_of(model: object) -> str | None:
    """Return the reason why this is not a valid power model, or None."""
    if not isinstance(model, dict):
        return "it is no JSON object"
    if model.get("format") != FORMAT:
        return f"its format is {shown(model.get('format'))}, this tprof reads {FORMAT}"
    coefficients, share = model.get("coefficients"), model.get("residual_share")
    factors = f"{1 / MAX_SCALE:g} to {MAX_SCALE:g}"
    rules = {
        f"its coefficients are not {', '.join(COEFFICIENTS)}, each from 0 to {MAX_WATTS:g} watts": (
            isinstance(coefficients, dict) and all(_is_power(coefficients.get(name)) for name in COEFFICIENTS)
        ),
        f"its scales are not pairs of a rising frequency, to {MAX_HZ:g} Hz, and a factor of {factors}": (
            _are_scales(model.get("scales", []))
        ),
        f"its residual_share is no number from 0 to {MAX_SCALE:g}": share is None or is_between(share, 0, MAX_SCALE),
        "its intervals are not pairs of finite numbers by coefficient": _are_intervals(model.get("intervals") or {}),
        "its counters are no list of names": _are_names(model.get("counters", [])),
    }
    return next((why for why, sound in rules.items() if not sound), None)


def _is_power(value: object) -> bool:
    return is_between(value, 0, MAX_WATTS)


def _are_intervals(intervals: object) -> bool:
    return isinstance(intervals, dict) and all(
        isinstance(pair, list) and len(pair) == 2 and all(map(is_finite, pair)) for pair in intervals.values()
    )


def _are_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _are_scales(scales: object) -> bool:
    if not isinstance(scales, list):
        return False
    for pair in scales:
        if not isinstance(pair, list) or len(pair) != 2:
            return False
        if not (is_between(pair[0], 1, MAX_HZ) and is_between(pair[1], 1 / MAX_SCALE, MAX_SCALE)):
            return False
    return all(one[0] < other[0] for one, other in itertools.pairwise(scales))
