"""Delays of a task runtime: waits, the longest chain of dependences, starvation of workers."""

from .critical_path import CriticalPath, critical_path, path_through
from .dependences import dependences
from .events import InstanceKeys, RuntimeEvents, lifecycle_columns, read_events, read_instance_keys
from .instances import Instances, on_one_clock, read_instances
from .workers import ServedSegments, Service, runtime_facts, services_of, starvation, waits

__all__ = [
    "CriticalPath",
    "InstanceKeys",
    "Instances",
    "RuntimeEvents",
    "ServedSegments",
    "Service",
    "critical_path",
    "dependences",
    "lifecycle_columns",
    "on_one_clock",
    "path_through",
    "read_events",
    "read_instance_keys",
    "read_instances",
    "runtime_facts",
    "services_of",
    "starvation",
    "waits",
]
