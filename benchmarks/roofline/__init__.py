"""Runs of tunable intensity, near the processor's peak and near memory's bandwidth."""

from .crew import FULL, QUICK, Effort
from .intensity_runs import Measured, measure

__all__ = ["FULL", "QUICK", "Effort", "Measured", "measure"]
