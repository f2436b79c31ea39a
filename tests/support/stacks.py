"""Files of sampled stacks, written record by record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import kinds, layout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def function(number: int, name: str, place: str = "/a.py:1", flags: int = 0) -> np.ndarray[Any, Any]:
    """Return the records of a function's text."""
    file, _, line = place.rpartition(":")
    text = f"{name}\n{line}\n{file}".encode()
    size = -(-len(text) // 16)
    records = np.zeros(size, layout.STACK)
    padded = np.frombuffer(text.ljust(16 * size, b"\0"), np.uint8).reshape(size, 16)
    records.view(np.uint8).reshape(size, 32)[:, 8:24] = padded
    records["number"], records["part"], records["flags"] = number, np.arange(size), flags
    records["kind"] = kinds.StackKind.FUNCTION
    return records


def call(number: int, called: int, caller: int = layout.NO_STACK) -> np.ndarray[Any, Any]:
    """Return the record of a stack."""
    record = np.zeros(1, layout.STACK)
    record["number"], record["cpu_ns"], record["other"], record["kind"] = number, called, caller, kinds.StackKind.CALL
    return record


def samples(t_ns: Sequence[int], stack: Sequence[int], *, tid: int, cpu_ns: Sequence[int] | int = 0) -> Any:
    """Return the records of samples of one thread."""
    records = np.zeros(len(t_ns), layout.STACK)
    records["t_ns"], records["number"], records["tid"], records["cpu_ns"] = t_ns, stack, tid, cpu_ns
    records["kind"] = kinds.StackKind.SAMPLE
    return records


def write(session: Path, records: np.ndarray[Any, Any], *, process: int = 0, **fields: Any) -> Path:
    """Add a file of stacks to a trace."""
    description = json.dumps({"stacks": "python"}).encode()
    header = np.zeros(1, layout.HEADER)
    header["magic"] = np.frombuffer(layout.MAGIC, "V8")
    header["major"], header["minor"], header["endian"] = layout.MAJOR, layout.MINOR, layout.ENDIAN
    header["kind"], header["header_bytes"], header["record_bytes"] = kinds.StreamKind.STACKS, layout.HEADER_BYTES, 32
    header["process"], header["thread"] = process, layout.NO_THREAD
    header["committed"] = header["flushed"] = len(records)
    header["description"] = np.void(description.ljust(layout.DESCRIPTION_BYTES, b"\0"))
    header["description_bytes"] = len(description)
    for name, value in fields.items():
        header[name] = value
    (session / "stacks").mkdir(exist_ok=True)
    path = session / "stacks" / f"{process:08d}.stacks"
    path.write_bytes(header.tobytes() + records.tobytes())
    return path
