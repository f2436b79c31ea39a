"""The virtual processor: a package whose true power is known, a sensor like the real one, a trace to attribute."""

from .kernels import POLYBENCH, STRESS, Kernel, kernel, redrawn
from .law import STATED, Law
from .processor import Core, Package, Run
from .recorded import Truth, truth_of, write
from .schedule import Mix, Task, length_s, random_mix, side_by_side, stated
from .sensor import BROADWELL, ICE_LAKE, KNIGHTS_LANDING, Sensor

__all__ = [
    "BROADWELL",
    "ICE_LAKE",
    "KNIGHTS_LANDING",
    "POLYBENCH",
    "STATED",
    "STRESS",
    "Core",
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
