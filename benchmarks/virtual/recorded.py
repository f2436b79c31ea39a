"""Writes what a recorder would have recorded of the virtual package, and keeps the truth beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.trace import layout, write_trace

from .sensor import BITS

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .processor import Run
    from .sensor import Sensor

    Floats = NDArray[np.float64]

DOMAIN = "package-0"


@dataclass(frozen=True)
class Truth:
    """What each instance really drew.

    Attributes
    ----------
    instance : (n,) ids, as in the trace.
    task : (n,) index into the tasks.
    dynamic_j : (n,) above static power.
    static_j : (n,) of static power, in each quantum split evenly over the cores that run.
    duration_s : (n,).
    """

    instance: NDArray[np.uint64]
    task: NDArray[np.int64]
    dynamic_j: Floats
    static_j: Floats
    duration_s: Floats


def write(
    path: str | os.PathLike[str],
    names: Sequence[str],
    run: Run,
    *,
    sensor: Sensor,
    seed: int,
    counters: bool = True,
) -> Truth:
    """Write the trace of a run; every figure in it is called simulated.

    Parameters
    ----------
    path
        Of the session.
    names, run
        Of the tasks, and what ran.
    sensor
        How it was read.
    seed
        For the sensor's jitter and noise.
    counters
        Whether the recorder had them.
    """
    random = np.random.default_rng(seed)
    updates_s = sensor.updates(run.end_s, random)
    register = sensor.register(run.joules(updates_s), random)
    seen = sensor.seen(updates_s)
    seen_ns, window_ns = (np.round(part * 1e9).astype(np.int64) for part in (seen.at_s, seen.window_s))
    write_trace(
        path,
        tasks=list(names),
        threads=[_thread(run, place, counters=counters) for place in range(len(run.cores))],
        energy={DOMAIN: (seen_ns, np.arange(len(seen_ns), dtype=float), window_ns)},
        quality="simulated",
    )
    _put_register(Path(path) / "readings" / f"{DOMAIN}.readings", register[seen.update], sensor.unit_j)
    return truth_of(run, updates_s[seen.update])


def truth_of(run: Run, edges_s: Floats) -> Truth:
    """Return what the instances of a run really drew; `edges_s` are those of the quanta."""
    places = range(len(run.cores))
    return Truth(
        instance=1 + np.arange(sum(len(core.task) for core in run.cores), dtype=np.uint64),
        task=np.concatenate([core.task for core in run.cores]),
        dynamic_j=np.concatenate([run.instances_j(place) for place in places]),
        static_j=np.concatenate([run.static_shares_j(place, edges_s) for place in places]),
        duration_s=np.concatenate([core.end_s - core.begin_s for core in run.cores]),
    )


def _thread(run: Run, place: int, *, counters: bool) -> dict[str, Any]:
    """One sample where an instance begins, one where it ends unless the next begins at once."""
    core = run.cores[place]
    count, first = len(core.task), sum(len(before.task) for before in run.cores[:place])
    t_s = np.column_stack([core.begin_s, core.end_s]).ravel()
    t_ns = np.round(t_s * 1e9).astype(np.int64)
    instance = np.column_stack([1 + first + np.arange(count), np.zeros(count, np.int64)]).ravel().astype(np.uint64)
    task = np.column_stack([core.task, np.full(count, -1)]).ravel()
    # An end at which the next begins says nothing of its own.
    kept = np.ones(len(t_ns), bool)
    kept[1:-1:2] = t_ns[1:-1:2] < t_ns[2::2]
    lengths_ns = t_ns[1::2] - t_ns[::2]
    cpu_ns = np.cumsum(np.column_stack([np.zeros(count, np.int64), lengths_ns]).ravel())
    return {
        "t_ns": t_ns[kept],
        "instance": instance[kept],
        "task": task[kept],
        "cpu": np.full(int(kept.sum()), place),
        "cpu_ns": cpu_ns[kept],
        "name": f"core {place}",
        **(run.counts(place, t_s[kept]) if counters else {}),
    }


def _put_register(file: Path, counts: NDArray[np.uint64], unit_j: float) -> None:
    """Write a register's raw counts, which wrap, in place of the joules that `write_trace` was given.

    `write_trace` takes joules that never fall, as a runtime has them. A kernel's file shows a register that wraps, and
    its reader's way through `modulus` is part of what is to be validated.

    Parameters
    ----------
    file
        `readings/<domain>.readings` of a trace.
    counts
        (m,) one a reading.
    unit_j
        Joules of one count.
    """
    content = bytearray(file.read_bytes())
    header = np.frombuffer(content, layout.HEADER, 1)
    header["unit"], header["modulus"] = unit_j, 1 << BITS
    records = np.frombuffer(content, layout.READING, len(counts), layout.HEADER_BYTES)
    records["value"] = counts
    file.write_bytes(content)
