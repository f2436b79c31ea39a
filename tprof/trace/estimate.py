"""Error factors of an estimate's watts, from the manifest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .bounds import MAX_WATTS, is_between

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 1e6
"""Largest meaningful factor."""


@dataclass(frozen=True)
class WattsError:
    """Error factors of idle watts and of busy cores' watts, in both directions, 95 %; 1: given watts.

    A sensor whose joules may all be off by a part of them has the same factor for both.
    """

    idle: float = 1.0
    busy: float = 1.0

    @property
    def is_none(self) -> bool:
        """Whether the watts are taken as exact."""
        return self.idle == self.busy == 1.0


EXACT = WattsError()


def watts_error(manifest: Mapping[str, Any]) -> WattsError:
    """Return the error of an estimate's watts.

    A recording with assumed watts but without their error gets the error of an unknown processor. Given watts, and
    figures that are not an estimate of this recorder, have none.
    """
    estimate = manifest.get("estimate")
    if not isinstance(estimate, dict):
        return EXACT
    idle, busy = (_factor(estimate.get(name)) for name in ("idle_factor", "per_core_factor"))
    if idle is not None and busy is not None:
        return WattsError(idle, busy)
    if estimate.get("given"):
        return EXACT
    from tprof.sensors.assumed import generic_factors  # noqa: PLC0415 - sensors read the trace's words too

    return WattsError(*generic_factors())


def most_watts(manifest: Mapping[str, Any]) -> float:
    """Return the most that a task of one thread can draw in an estimate: all idle watts and those of one busy core.

    Their errors are not included. Infinite if the manifest holds no estimate of this recorder.
    """
    estimate = manifest.get("estimate")
    watts = [estimate.get(name) for name in ("idle_w", "per_core_w")] if isinstance(estimate, dict) else [None]
    return sum(
        float(value) if isinstance(value, int | float) and is_between(value, 0, MAX_WATTS) else math.inf
        for value in watts
    )


def _factor(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 1 <= value <= MOST else None


def assumed_words(error: WattsError, processor: str | None) -> str:
    """Describe the processor of assumed watts and their error."""
    for_what = f" for {processor}" if processor else ""
    return (
        f"assumed{for_what}: idle watts may be off by a factor of {error.idle:.2g}, busy ones by {error.busy:.2g}; "
        "give yours with --watts IDLE,PER_CORE"
    )
