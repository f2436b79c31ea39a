"""Why no function became a task by the patterns of ``--task``: sentences that `tprof run` leaves at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.errors import TraceError

from .directory import UNMATCHED
from .labels import object_of
from .tasks import MAX_TEXT_CHARACTERS, lines_of

if TYPE_CHECKING:
    from pathlib import Path

MAX_REASONS = 100


def read_unmatched(folder: Path) -> tuple[str, ...]:
    """Return the sentences in the order of the patterns; none if there is no such file, or it cannot be read."""
    try:
        found = [object_of(line).get("reason") for line in lines_of(folder / UNMATCHED)]
    except TraceError:
        return ()
    return tuple(one[:MAX_TEXT_CHARACTERS] for one in found if isinstance(one, str))[:MAX_REASONS]
