"""Runs of tunable intensity, near the processor's peak and near memory's bandwidth."""

from .intensity_runs import Measured, measure
from .thread_team import FULL, QUICK, Extent

__all__ = ["FULL", "QUICK", "Extent", "Measured", "measure"]
