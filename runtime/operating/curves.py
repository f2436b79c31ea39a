"""Extends curves from the few explored frequencies to all: a task's time is a + b/f, its power c + d f^k.

The laws are those of `tprof.analysis.operating`, in plain Python for use during a run, and for one curve. Residuals at
the explored frequencies are interpolated, so that the curve passes through the measured points.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.runtime.operating.points import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.runtime.operating.points import Curve

LEAST_POINTS = 3
"""Two do not determine k."""
EXPONENTS = [1 + 0.1 * step for step in range(21)]
EXPONENT, SPREAD = 2.0, 0.5
"""Prior mean and standard deviation of k: it is 1 at constant voltage, 3 if the voltage is proportional to f."""
NOISE = 0.03
"""Relative standard deviation of the measured points, which weighs them against the prior."""
MISFIT = 0.15
"""With a larger relative residual at any explored frequency the law is not used."""


@dataclass(frozen=True)
class _Fit:
    values: Callable[[float], float]
    squares: float


def filled(tried: Curve, frequencies_hz: Sequence[int]) -> Curve:
    """Return the points at these frequencies and at the explored ones; only the latter if no law fits them.

    Frequencies outside the explored range are left out.
    """
    if len(tried) < LEAST_POINTS or min(min(one.time_s, one.energy_j) for one in tried.values()) <= 0:
        return tried
    time = _through({hz: one.time_s for hz, one in tried.items()}, [-1.0])
    power = _through({hz: one.power_w for hz, one in tried.items()}, EXPONENTS)
    if time is None or power is None:
        return tried
    between = {hz for hz in frequencies_hz if min(tried) < hz < max(tried)} - set(tried)
    made = {hz: Point(power(hz) * time(hz), time(hz)) for hz in between}
    return dict(sorted({**made, **tried}.items()))


def _through(seen: Mapping[int, float], exponents: Sequence[float]) -> Callable[[float], float] | None:
    """Return the best law of these exponents through the points; None if a residual is too large."""
    top_hz = max(seen)
    law = min((_fit(seen, k, top_hz) for k in exponents), key=lambda fit: fit.squares).values
    left = {hz: value / law(hz) for hz, value in sorted(seen.items())}
    if any(abs(part - 1) > MISFIT for part in left.values()):
        return None
    return lambda hz: law(hz) * _interpolated(left, hz)


def _fit(seen: Mapping[int, float], k: float, top_hz: int) -> _Fit:
    """Fit a + b (f/f0)^k by least squares of relative errors, with a and b not below 0."""
    rows = [(1 / value, (hz / top_hz) ** k / value) for hz, value in seen.items()]
    flat, both, grown = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    one, other = sum(row[0] for row in rows), sum(row[1] for row in rows)
    spare = flat * grown - both * both
    a, b = ((one * grown - other * both) / spare, (other * flat - one * both) / spare) if spare > 0 else (one / flat, 0)
    if b < 0:
        a, b = one / flat, 0.0
    elif a < 0:
        a, b = 0.0, other / grown
    squares = sum((a * row[0] + b * row[1] - 1) ** 2 for row in rows) / NOISE**2
    likely = ((k - EXPONENT) / SPREAD) ** 2 if k > 0 else 0.0
    return _Fit(lambda hz: a + b * (hz / top_hz) ** k, squares + likely)


def _interpolated(left: Mapping[int, float], hz: float) -> float:
    for (low_hz, low), (high_hz, high) in itertools.pairwise(left.items()):
        if low_hz <= hz <= high_hz:
            return low + (high - low) * (hz - low_hz) / (high_hz - low_hz)
    raise ValueError(hz)
