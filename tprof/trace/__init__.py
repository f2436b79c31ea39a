"""The trace on disk: written by the recorder or from arrays, and read with all claims checked."""

from __future__ import annotations

from tprof.lazy_names import lazy_names

from .kinds import EndReason, EventKind, Flag, Kind, Quality

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .cluster import ClusterTrace, HostPart
    from .native import NativeCounts, NativeThread
    from .native_calls import PoolCalls
    from .reader import load, load_one, load_session
    from .readings import Readings
    from .stacks import Stacks
    from .sums_trace import SumsTrace
    from .tasks import TaskEntry
    from .thread import Thread
    from .trace import Trace
    from .writer import write_trace

__all__ = [
    "ClusterTrace",
    "EndReason",
    "EventKind",
    "Flag",
    "HostPart",
    "Kind",
    "NativeCounts",
    "NativeThread",
    "PoolCalls",
    "Quality",
    "Readings",
    "Stacks",
    "SumsTrace",
    "TaskEntry",
    "Thread",
    "Trace",
    "load",
    "load_one",
    "load_session",
    "write_trace",
]

# NumPy's threads do not belong to a recorded program.
__getattr__ = lazy_names(
    __name__,
    {
        "ClusterTrace": "cluster",
        "HostPart": "cluster",
        "Trace": "trace",
        "load": "reader",
        "load_one": "reader",
        "load_session": "reader",
        "NativeThread": "native",
        "PoolCalls": "native_calls",
        "NativeCounts": "native",
        "Readings": "readings",
        "Stacks": "stacks",
        "SumsTrace": "sums_trace",
        "TaskEntry": "tasks",
        "Thread": "thread",
        "write_trace": "writer",
    },
)
