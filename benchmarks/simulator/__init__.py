"""The virtual processor: a package whose true power is known, a sensor like the real one, a trace to attribute."""

from .effects import Beside, Drift, Effects, Hidden
from .power_law import POLYBENCH, STATED, STRESS, Kernel, Law, kernel, redrawn
from .schedule import Mix, Task, length_s, random_mix, side_by_side, stated
from .virtual_processor import Core, Package, Run
from .virtual_sensor import BROADWELL, ICE_LAKE, KNIGHTS_LANDING, Sensor, Truth, truth_of, write

__all__ = [
    "BROADWELL",
    "ICE_LAKE",
    "KNIGHTS_LANDING",
    "POLYBENCH",
    "STATED",
    "STRESS",
    "Beside",
    "Core",
    "Drift",
    "Effects",
    "Hidden",
    "Kernel",
    "Law",
    "Mix",
    "Package",
    "Run",
    "Sensor",
    "Task",
    "Truth",
    "kernel",
    "length_s",
    "random_mix",
    "redrawn",
    "side_by_side",
    "stated",
    "truth_of",
    "write",
]
