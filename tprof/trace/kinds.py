"""The numbers and words of the format that stand for something; without NumPy, which recording does not need."""

from enum import IntEnum, IntFlag, StrEnum


class StreamKind(IntEnum):
    """What a file holds."""

    SAMPLES = 1
    READINGS = 2
    EVENTS = 3


class Kind(IntEnum):
    """What happened when a sample was taken."""

    START = 1
    FINISH = 2
    SUSPEND = 3
    RESUME = 4
    CLOSE = 5
    JOIN = 6


class Flag(IntFlag):
    """What else a sample says."""

    FAILED = 1
    SCALED = 2
    UNCOUNTED = 4
    ABORTED = 8


class EventKind(IntEnum):
    """What a task runtime did."""

    SPAWN = 1
    DEPENDENCE = 2
    READY = 3
    STEAL = 4
    CANCEL = 5
    BEGIN = 6
    END = 7


class EndReason(IntEnum):
    """How a thread's file ended."""

    OPEN = 0
    ENDED = 1
    STOPPED = 2
    ABORTED = 3


class ReadingFlag(IntFlag):
    """What a reading says about itself."""

    MISSING = 1
    REOPENED = 2


class Quality(StrEnum):
    """How a figure was got; it travels with every figure."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    SIMULATED = "simulated"
    GIVEN = "given"
