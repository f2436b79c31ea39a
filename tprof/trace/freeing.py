"""Removes the records of a stream that are no longer needed, while it is written: whole segments of its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import layout
from .kinds import EndReason
from .packed import packed_path
from .segments import segment_path, segments_of

if TYPE_CHECKING:
    from pathlib import Path


def remove_records(stream: Path, count: int | None = None) -> bool:
    """Remove the segments of the first records, at most `count`; returns whether the stream's writer has ended.

    Readers that follow the stream go on after them. Raises OSError.
    """
    with stream.open("rb") as file:
        header = np.frombuffer(file.read(layout.HEADER_BYTES), layout.HEADER)[0]
    records, flushed = int(header["segment_records"]), int(header["flushed"])
    whole = 0 if records == 0 else (flushed if count is None else min(count, flushed)) // records
    for number, _, _ in list(segments_of(stream)):
        if number < whole:
            _remove_segment(stream, number)
    return int(header["end_reason"]) != EndReason.OPEN


def remove_stream(stream: Path) -> None:
    """Remove a stream with its segments. Raises OSError."""
    stream.unlink(missing_ok=True)
    for number, _, _ in list(segments_of(stream)):
        _remove_segment(stream, number)


def _remove_segment(stream: Path, number: int) -> None:
    path = segment_path(stream, number)
    path.unlink(missing_ok=True)
    packed_path(path).unlink(missing_ok=True)
