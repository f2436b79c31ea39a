"""The keys of another engine's tasks, such as those of dask: which key an instance is, and which keys it needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .plain_values import counted, parse_trace_json
from .tasks import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 1 << 34
"""Of a file, which is read line by line."""
MAX_LINES = 10_000_000
MAX_KEY_CHARACTERS = 1000
MAX_INSTANCE = 2**64 - 1


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys of one process: the lines that begin in so many bytes."""

    path: Path
    length: int = MAX_BYTES


def read_keys(files: tuple[KeyFile, ...], notes: list[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Yield an instance, its key and the keys that it needed, from the files of all processes.

    An instance may be unknown or come again, and a needed key may be of no instance here. The attempts of a task that
    was tried again have the same key. Sentences on what was left out are added to `notes`.

    Raises
    ------
    TraceError
        If a file cannot be read.
    """
    count = 0
    for file in files:
        path, damaged = file.path, 0
        for line in lines_of(path, MAX_BYTES, length=file.length):
            count += 1
            if count > MAX_LINES:
                notes.append(f"{path.name}: what follows {MAX_LINES} keys is left out")
                break
            parsed = _parse(line)
            if parsed is None:
                damaged += 1
            else:
                yield parsed
        if damaged:
            lines = counted(damaged, "line of keys is", "lines of keys are")
            notes.append(f"{path.name}: {lines} damaged, and left out")


def _parse(line: bytes) -> tuple[int, str, list[str]] | None:
    try:
        record: Any = parse_trace_json(line)
        instance, key, needs = record["instance"], record["key"], record["needs"]
    except (ValueError, KeyError, TypeError):
        return None
    if type(instance) is not int or not 0 < instance <= MAX_INSTANCE:
        return None
    if not (isinstance(key, str) and isinstance(needs, list) and all(isinstance(one, str) for one in needs)):
        return None
    return instance, key[:MAX_KEY_CHARACTERS], [one[:MAX_KEY_CHARACTERS] for one in needs]
