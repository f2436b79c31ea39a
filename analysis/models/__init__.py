"""Power models: from what a segment did to what it took, up to a factor."""

from .choose import NAMES, Chosen, choose_model
from .contract import Model
from .linear import NAMED, Coefficients

__all__ = ["NAMED", "NAMES", "Chosen", "Coefficients", "Model", "choose_model"]
