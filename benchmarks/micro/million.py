"""The paper's micro-benchmark (section 2.1): 2.5 million tasks, 5 million samples, start and flushed end included."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tprof
from tprof.trace import Kind

from .calls import bare, task
from .timing import no_collection, time_calls

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES_PER_TASK = 2
SAMPLE_BYTES = 64
WRITE_BYTES = 32_768  # what the recorder appends at a time


@dataclass(frozen=True)
class Round:
    """One recording of all tasks.

    Attributes
    ----------
    sample_ns : (recording, its start and end and the flush included, less the plain calls) a sample.
    write_ns : writing as many bytes to a file of the same folder by write(2), a sample.
    missing : samples that should be in the trace and are not.
    """

    sample_ns: float
    write_ns: float
    missing: int


def record_tasks(directory: Path, tasks: int) -> Round:
    """Record that many calls of an empty task, and write as many bytes plainly beside it.

    Parameters
    ----------
    directory
        Where the trace is made; it is removed.
    tasks
        Instances; each makes two samples.
    """
    path = directory / "million.tprof"
    samples = SAMPLES_PER_TASK * tasks
    with no_collection():
        plain_ns = time_calls(bare, tasks) * tasks
        begin_ns = time.perf_counter_ns()
        with tprof.record(path, counters="none"):
            time_calls(task, tasks)
        recorded_ns = time.perf_counter_ns() - begin_ns
    missing = samples - count_samples(path)
    shutil.rmtree(path)
    write_ns = _write_plainly(directory / "plain", samples * SAMPLE_BYTES)
    return Round((recorded_ns - plain_ns) / samples, write_ns / samples, missing)


def count_samples(path: Path) -> int:
    """Return the samples of tasks that a trace holds."""
    return sum(int((thread.read()["kind"] != Kind.JOIN).sum()) for thread in tprof.load(path).threads)


def _write_plainly(path: Path, size_bytes: int) -> int:
    piece = bytes(WRITE_BYTES)
    begin_ns = time.perf_counter_ns()
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // WRITE_BYTES):
            file.write(piece)
    elapsed_ns = time.perf_counter_ns() - begin_ns
    path.unlink()
    return elapsed_ns
