"""The calibrated model that is validated: equation 1 fitted to stress kernels on the virtual package."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls
from tprof.analysis import Coefficients
from tprof.benchmarks.virtual import STRESS

from .phases import Phases, observe, predicted_w

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.calibration import Observations
    from tprof.benchmarks.virtual import Kernel, Package

SEED = 1000


def calibrate(package: Package, kernels: Sequence[Kernel] = STRESS) -> tuple[Coefficients, dict[str, Any]]:
    """Calibrate on stress kernels, none of which is validated; returns the model and how well it fits, plain."""
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        seen = observe(Phases(kernels).record(Path(folder) / "calibration.tprof", package, seed=SEED))
    model = _fitted(seen)
    error = predicted_w(model, seen) / seen.power_w - 1
    worth = {
        "a": model.a, "b": model.b, "c": model.c, "C1": model.c1, "C2": model.c2,
        "runs": len(seen), "mean_error": float(np.abs(error).mean()), "worst_error": float(np.abs(error).max()),
    }  # fmt: skip
    return model, worth


def _fitted(seen: Observations) -> Coefficients:
    """Least squares of relative errors, nothing negative."""
    columns = np.column_stack([seen.ipc, seen.l2_gbs, seen.llc_gbs, seen.active_cores, np.ones(len(seen))])
    a, b, c, c1, c2 = nnls(columns / seen.power_w[:, None], np.ones(len(seen)))[0]
    return Coefficients(a=a, b=b, c=c, c1=c1, c2=c2)
