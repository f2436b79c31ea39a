"""The `fitted` model: the power of each task from a recording alone, however short its instances."""

from .base_fit import Belief
from .powers import Fit, fit_powers

__all__ = ["Belief", "Fit", "fit_powers"]
