"""Power models: what a segment is thought to have drawn, before the sensor's joules are shared by it."""

from .choose import Chosen, choose_model, needs_fit
from .linear import TABLE_1, Coefficients
from .stored import Stored, stored_model

__all__ = ["TABLE_1", "Chosen", "Coefficients", "Stored", "choose_model", "needs_fit", "stored_model"]
