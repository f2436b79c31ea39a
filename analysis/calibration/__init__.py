"""Calibration: fits a model's coefficients to runs with measured power, and states how good the fit is."""

from .fit import Calibration, fit
from .observations import Observations
from .observe import observe
from .record import as_model

__all__ = ["Calibration", "Observations", "as_model", "fit", "observe"]
