"""The trace on disk: written by the recorder or from arrays, and read with all claims checked."""

from __future__ import annotations

from tprof.lazy_names import lazy_names

from .kinds import EndReason, EventKind, Flag, Kind, Quality

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .graph import Graph
    from .native import NativeThread
    from .native_calls import PoolCalls
    from .native_counts import NativeCounts
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
    "NativeCounts",
    "NativeThread",
    "PoolCalls",
    "Quality",
    "Readings",
    "TaskEntry",
    "Thread",
    "Trace",
    "load",
    "write_trace",
]

# NumPy's threads do not belong to a recorded program.
__getattr__ = lazy_names(
    __name__,
    {
        "Graph": "graph",
        "Trace": "reader",
        "load": "reader",
        "NativeThread": "native",
        "PoolCalls": "native_calls",
        "NativeCounts": "native_counts",
        "Readings": "readings",
        "TaskEntry": "tasks",
        "Thread": "thread",
        "write_trace": "writer",
    },
)
