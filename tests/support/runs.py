"""Sessions of small runs whose tasks, times and powers are chosen, for comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import tprof

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HOST = {"hostname": "bench", "processor": "Processor", "cpus": 4, "kernel": "6.1", "python": "3.11"}
READ_NS = 1_000_000


@dataclass(frozen=True)
class Work:
    """A task of a run: its instances one after the other, in the order in which tasks are given."""

    name: str
    count: int = 20
    seconds: float = 0.004
    watts: float = 10.0
    spread: float = 0.05
    cpu: int = 0


def write_run(path: Path, works: Sequence[Work], *, seed: int = 0, slower: float = 1.0, **options: Any) -> Path:
    """Write a session of one thread; `slower` is what all of its instances take longer by, the rest is the trace's."""
    draw = np.random.default_rng(seed)
    places = np.concatenate([np.full(work.count, place) for place, work in enumerate(works)])
    lengths_s = np.concatenate(
        [work.seconds * slower * (1 + work.spread * draw.standard_normal(work.count)) for work in works]
    )
    t_ns = np.concatenate([[0], np.cumsum((lengths_s * 1e9).astype(np.int64))])
    watts = np.array([work.watts for work in works])[places]
    joules = np.concatenate([[0.0], np.cumsum(np.diff(t_ns) * 1e-9 * watts)])
    read_ns = np.append(np.arange(0, t_ns[-1], READ_NS), t_ns[-1])
    cpu = np.array([work.cpu for work in works])[places]
    thread = {
        "t_ns": t_ns,
        "instance": np.append(np.arange(1, len(places) + 1), 0),
        "task": np.append(places, -1),
        "cpu": np.append(cpu, cpu[-1]),
        "cpu_ns": t_ns,
    }
    given: dict[str, Any] = {"host": HOST, "quality": "simulated"} | options
    energy = {"package-0": (read_ns, np.interp(read_ns, t_ns, joules))}
    tprof.write_trace(path, tasks=[work.name for work in works], threads=[thread], energy=energy, **given)
    return path
