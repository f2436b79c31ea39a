"""Calibration: fits a model's coefficients to runs with measured power, and states how good the fit is."""

from .equation_1 import Calibration, as_model, fit
from .observations import Observations, observe

__all__ = ["Calibration", "Observations", "as_model", "fit", "observe"]
