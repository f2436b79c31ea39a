"""Sessions whose streams are in segments, made of plain ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tprof.trace import layout
from tprof.trace.segments import segment_path
from tprof.trace.stream_files import PLACES

if TYPE_CHECKING:
    from pathlib import Path


def split(session: Path, records: int) -> None:
    """Put the body of each stream into segments of so many records."""
    for name, (ending, _) in PLACES.items():
        for stream in (session / name).glob(f"*{ending}"):
            _split(stream, records)


def _split(stream: Path, records: int) -> None:
    content = stream.read_bytes()
    header = np.frombuffer(content[: layout.HEADER_BYTES], layout.HEADER)[0].copy()
    size, body_at = int(header["record_bytes"]), layout.HEADER_BYTES + int(header["window_bytes"])
    body = content[body_at : body_at + int(header["flushed"]) * size]
    header["major"], header["minor"], header["segment_records"] = layout.BESIDE_MAJOR, layout.MINOR, records
    stream.write_bytes(header.tobytes() + content[layout.HEADER_BYTES : body_at])
    for number, at in enumerate(range(0, len(body), records * size)):
        segment_path(stream, number).write_bytes(body[at : at + records * size])


def size_of(session: Path) -> int:
    """Return the bytes of all files that are there now."""
    total = 0
    for path in session.rglob("*"):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
