"""Energy sensors: detection on this machine, and descriptions for the reader."""

from .choose import choose, sysroot
from .contract import Choice, Domain, Estimate, EstimateReader, FileReader, PerfReader, Quality

__all__ = [
    "Choice",
    "Domain",
    "Estimate",
    "EstimateReader",
    "FileReader",
    "PerfReader",
    "Quality",
    "choose",
    "sysroot",
]
