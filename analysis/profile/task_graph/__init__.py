"""Delays of a task runtime: waits, the longest chain of dependences, starvation of workers."""

from .chains import Chain
from .critical_path import CriticalPath, critical_path, path_through
from .dependences import Dependences, dependences
from .instance_keys import InstanceKeys, read_instance_keys
from .instances import Instances, Ran, on_one_clock, read_instances, read_ran
from .lifecycle import lifecycle_columns
from .runtime_events import RuntimeEvents, read_events
from .services import ServedSegments, services_of
from .starvation import starvation
from .waits import runtime_facts, waits

__all__ = [
    "Chain",
    "CriticalPath",
    "Dependences",
    "InstanceKeys",
    "Instances",
    "Ran",
    "RuntimeEvents",
    "ServedSegments",
    "critical_path",
    "dependences",
    "lifecycle_columns",
    "on_one_clock",
    "path_through",
    "read_events",
    "read_instance_keys",
    "read_instances",
    "read_ran",
    "runtime_facts",
    "services_of",
    "starvation",
    "waits",
]
