"""The labels of processes, one file for each process that has any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plain_values import parse_trace_json
from .tasks import MAX_BYTES, lines_of

if TYPE_CHECKING:
    from pathlib import Path

MAX_LABELS = 100
MAX_LABEL_NAME, MAX_LABEL_VALUE = 40, 200


def read_labels(path: Path, length: int = MAX_BYTES) -> dict[str, str]:
    """Return the labels of a process in so many bytes; later lines win, what cannot be a label is left out.

    Raises TraceError.
    """
    labels: dict[str, str] = {}
    for line in lines_of(path, length=length):
        for name, value in object_of(line).items():
            fits = 0 < len(name) <= MAX_LABEL_NAME and name.isidentifier() and name.isascii()
            if fits and isinstance(value, str) and (name in labels or len(labels) < MAX_LABELS):
                labels[name] = value[:MAX_LABEL_VALUE]
    return labels


def object_of(line: bytes) -> dict[str, Any]:
    """Return the object of a line; an empty one for a damaged line, such as the last one on a full disk."""
    try:
        content = parse_trace_json(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
