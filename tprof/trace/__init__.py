"""The trace on disk: written by the recorder or from arrays, and read with all claims checked."""

from __future__ import annotations

from .kinds import EndReason, EventKind, Flag, Kind, Quality

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph import Graph
    from .native import NativeThread
    from .reader import Trace, load
    from .readings import Readings
    from .tasks import TaskEntry
    from .thread import Thread
    from .writer import write_trace

__all__ = [
    "EndReason",
    "EventKind",
    "Flag",
    "Graph",
    "Kind",
    "NativeThread",
    "Quality",
    "Readings",
    "TaskEntry",
    "Thread",
    "Trace",
    "load",
    "write_trace",
]

_FILES = {
    "Graph": "graph",
    "Trace": "reader",
    "load": "reader",
    "NativeThread": "native",
    "Readings": "readings",
    "TaskEntry": "tasks",
    "Thread": "thread",
    "write_trace": "writer",
}


def __getattr__(name: str) -> object:
    """Load the modules with NumPy at first use: NumPy's threads do not belong to a recorded program."""
    if name not in _FILES:
        message = f"module 'tprof.trace' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module  # noqa: PLC0415 - see above

    value = getattr(import_module(f"tprof.trace.{_FILES[name]}"), name)
    globals()[name] = value
    return value
