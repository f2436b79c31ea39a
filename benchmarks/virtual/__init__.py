"""The virtual processor: a package whose true power is known, a sensor like the real one, a trace to attribute."""

from .processor import Core, Package, Task, random_mix
from .recorded import Truth, write
from .sensor import BROADWELL, ICE_LAKE, KNIGHTS_LANDING, Sensor

__all__ = [
    "BROADWELL",
    "ICE_LAKE",
    "KNIGHTS_LANDING",
    "Core",
    "Package",
    "Sensor",
    "Task",
    "Truth",
    "random_mix",
    "write",
]
