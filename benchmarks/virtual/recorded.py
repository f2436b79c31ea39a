"""Writes what a recorder would have recorded of the virtual package, and keeps the truth beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import write_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .processor import Core, Package, Task
    from .sensor import Sensor


@dataclass(frozen=True)
class Truth:
    """What each instance really drew, above static power.

    Attributes
    ----------
    instance : (n,) ids, as in the trace.
    task : (n,) index into the tasks.
    energy_j, duration_s : (n,).
    static_w : of the package at the start.
    """

    instance: NDArray[np.uint64]
    task: NDArray[np.int64]
    energy_j: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    static_w: float


def write(
    path: str | os.PathLike[str],
    tasks: Sequence[Task],
    cores: Sequence[Core],
    *,
    package: Package,
    sensor: Sensor,
    end_s: float,
    seed: int,
) -> Truth:
    """Write the trace of these cores; every figure in it is called simulated.

    Parameters
    ----------
    path
        Of the session.
    tasks, cores
        What ran.
    package, sensor
        What it drew and how that was read.
    end_s
        Of the recording.
    seed
        For the sensor's jitter.
    """
    updates_s = sensor.updates(end_s, np.random.default_rng(seed))
    joules, instances_j = package.energies(cores, updates_s, end_s)
    counts = np.floor(joules / sensor.unit_j)
    seen_ns = np.round(sensor.seen(updates_s) * 1e9).astype(np.int64)
    window_ns = np.full(len(seen_ns), round(sensor.poll_s * 1e9))
    first = np.concatenate(([0], np.cumsum([len(core.task) for core in cores])[:-1]))
    write_trace(
        path,
        tasks=[task.name for task in tasks],
        threads=[
            _thread(core, number, int(start)) for number, (core, start) in enumerate(zip(cores, first, strict=True))
        ],
        energy={"package-0": (seen_ns, counts * sensor.unit_j, window_ns)},
        quality="simulated",
    )
    return Truth(
        instance=1 + np.arange(sum(len(core.task) for core in cores), dtype=np.uint64),
        task=np.concatenate([core.task for core in cores]),
        energy_j=np.concatenate(instances_j),
        duration_s=np.concatenate([core.end_s - core.begin_s for core in cores]),
        static_w=package.static_w,
    )


def _thread(core: Core, number: int, first: int) -> dict[str, Any]:
    """One sample where an instance begins, one where it ends unless the next begins at once."""
    count = len(core.task)
    begin_ns, end_ns = (np.round(at * 1e9).astype(np.int64) for at in (core.begin_s, core.end_s))
    t_ns = np.column_stack([begin_ns, end_ns]).ravel()
    instance = np.column_stack([1 + first + np.arange(count), np.zeros(count, np.int64)]).ravel().astype(np.uint64)
    task = np.column_stack([core.task, np.full(count, -1)]).ravel()
    # An end at which the next begins says nothing of its own.
    kept = np.ones(len(t_ns), bool)
    kept[1:-1:2] = t_ns[1:-1:2] < t_ns[2::2]
    cpu_ns = np.cumsum(np.column_stack([np.zeros(count, np.int64), end_ns - begin_ns]).ravel())
    return {
        "t_ns": t_ns[kept],
        "instance": instance[kept],
        "task": task[kept],
        "cpu": np.full(int(kept.sum()), number),
        "cpu_ns": cpu_ns[kept],
        "name": f"core {number}",
    }
