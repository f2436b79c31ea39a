"""A session that grows as that of a recorder does, in a time of its own: hours of a recording in seconds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
from support import traces

import tprof
from tprof.trace import layout
from tprof.trace.kinds import Kind
from tprof.trace.segments import segment_path

if TYPE_CHECKING:
    from pathlib import Path

SECOND_NS = 1_000_000_000
QUANTUM_NS = 20_000_000
INSTANCE_NS = 25_000_000
SEGMENT_RECORDS = 4096
TASKS = ("read", "work", "write")
WATTS = 8.0
DOMAIN = {
    "name": "package-0", "scope": "package", "package": 0, "source": "powercap", "quality": "measured", "counted": True,
}  # fmt: skip


class SimulatedRecorder:
    """Two threads that run one short task after the other, and a package of 8 W that is read every 20 ms."""

    def __init__(self, path: Path) -> None:
        """Make the session; it begins at one second."""
        self.path, self.t_ns = path, SECOND_NS
        one = {"t_ns": [SECOND_NS], "instance": [0], "task": [-1], "cpu_ns": [0]}
        energy = {"package-0": (np.array([SECOND_NS, SECOND_NS + 1]), np.zeros(2))}
        tprof.write_trace(path, tasks=list(TASKS), threads=[one, one], energy=energy, quality="measured")
        self._dtype = tprof.load(path).threads[0].dtype
        traces.set_json(path / "manifest.json", keep="summary", span_s=1.0, clock=_clock(), domains=[DOMAIN])
        (path / "end.json").unlink()
        self.threads = sorted((path / "threads").iterdir())
        self.readings = path / "readings" / "package-0.readings"
        for thread in self.threads:
            _empty(thread)
        traces.set_readings(self.readings, np.zeros(0, layout.READING), unit=1e-6)
        _empty(self.readings)
        self._count = [0, 0, 0]
        self._instances = 0

    def run(self, seconds: int) -> None:
        """Record some seconds."""
        until_ns = self.t_ns + seconds * SECOND_NS
        t_ns = np.arange(self.t_ns, until_ns, INSTANCE_NS)
        for number, path in enumerate(self.threads):
            self._append(number, path, self._samples(t_ns + number * INSTANCE_NS // 2, number))
        self._instances += len(t_ns)
        readings = np.zeros(seconds * SECOND_NS // QUANTUM_NS, layout.READING)
        readings["t_ns"] = np.arange(self.t_ns, until_ns, QUANTUM_NS) + QUANTUM_NS
        readings["value"] = ((readings["t_ns"] - SECOND_NS) * WATTS * 1e-3).astype(np.uint64)
        self._append(2, self.readings, readings)
        self.t_ns = until_ns

    def _samples(self, t_ns: np.ndarray, number: int) -> np.ndarray:
        samples = np.zeros(2 * len(t_ns), self._dtype)
        start, finish = samples[::2], samples[1::2]
        places = np.arange(len(t_ns))
        start["t_ns"], finish["t_ns"] = t_ns, t_ns + INSTANCE_NS // 2
        start["instance"] = ((number + 1) << 40) + self._instances + places + 1
        start["task"], finish["task"] = places % len(TASKS), layout.NO_TASK
        start["kind"], finish["kind"] = Kind.START, Kind.FINISH
        used_ns = (self._instances + places) * (INSTANCE_NS // 2)
        start["cpu_ns"], finish["cpu_ns"] = used_ns, used_ns + INSTANCE_NS // 2
        return samples

    def _append(self, number: int, path: Path, records: np.ndarray) -> None:
        for at in range(0, len(records), SEGMENT_RECORDS // 2):
            self._append_some(number, path, records[at : at + SEGMENT_RECORDS // 2])

    def _append_some(self, number: int, path: Path, records: np.ndarray) -> None:
        while len(records):
            segment, at = divmod(self._count[number], SEGMENT_RECORDS)
            some, records = records[: SEGMENT_RECORDS - at], records[SEGMENT_RECORDS - at :]
            with segment_path(path, segment).open("ab") as file:
                file.write(some.tobytes())
            self._count[number] += len(some)
        with path.open("r+b") as file:
            counts = np.array([self._count[number]] * 2, np.uint64)
            os.pwrite(file.fileno(), counts.tobytes(), layout.HEADER.fields["committed"][1])

    def bytes_on_disk(self) -> int:
        """Return what the streams take on the disk."""
        places = (self.path / "threads", self.path / "readings")
        return sum(512 * path.stat().st_blocks for place in places for path in place.iterdir())


def _clock() -> dict[str, object]:
    return {"name": "CLOCK_MONOTONIC", "start_ns": SECOND_NS, "block_start_ns": SECOND_NS}


def _empty(stream: Path) -> None:
    """Let a stream be one that is written, in segments, without records."""
    stream.write_bytes(stream.read_bytes()[: layout.HEADER_BYTES])
    traces.set_header(stream, end_reason=0, window_bytes=0, committed=0, flushed=0, segment_records=SEGMENT_RECORDS)
