"""The enumerations of the format; without NumPy, which recording does not need."""

from collections.abc import Collection
from enum import IntEnum, IntFlag, StrEnum


class StreamKind(IntEnum):
    """Content of a file."""

    SAMPLES = 1
    READINGS = 2
    EVENTS = 3
    NATIVE = 4
    STACKS = 5


class Omission(StrEnum):
    """Why joules are in no total."""

    BY_DESIGN = "by design"
    """They are among others that count, or are not wanted."""
    UNREADABLE = "unreadable"
    """Their sensor is there, and cannot be read or does not count: the total lacks them."""
    ABSENT = "absent"
    """There is no such sensor."""


class Kind(IntEnum):
    """Event of a sample."""

    START = 1
    FINISH = 2
    SUSPEND = 3
    RESUME = 4
    CLOSE = 5
    JOIN = 6


class Flag(IntFlag):
    """Flags of a sample."""

    FAILED = 1
    SCALED = 2
    UNCOUNTED = 4
    ABORTED = 8


class EventKind(IntEnum):
    """Event of a task runtime."""

    SPAWN = 1
    DEPENDENCE = 2
    READY = 3
    STEAL = 4
    CANCEL = 5
    BEGIN = 6
    END = 7


class EventFlag(IntFlag):
    """Attributes of an event."""

    AT_ONCE = 1
    """Of a SPAWN: the instance may run at once, as READY says."""


class NativeKind(IntEnum):
    """Record of a native thread."""

    APPEAR = 1
    CREATOR = 2
    NAME = 3
    PATH = 4
    BEGIN = 5
    CLOCK = 6
    END = 7
    NOTED = 8
    CALLS = 9
    MISSED = 10
    COUNTS = 11


class NativeFlag(IntFlag):
    """Flags of a record of a native thread."""

    EXACT = 1
    JOINED = 2
    SEVERAL = 4
    SCALED = 8
    PAIR = 16


class StackKind(IntEnum):
    """Record of sampled stacks."""

    FUNCTION = 1
    CALL = 2
    SAMPLE = 3


class StackFlag(IntFlag):
    """Flags of a record of sampled stacks."""

    OWN = 1
    CUT = 2


class EndReason(IntEnum):
    """End of a thread's file."""

    OPEN = 0
    ENDED = 1
    STOPPED = 2
    ABORTED = 3


class ReadingFlag(IntFlag):
    """Flags of a reading."""

    MISSING = 1
    REOPENED = 2


class Quality(StrEnum):
    """Origin of a figure, which accompanies every figure."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    SIMULATED = "simulated"
    GIVEN = "given"


def least_certain(qualities: Collection[str]) -> str:
    """Return the quality of figures of several qualities: that of the least certain one; "none" without any."""
    order = (Quality.ESTIMATED, Quality.SIMULATED, Quality.GIVEN, Quality.MEASURED)
    return next((str(quality) for quality in order if quality in qualities), "none")
