"""What a size limit removed from a session, in its file gone.json; see docs/trace-format.md."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tprof.errors import TraceError

from .directory import GONE
from .manifest import read_object, write_object
from .metadata import MAX_NS
from .sealed import is_as_written, with_checksum

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Gone:
    """What is not in a session any more.

    Attributes
    ----------
    until_ns : what every thread did is known from here on; of the time before, samples are gone
    samples, events, threads : numbers of removed samples, of events of a task runtime, and of threads without any left
    max_bytes : the size limit of the session's folder
    most_bytes : the largest size at which it was found
    thinned_ns : of readings before `until_ns` one in so much time is kept; 0: all
    """

    until_ns: int = 0
    samples: int = 0
    events: int = 0
    threads: int = 0
    max_bytes: int = 0
    most_bytes: int = 0
    thinned_ns: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the folder was larger than its limit at a time."""
        return self.most_bytes > self.max_bytes


def write_gone(session: Path, gone: Gone) -> None:
    """Write the file whole. Raises OSError."""
    (session / GONE).with_suffix(".tmp").unlink(missing_ok=True)  # of a helper that was killed
    write_object(session / GONE, with_checksum(asdict(gone)))


def read_gone(session: Path) -> Gone | None:
    """Read the file; None without one. Raises TraceError if it is damaged."""
    path = session / GONE
    if not os.path.lexists(path):
        return None
    content: dict[str, Any] = read_object(path)
    if not is_as_written(content):
        raise TraceError(f"{path} was changed: what the size limit removed is not known")
    sound = {name: content.get(name) for name in Gone.__annotations__}
    return Gone(**{name: min(value, MAX_NS) for name, value in sound.items() if type(value) is int and value > 0})
