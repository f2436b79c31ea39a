"""The finding about the stored power model of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.sensors.advice import Remedy
from tprof.sensors.processor import describe_host
from tprof.trace.kinds import Quality
from tprof.trace.plain_values import is_finite
from tprof.trace.power_model import read_model

from .fact import Fact, State

if TYPE_CHECKING:
    from pathlib import Path

CALIBRATE = (Remedy("tprof calibrate"),)


def model_facts(path: Path | None = None) -> tuple[Fact, ...]:
    """Return whether there is a calibrated model, its date and its error; `path` is that of the model."""
    model, note = read_model(describe_host()["processor"], path)
    if note is not None:
        return (Fact("calibrated model", State.LIMITED, note, CALIBRATE),)
    if model is None:
        why = "none is kept for this machine: powers are fitted to each recording, or all busy cores count alike"
        return (Fact("calibrated model", State.MISSING, why, CALIBRATE),)
    error = model.get("left_out_error")
    off = f", {100 * float(error):.1f} % off on kernels left out" if error is not None and is_finite(error) else ""
    # A table may come from another machine than the one it is stored for.
    how = (
        f"from {model.get('source')}, {model.get('quality')}"
        if model.get("quality") == Quality.GIVEN
        else model.get("quality")
    )
    return (Fact("calibrated model", State.OK, f"of {model.get('date')} ({how}){off}"),)
