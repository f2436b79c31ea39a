"""A calibration as plain values: what is kept for a machine and what `--json` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.trace.power_model import FORMAT

if TYPE_CHECKING:
    from .fit import Calibration
    from .worth import Worth


def as_model(
    calibration: Calibration, *, processor: str | None, date: str, version: str, source: str, quality: str
) -> dict[str, Any]:
    """Return the model as `tprof.trace.power_model` describes it, with what it is worth.

    Parameters
    ----------
    calibration
        What was fitted.
    processor
        That of the machine the watts were measured on; None where a table does not say.
    date, version
        The day of the fit, and the tprof that made it.
    source
        What it was fitted to: "tprof calibrate" or a table's name.
    quality
        How the watts were got: measured, simulated, given.
    """
    found = calibration.coefficients
    return {
        "format": FORMAT,
        "processor": processor,
        "date": date,
        "tprof": version,
        "source": source,
        "quality": quality,
        "coefficients": {"a": found.a, "b": found.b, "c": found.c, "C1": found.c1, "C2": found.c2},
        "scales": [list(pair) for pair in found.scales],
        "counters": list(found.columns),
        "hz": calibration.hz,
        "other_frequencies": [
            {"hz": one.hz, "core": one.core, "package_w": one.package_w} for one in calibration.other_frequencies
        ],
        "idle_w": calibration.idle_w,
        "runs": calibration.runs,
        "kernels": calibration.kernels,
        "left_out": list(calibration.left_out),
        **worth_as_plain(calibration.worth),
    }


def worth_as_plain(worth: Worth) -> dict[str, Any]:
    """Return errors, intervals and warnings; what is not a number is None."""
    return {
        "r2": _known(worth.r2),
        "error": _known(worth.error),
        "left_out_error": _known(worth.left_out_error),
        "mean_error": _known(worth.mean_error),
        "residual_share": _known(worth.residual_share),
        "intervals": {name: list(pair) for name, pair in worth.intervals.items()},
        "inflation": {name: _known(factor) for name, factor in worth.inflation.items()},
        "warnings": list(worth.warnings),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
