"""The calibrated model that a trace contains, from the machine it was recorded on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tprof.trace.kinds import Quality
from tprof.trace.power_model import problem_of

from .linear import Coefficients

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Stored:
    """A calibrated model.

    Attributes
    ----------
    coefficients : of equation 1.
    residual_share : the model's own error, as a part of the power; None if it was not measured.
    intervals : 95 % intervals of the coefficients.
    why : its origin, as a clause.
    """

    coefficients: Coefficients
    residual_share: float | None
    intervals: dict[str, Any]
    why: str


def stored_model(model: object) -> tuple[Stored | None, str | None]:
    """Return the model of a manifest, and a warning if the model cannot be used."""
    if model is None:
        return None, None
    problem = problem_of(model)
    if problem is not None or not isinstance(model, dict):
        return None, f"the power model in the trace's manifest was not used: {problem}"
    found = {name: float(value) for name, value in model["coefficients"].items() if isinstance(value, int | float)}
    scales = tuple((float(hz), float(factor)) for hz, factor in model.get("scales", []))
    share = model.get("residual_share")
    intervals = model.get("intervals")
    return Stored(
        Coefficients(found["a"], found["b"], found["c"], found["C1"], found["C2"], scales),
        None if share is None else float(share),
        intervals if isinstance(intervals, dict) else {},
        _origin(model),
    ), None


def _origin(model: Mapping[str, Any]) -> str:
    processor = model.get("processor") or "a processor not named"
    if model.get("quality") == Quality.GIVEN:
        return f"fitted to {model.get('source')}, kept for {processor}, {model.get('date')} (given)"
    return f"calibrated on {processor}, {model.get('date')} ({model.get('source')}, {model.get('quality')})"
