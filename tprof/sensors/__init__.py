"""Energy sensors: the interface of a sensor, those that there are, and the choice for a recording."""

from .choose import choose, sysroot
from .contract import (
    Accuracy,
    Choice,
    Domain,
    Estimate,
    EstimateReader,
    FileReader,
    Found,
    Machine,
    PerfReader,
    Quality,
    Quantity,
    Reader,
    Reading,
    Sensor,
    Unavailable,
    Users,
)

__all__ = [
    "Accuracy",
    "Choice",
    "Domain",
    "Estimate",
    "EstimateReader",
    "FileReader",
    "Found",
    "Machine",
    "PerfReader",
    "Quality",
    "Quantity",
    "Reader",
    "Reading",
    "Sensor",
    "Unavailable",
    "Users",
    "choose",
    "sysroot",
]
