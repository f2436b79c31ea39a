"""Delays of a task runtime: waits, the longest chain of dependences, starvation of workers."""

from .facts import runtime_facts
from .lifecycle import dependences, lifecycle_columns
from .path import CriticalPath, critical_path
from .starvation import starvation
from .waits import waits

__all__ = ["CriticalPath", "critical_path", "dependences", "lifecycle_columns", "runtime_facts", "starvation", "waits"]
