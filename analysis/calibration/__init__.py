"""Calibration: from runs whose power was measured to the coefficients of a model, and what they are worth."""

from .observations import Observations

__all__ = ["Observations"]
