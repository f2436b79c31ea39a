"""Runs of tunable intensity, near the processor's peak and near memory's bandwidth."""

from .effort import FULL, QUICK, Effort
from .measure import Measured, measure

__all__ = ["FULL", "QUICK", "Effort", "Measured", "measure"]
