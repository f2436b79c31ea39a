"""Delays of a task runtime: waits, the longest chain of dependences, starvation of workers."""

from .critical_path import CriticalPath, critical_path
from .keyed import dependences
from .lifecycle import lifecycle_columns
from .starvation import starvation
from .waits import runtime_facts, waits

__all__ = [
    "CriticalPath",
    "critical_path",
    "dependences",
    "lifecycle_columns",
    "runtime_facts",
    "starvation",
    "waits",
]
