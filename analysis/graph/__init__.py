"""What held a task runtime up: waits, the longest chain of dependences, what each worker lacked."""

from .facts import runtime_facts
from .lifecycle import dependences, lifecycle_columns
from .path import CriticalPath, critical_path
from .starvation import starvation
from .waits import waits

__all__ = ["CriticalPath", "critical_path", "dependences", "lifecycle_columns", "runtime_facts", "starvation", "waits"]
