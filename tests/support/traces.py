"""Small traces for tests, and ways to damage them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

import tprof
from tprof.trace import layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECOND_NS = 10**9
TASKS = ("load", "blur")
THREADS = (
    {
        "t_ns": [0, SECOND_NS, 2 * SECOND_NS],
        "instance": [1, 2, 0],
        "task": [0, 1, -1],
        "cpu": [0, 0, 0],
        "package": [0, 0, 0],
        "cpu_ns": [0, SECOND_NS, 2 * SECOND_NS],
        "name": "main",
    },
    {"t_ns": [0, 2 * SECOND_NS], "instance": [3, 0], "task": [1, -1], "name": "other"},
)
ENERGY = {"package-0": ([0, SECOND_NS, 2 * SECOND_NS], [0.0, 5.0, 25.0])}


def write(path: Path, **changes: Any) -> Path:
    """Write a trace of two threads and one domain."""
    given = {"tasks": TASKS, "threads": THREADS, "energy": ENERGY} | changes
    tprof.write_trace(path, **given)
    return path


def copy(source: Path, target: Path) -> Path:
    """Copy a trace, to damage the copy."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


def samples_of(path: Path) -> Path:
    """Return the file of the first thread."""
    return path / "threads" / "00000000.samples"


def set_header(path: Path, **fields: Any) -> None:
    """Overwrite fields in the header of a stream file."""
    content = bytearray(path.read_bytes())
    header = np.frombuffer(content, layout.HEADER, count=1)
    for name, value in fields.items():
        header[name] = value
    path.write_bytes(bytes(content))


def set_json(path: Path, **keys: Any) -> None:
    """Overwrite keys of manifest.json or end.json."""
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def set_readings(path: Path, readings: np.ndarray[Any, Any], **fields: Any) -> None:
    """Put other readings into a file of readings, and fields into its header."""
    path.write_bytes(path.read_bytes()[: layout.HEADER_BYTES] + readings.tobytes())
    set_header(path, committed=len(readings), flushed=len(readings), **fields)


def add_cpu_times(path: Path, name: str, *, quantity: str, package: int | None, readings: np.ndarray[Any, Any]) -> None:
    """Add readings of CPU time in nanoseconds to a trace: of the machine ("busy") or of the program."""
    file = path / "readings" / f"{name}.readings"
    shutil.copy(next((path / "readings").iterdir()), file)
    described = {"name": name, "quantity": quantity, "package": package, "scope": "machine", "quality": "measured"}
    text = json.dumps(described).encode()
    description = np.void(text.ljust(layout.DESCRIPTION_BYTES, b"\0"))
    set_readings(file, readings, unit=1e-9, modulus=0, description=description, description_bytes=len(text))


def contents(path: Path) -> dict[str, bytes]:
    """Return every file below a directory with what it holds."""
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def read_all(trace: tprof.Trace) -> Iterator[np.ndarray]:
    """Read everything that a trace can give."""
    for thread in trace.threads:
        samples = thread.read()
        thread.package(samples)
        yield samples


def read_or_refuse(path: Path) -> tprof.Trace | str:
    """Read all of a trace; return it, or the one sentence with which it is refused."""
    try:
        trace = tprof.load(path)
        for samples in read_all(trace):
            indices = samples["task"][samples["task"] != layout.NO_TASK]
            assert (indices < len(trace.tasks)).all()
    except tprof.TraceError as error:
        sentence = str(error)
    else:
        assert all("\n" not in note for note in trace.notes)
        return trace
    assert "\n" not in sentence
    return sentence
