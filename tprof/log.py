"""Messages for the loggers below `tprof`, without loading `logging` into programs that do not use it.

A program without `logging` has no handler for a message, so none is lost if nothing is done. A program with handlers of
its own must print the same with tprof and without it, so messages are passed on only if somebody has set a level of the
logger `tprof`, or the variable `TPROF_LOG`, which prints them on standard error.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

NAME = "tprof"
VARIABLE = "TPROF_LOG"
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FORMAT = "tprof[%(process)d] %(levelname)s %(name)s: %(message)s"

listeners: list[Callable[[str], object]] = []
"""They get every choice that is logged, whatever the level of the logger: a notebook shows them as progress."""
_printing: list[int] = []
"""The level from which messages are printed, once that is set."""


def debug(part: str, message: str, *values: object) -> None:
    """Log what helps to find a fault; the arguments are those of `logging.Logger.debug`."""
    _log(10, part, message, values)


def info(part: str, message: str, *values: object) -> None:
    """Log a choice."""
    _log(20, part, message, values)


def warning(part: str, message: str, *values: object) -> None:
    """Log what makes figures doubtful; a user reads it in the notes of a recording or profile too."""
    _log(30, part, message, values)


def print_from(level: str) -> None:
    """Print messages from a level on, on standard error, in this process."""
    logger = _logger()
    if not _printing:
        import logging  # noqa: PLC0415 - takes longer to import than tprof itself

        handler = logging.StreamHandler(sys.__stderr__)
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)
    _printing[:] = [LEVELS[level]]
    logger.setLevel(LEVELS[level])


def _log(level: int, part: str, message: str, values: tuple[object, ...]) -> None:
    if listeners and level == LEVELS["info"]:
        for listener in listeners:
            listener(message % values)
    asked = os.environ.get(VARIABLE)
    if asked and not _printing:
        known = asked.lower() in LEVELS
        print_from(asked.lower() if known else "info")
        if not known:
            _log(30, "log", "%s must be one of %s, got %r: info is taken", (VARIABLE, ", ".join(LEVELS), asked))
    if "logging" in sys.modules and (logger := _logger()).level:
        logger.getChild(part).log(level, message, *values)


def _logger() -> logging.Logger:
    import logging  # noqa: PLC0415 - see above

    logger = logging.getLogger(NAME)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger
