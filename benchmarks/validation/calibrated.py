"""The calibrated model that is validated: equation 1 fitted to stress kernels on the virtual package."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.models.calibration import fit
from tprof.benchmarks.virtual import STRESS

from .phases import Phases, predicted_w

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis import Coefficients
    from tprof.benchmarks.virtual import Kernel, Package

SEED = 1000


def calibrate(package: Package, kernels: Sequence[Kernel] = STRESS) -> tuple[Coefficients, dict[str, Any]]:
    """Calibrate on stress kernels, none of which is validated; returns the model and how well it fits, plain."""
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        seen = Phases(kernels).observed(Path(folder) / "calibration.tprof", package, seed=SEED)
    calibration = fit(seen)
    model = calibration.coefficients
    error = predicted_w(model, seen) / seen.power_w - 1
    goodness = {
        "a": model.a, "b": model.b, "c": model.c, "C1": model.c1, "C2": model.c2,
        "runs": len(seen), "mean_error": float(np.abs(error).mean()), "worst_error": float(np.abs(error).max()),
        "left_out_error": calibration.goodness.left_out_error,
    }  # fmt: skip
    return model, goodness
