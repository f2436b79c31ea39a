"""The trace on disk: written by the recorder or from arrays, read with nothing believed that is not there."""

from .layout import EndReason, Flag, Kind, Quality
from .reader import Trace, load
from .readings import Readings
from .tasks import TaskEntry
from .thread import Thread
from .writer import write_trace

__all__ = [
    "EndReason",
    "Flag",
    "Kind",
    "Quality",
    "Readings",
    "TaskEntry",
    "Thread",
    "Trace",
    "load",
    "write_trace",
]
