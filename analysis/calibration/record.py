"""A calibration as plain values: stored for a machine and printed by `--json`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.trace.power_model import FORMAT

if TYPE_CHECKING:
    from .fit import Calibration
    from .goodness_of_fit import GoodnessOfFit


def as_model(
    calibration: Calibration, *, processor: str | None, date: str, version: str, source: str, quality: str
) -> dict[str, Any]:
    """Return the model as `tprof.trace.power_model` describes it, with the goodness of its fit.

    Parameters
    ----------
    calibration
        The fit.
    processor
        Of the machine on which the watts were measured; None where a table does not name it.
    date, version
        The day of the fit, and the tprof that made it.
    source
        Where the runs come from: "tprof calibrate" or a table's name.
    quality
        Of the watts: measured, simulated or given.
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
        **goodness_as_plain(calibration.goodness),
    }


def goodness_as_plain(goodness: GoodnessOfFit) -> dict[str, Any]:
    """Return errors, intervals and warnings; NaN and infinity become None."""
    return {
        "r2": _known(goodness.r2),
        "error": _known(goodness.error),
        "left_out_error": _known(goodness.left_out_error),
        "mean_error": _known(goodness.mean_error),
        "residual_share": _known(goodness.residual_share),
        "intervals": {name: list(pair) for name, pair in goodness.intervals.items()},
        "inflation": {name: _known(factor) for name, factor in goodness.inflation.items()},
        "warnings": list(goodness.warnings),
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
