"""What a summary of a recording costs that is read window by window: beside reading and copying its bytes.

Both are done in turn in the same run. Reading and copying takes whole files of samples into memory, as a profile in
memory does first. Besides a written recording there is a recorded one, of a thread that only calls tasks: its samples
are smaller, and are read twice, since their CPU time is compared with that of the process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from tprof.benchmarks.measured_figures import Figure

import tprof
from tprof.trace import load_session

from .call_cost import SAMPLES_PER_TASK, task
from .children import in_child, memory_bytes

if TYPE_CHECKING:
    from pathlib import Path

OVER_BYTES = 1.5
MOST_MB = 1000.0


@dataclass(frozen=True)
class Streamed:
    """One summary in a process of its own: `seconds`, `copied_s` of the same moment, and its peak memory."""

    copied_s: float
    seconds: float
    peak_mb: float


def streamed_figures(whole: Path, tenth: Path, samples: int, rounds: int) -> list[Figure]:
    """Return the figures of a recording and of one of a tenth of its samples."""
    runs = [(_streamed(whole), _streamed(tenth)) for _ in range(rounds)]
    label = f"{samples:,} samples, summary in windows"
    return [
        Figure(
            f"{label}, over reading and copying the bytes",
            tuple(one.seconds / one.copied_s for one, _ in runs),
            "×",
            OVER_BYTES,
        ),
        Figure(f"{label}, peak memory", tuple(one.peak_mb for one, _ in runs), "MB", MOST_MB),
        Figure(
            f"{label}, a sample over one of {samples // 10:,}",
            tuple(one.seconds / other.seconds / 10 for one, other in runs),
            "×",
            note="1: time grows as the number of samples",
        ),
    ]


def recorded_figure(base: Path, samples: int, rounds: int) -> Figure:
    """Return the figure of a recording of this machine's sensors, or of an estimate, which is made for it."""
    path = base / "recorded.tprof"
    in_child(_record, path, samples // SAMPLES_PER_TASK)
    return over_bytes(f"{samples:,} recorded samples", path, rounds)


def over_bytes(label: str, path: Path, rounds: int) -> Figure:
    """Return the time of a recording's summary over that of reading and copying its bytes."""
    runs = [_streamed(path) for _ in range(rounds)]
    name = f"{label}, summary in windows, over reading and copying the bytes"
    return Figure(name, tuple(one.seconds / one.copied_s for one in runs), "×", OVER_BYTES)


def _record(path: Path, tasks: int) -> None:
    with tprof.record(path):
        for _ in range(tasks):
            task()


def _streamed(path: Path) -> Streamed:
    return Streamed(in_child(_copied_s, path), *in_child(_summary, path))


def _copied_s(path: Path) -> float:
    begin_s = time.perf_counter()
    for file in sorted((path / "threads").iterdir()):
        bytearray(file.read_bytes())
    return time.perf_counter() - begin_s


def _summary(path: Path) -> tuple[float, float]:
    import_module("tprof.analysis.profile")  # loading pandas is no part of the analysis
    trace = load_session(path)
    begin_s = time.perf_counter()
    trace.profile(tables=False).summary()
    seconds = time.perf_counter() - begin_s
    return seconds, memory_bytes("VmHWM") * 1e-6
