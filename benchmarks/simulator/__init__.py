"""The virtual processor: a package whose true power is known, a sensor like the real one, a trace to attribute.

The names are imported when they are first used: the process of a simulated machine does without NumPy.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
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

_NAMES = {
    "effects": "Beside Drift Effects Hidden",
    "power_law": "POLYBENCH STATED STRESS Kernel Law kernel redrawn",
    "schedule": "Mix Task length_s random_mix side_by_side stated",
    "virtual_processor": "Core Package Run",
    "virtual_sensor": "BROADWELL ICE_LAKE KNIGHTS_LANDING Sensor Truth truth_of write",
}
__getattr__ = lazy_names(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})
