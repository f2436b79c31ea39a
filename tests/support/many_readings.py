"""Recordings with far more readings of a sensor than samples, written in parts: one may be longer than memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tprof.trace import layout, write_trace

from .traces import set_header, set_json

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
PART = 1 << 20
STEPS = (3.0, 11.0)
"""Watts of the two tasks that take turns on the one thread."""


def write(
    path: Path, readings: int, *, period_ns: int = MS, turn_ns: int = 50 * MS, window_ns: int = 0, seed: int = 0
) -> Path:
    """Write a recording of two tasks in turns, whose package is read so many times.

    Parameters
    ----------
    path : of the session
    readings : how many
    period_ns : between two of them; each is up to a fifth of that late
    turn_ns : for which each instance runs
    window_ns : known time in which each value changed; 0: it is not known
    seed : of the noise of times
    """
    length_ns = (readings - 1) * period_ns
    turns_ns = np.append(np.arange(3 * period_ns, length_ns - 3 * period_ns, turn_ns), length_ns - 3 * period_ns)
    number = np.arange(len(turns_ns))
    thread = {
        "t_ns": turns_ns,
        "instance": np.append(number[1:], 0),
        "task": np.append(number[:-1] % 2, -1),
        "cpu_ns": turns_ns,
    }
    write_trace(path, tasks=["low", "high"], threads=[thread], energy={"package-0": ([0, 1], [0.0, 1.0])})
    file = path / "readings" / "package-0.readings"
    with file.open("r+b") as stream:
        stream.truncate(layout.HEADER_BYTES)
        stream.seek(layout.HEADER_BYTES)
        for first in range(0, readings, PART):
            stream.write(_part(first, min(PART, readings - first), period_ns, turn_ns, window_ns, seed).tobytes())
    set_header(file, committed=readings, flushed=readings, unit=1e-6)
    set_json(path / "end.json", end_ns=length_ns - 2 * period_ns)
    return path


def _part(first: int, count: int, period_ns: int, turn_ns: int, window_ns: int, seed: int) -> np.ndarray:
    """Return some of the readings: joules since the begin in microjoules, a little late each."""
    random = np.random.default_rng((seed, first))
    records = np.zeros(count, layout.READING)
    t_ns = (first + np.arange(count)) * period_ns + random.integers(0, period_ns // 5, count)
    records["t_ns"], records["window_ns"] = t_ns, window_ns
    whole, rest = np.divmod(np.maximum(t_ns - 3 * period_ns, 0), 2 * turn_ns)
    low_ns = whole * turn_ns + np.minimum(rest, turn_ns)
    high_ns = whole * turn_ns + np.maximum(rest - turn_ns, 0)
    records["value"] = np.round((low_ns * STEPS[0] + high_ns * STEPS[1] + t_ns * 2.0) * 1e-3)
    return records
