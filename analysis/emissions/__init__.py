"""Carbon and cost of joules, beside them and only if they are asked for."""

from .footprint import Footprint, Rates, footprint_of, zones

__all__ = ["Footprint", "Rates", "footprint_of", "zones"]
