"""Calibration: from runs whose power was measured to the coefficients of a model, and what they are worth."""

from .fit import Calibration, fit
from .observations import Observations
from .record import as_model

__all__ = ["Calibration", "Observations", "as_model", "fit"]
