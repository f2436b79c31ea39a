"""tprof: the energy of every task of a parallel Python program.

General layout: this package records (`task`, `recording`, `membership`, the sensors, the native core) and
reads and writes traces (`trace`). `tprof.analysis` makes profiles of traces; it is imported only when one
is asked for, since pandas and its kin take longer to import than many programs to run.
"""

from __future__ import annotations

import os as _os
from typing import TYPE_CHECKING

try:
    from tprof import _core as _core
except ModuleNotFoundError as _error:
    if _error.name != "tprof._core":
        raise
    _message = "tprof was imported from its source folder, which has no compiled core: install it, or leave the folder"
    raise ImportError(_message) from None

from tprof.errors import SensorError, TprofError, TraceError, UsageError
from tprof.membership import ENVIRONMENT as _ENVIRONMENT
from tprof.recording import Recording, record
from tprof.task import region, task

if TYPE_CHECKING:
    from tprof.trace import Trace, load, write_trace

__all__ = [
    "Recording",
    "SensorError",
    "TprofError",
    "Trace",
    "TraceError",
    "UsageError",
    "load",
    "record",
    "region",
    "task",
    "write_trace",
]

_LAZY = {"Trace", "load", "write_trace"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from tprof import trace  # noqa: PLC0415 - it brings numpy

        return getattr(trace, name)
    message = f"module 'tprof' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted(__all__)


if _ENVIRONMENT in _os.environ:
    from tprof.membership import join_from_environment as _join

    _join()
