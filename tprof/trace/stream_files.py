"""Where the streams of a session are: for each folder the ending of their names and their kind."""

from __future__ import annotations

from .directory import STACKS
from .kinds import StreamKind

PLACES = {
    "threads": (".samples", StreamKind.SAMPLES),
    "graph": (".events", StreamKind.EVENTS),
    "native": (".native", StreamKind.NATIVE),
    "readings": (".readings", StreamKind.READINGS),
    STACKS: (".stacks", StreamKind.STACKS),
}
