"""Energy sensors: what there is on this machine, and how it is read."""

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
