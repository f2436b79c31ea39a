"""Checks the events of a thread for `write_trace`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kinds, layout
from .arrays import first_where, refuse_if, unsigned, whole

if TYPE_CHECKING:
    import numpy.typing as npt

NEEDED = ("t_ns", "kind", "instance")
OPTIONAL = ("other", "task", "worker")


def check_events(where: str, given: Any, task_count: int) -> npt.NDArray[np.void] | None:
    """Return the events as file records, None without any. Raises UsageError."""
    if given is None:
        return None
    where = f"{where}['events']"
    named = f"{', '.join(NEEDED)} and, where they mean something, {', '.join(OPTIONAL)}"
    refuse_if(not isinstance(given, Mapping), f"{where} must be a dict of arrays: {named}")
    odd = [key for key in given if key not in NEEDED + OPTIONAL] + [key for key in NEEDED if key not in given]
    refuse_if(bool(odd), f"{where} must hold {named}; see {odd[0] if odd else None!r}")
    t_ns = whole(where, "t_ns", given["t_ns"])
    refuse_if(bool((t_ns < 0).any()), f"{where}: t_ns must not be negative, got {first_where(t_ns, t_ns < 0)}")
    refuse_if(bool((t_ns[1:] < t_ns[:-1]).any()), f"{where}: t_ns must not decrease; sort the events by time")
    events = np.zeros(len(t_ns), layout.EVENT)
    events["t_ns"] = t_ns
    events["kind"] = _kind(where, given["kind"], len(t_ns))
    events["instance"] = unsigned(where, "instance", given["instance"], len(t_ns))
    events["other"] = unsigned(where, "other", given["other"], len(t_ns)) if "other" in given else 0
    events["task"] = _or_none(where, "task", given, len(t_ns), task_count) if "task" in given else layout.NO_TASK
    worker = "worker" in given
    events["worker"] = _or_none(where, "worker", given, len(t_ns), layout.NO_WORKER) if worker else layout.NO_WORKER
    return events


def _kind(where: str, values: Any, length: int) -> npt.NDArray[np.uint64]:
    kind = unsigned(where, "kind", values, length, below=max(kinds.EventKind) + 1)
    refuse_if(bool((kind == 0).any()), f"{where}: kind must be from 1 to {int(max(kinds.EventKind))}, got 0")
    return kind


def _or_none(where: str, key: str, given: Mapping[str, Any], length: int, below: int) -> npt.NDArray[np.int64]:
    """Return numbers with -1 (none) as in the file: with all bits set."""
    numbers = whole(where, key, given[key], length)
    outside = (numbers < -1) | (numbers >= below)
    refuse_if(
        bool(outside.any()), f"{where}: {key} must be from -1 to {below - 1}, got {first_where(numbers, outside)}"
    )
    return np.where(numbers == -1, np.iinfo(layout.EVENT[key].type).max, numbers)
