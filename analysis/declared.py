"""Warnings of tasks whose declarations of flops or bytes failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .names import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tprof.trace.tasks import TaskEntry


def failed_declarations(tasks: Iterable[TaskEntry]) -> list[str]:
    """Return a sentence for each task whose declared functions gave no number for some calls."""
    return [_sentence(one) for one in tasks if one.calls_failed]


def _sentence(entry: TaskEntry) -> str:
    of = entry.failed or "flops or bytes"
    why = f" ({shown(' '.join(entry.failure.split()))})" if entry.failure else ""
    asked = entry.calls + entry.calls_failed
    return (
        f"{of} of task {shown(entry.name)}: the declared function failed for {entry.calls_failed} of {asked} calls{why}"
    )
