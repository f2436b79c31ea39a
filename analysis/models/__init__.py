"""Power models: the modelled energy of each segment, by which the sensor's joules are shared."""

from .choice import Chosen, choose_model, needs_fit
from .linear import TABLE_1, Coefficients, Stored, stored_model

__all__ = ["TABLE_1", "Chosen", "Coefficients", "Stored", "choose_model", "needs_fit", "stored_model"]
