"""Delays of a task runtime: waits, the longest chain of dependences, starvation of workers."""

from .critical_path import CriticalPath, critical_path, path_through
from .instances import Instances, on_one_clock, read_instances
from .keyed import dependences
from .lifecycle import lifecycle_columns
from .path_tables import chain_by, path_facts
from .starvation import starvation
from .waits import runtime_facts, waits

__all__ = [
    "CriticalPath",
    "Instances",
    "chain_by",
    "critical_path",
    "dependences",
    "lifecycle_columns",
    "on_one_clock",
    "path_facts",
    "path_through",
    "read_instances",
    "runtime_facts",
    "starvation",
    "waits",
]
