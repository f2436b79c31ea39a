"""The `fitted` model: the power of each task from a recording alone, however short its instances."""

from .powers import Belief, Fit, fit_powers

__all__ = ["Belief", "Fit", "fit_powers"]
