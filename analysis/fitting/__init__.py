"""The `fitted` model: the power of each task from a recording alone, however short its instances."""

from .fitted import Fit, fit_powers

__all__ = ["Fit", "fit_powers"]
