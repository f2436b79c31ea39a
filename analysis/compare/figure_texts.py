"""Figures of a comparison in words: both sides with one prefix, changes in percent with intervals, chances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.analysis.quantities import DASH, PREFIXES, at_most, quantity, three_digits

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    Row = Mapping[Any, Any] | pd.Series[Any]

LEVEL = 0.05
"""The largest chance of noise with which a difference is called one."""
MINUS = "\u2212"
UNBOUNDED = "?"
_ARROW = "\u2192"
_PREFIXES = ((1e9, "G"), (1e6, "M"), *PREFIXES)


_RESULTS = {"unclear": "within noise", "unknown": "not decided"}
NOISE = "noise: how probable a difference at least as large would be if nothing had changed"
WITHIN_NOISE = "within noise: this is 5 % or more, so nothing is shown; it does not show that nothing changed"
NO_BOUND = f"{UNBOUNDED}: the ratio has no bound, as A itself may be near zero; more runs narrow it"
NOT_DECIDED = "not decided: a single instance in a single run has no scatter; record several runs a side"


def result(change_: str) -> str:
    """Return the change of a task in the words that are shown."""
    return _RESULTS.get(change_, change_)


def total(row: Row, *, is_judged: bool) -> str:
    """Write the difference of all instances, a side without the task counted as nothing, and whether it is sure."""
    a, b = (0.0 if row[f"instances_{side}"] == 0 else float(row[f"energy_{side}_j"]) for side in "ab")
    found = signed(b - a, "J")
    return f"{found}, {result(str(row['total_change']))}" if is_judged and found != DASH else found


def counts_of(row: Row) -> str:
    """Write how many instances there are on both sides, the mean of the runs; one number where it is the same."""
    a, b = (
        f"{row[f'instances_{side}']:,.4g}" if row[f"instances_{side}"] % 1 else f"{int(row[f'instances_{side}']):,}"
        for side in "ab"
    )
    return a if a == b else f"{a} {_ARROW} {b}"


def pair(row: Row, stem: str, unit: str) -> str:
    """Write a figure of both sides with one prefix: a dash for one not known, what one not resolved is at most."""
    values = [float(row[f"{stem}_{side}_{unit.lower()}"]) for side in "ab"]
    ends = [float(row.get(f"{stem}_at_most_{side}_{unit.lower()}", math.nan)) for side in "ab"]
    shown = [value if math.isnan(end) else end for value, end in zip(values, ends, strict=True)]
    known = [abs(value) for value in shown if not math.isnan(value)]
    if not known:
        return DASH
    fitting = ((factor, prefix) for factor, prefix in _PREFIXES if max(known) >= factor)
    factor, prefix = next(fitting, PREFIXES[-1] if max(known) > 0 else (1.0, ""))
    marks = ["" if math.isnan(end) else "≤ " for end in ends]
    words = [
        DASH if math.isnan(value) else f"{mark}{three_digits(value / factor)}"
        for mark, value in zip(marks, shown, strict=True)
    ]
    return f"{words[0]} {_ARROW} {words[1]} {prefix}{unit}"


def is_at_most(row: Row) -> bool:
    """Return whether the mean energy of a side is not resolved."""
    return any(math.isfinite(row[f"energy_mean_at_most_{side}_j"]) for side in "ab")


def is_unbounded(row: Row, stem: str) -> bool:
    """Return whether the interval of a change lacks an end."""
    ends = float(row[f"{stem}ratio_low"]), float(row[f"{stem}ratio_high"])
    is_known = math.isfinite(row[f"{stem}ratio"]) and math.isfinite(row[f"{stem}chance"])
    return is_known and any(math.isnan(end) for end in ends)


def either(value: float, end: float, unit: str) -> str:
    """Write a figure, a dash where it is not known, or what it is at most where it is not resolved."""
    if math.isfinite(end):
        return at_most(end, unit)
    return DASH if math.isnan(value) else quantity(value, unit)


def change(row: Row, stem: str) -> str:
    """Write the ratio of B to A as a change in percent, with its interval if it has one."""
    ratio, low, high = (float(row[f"{stem}{part}"]) for part in ("ratio", "ratio_low", "ratio_high"))
    if math.isnan(ratio):
        return DASH
    if math.isnan(float(row[f"{stem}chance"])):
        return f"{_percent(ratio)} %"
    ends = [UNBOUNDED if math.isnan(end) else _percent(end) for end in (low, high)]
    return f"{_percent(ratio)} ({' … '.join(ends)}) %"


def _percent(ratio: float) -> str:
    value = 100 * (ratio - 1)
    digits = 0 if abs(value) >= 99.5 else 1
    rounded = round(value, digits)
    return f"{rounded:+,.{digits}f}".replace("-", MINUS) if rounded else f"{0:.{digits}f}"


def chance(value: float) -> str:
    """Write the chance of noise."""
    if math.isnan(value):
        return DASH
    if value < 0.001:
        return "< 0.1 %"
    return f"{100 * value:.0f} %" if value >= 0.0995 else f"{100 * value:.1f} %"


def signed(value: float, unit: str) -> str:
    """Write a difference with its sign."""
    if math.isnan(value):
        return DASH
    sign = MINUS if value < 0 else "+" if value > 0 else ""
    return f"{sign}{quantity(abs(value), unit)}"
