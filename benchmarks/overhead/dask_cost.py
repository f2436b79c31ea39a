"""What recording a dask cluster costs, beside the same cluster without it: behind `scripts/bench dask`.

The cluster is dask's own on this machine: worker processes with one thread each. The rounds with a recording and those
without interleave; beginning and end of the recording are not part of a round. What a part costs on its way home is
measured in a driver process of its own, whose peak memory it is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.measured_figures import Figure, result_of
from tprof.benchmarks.programs.local_cluster import local_cluster

import tprof
from benchmarks.peers.contract import empty
from tprof.trace.directory import HOSTS

from .timing import ratios, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_OF_EMPTY, MOST_OF_SHORT, MOST_AT_DRIVER_MB = 1.05, 1.01, 200.0
PLAIN, RECORDED = "without tprof", "recorded"
SHORT_S = 1e-3
SAMPLES = 1 << 18
"""Of the thread whose file a part to bring home repeats."""


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes
    ----------
    tasks : empty ones in a round.
    short_tasks : of a millisecond, in a round.
    rounds : of each.
    home_mb : size of the traces to bring home.
    workers : processes of the cluster.
    """

    tasks: int = 100_000
    short_tasks: int = 10_000
    rounds: int = 5
    home_mb: int = 1_000
    workers: int = 2


FULL = Extent()
QUICK = Extent(tasks=100, short_tasks=20, rounds=1, home_mb=20, workers=1)


def measure(extent: Extent = FULL) -> dict[str, Any]:
    """Measure empty tasks and tasks of a millisecond with and without a recording, and a part on its way home.

    Returns
    -------
    dict
        `machine`, `effort`, and `figures` as `Figure.as_plain`.

    Raises
    ------
    UsageError
        If dask.distributed is not installed.
    """
    with tempfile.TemporaryDirectory() as folder, local_cluster(extent.workers) as client:
        timed = partial(_timed, client, Path(folder))
        nothing = timed(empty, extent.tasks, extent.rounds, unit_s=1e-3)
        short = timed(spin, extent.short_tasks, extent.rounds, unit_s=1e-3)
        home = _bring_home(client, Path(folder), extent.home_mb)
    figures = _figures(f"an empty task, of {extent.tasks:,}", nothing, MOST_OF_EMPTY)
    figures += _figures(f"a task of 1 ms, of {extent.short_tasks:,}", short, MOST_OF_SHORT)
    return result_of(extent, [*figures, *home])


def spin() -> None:
    """Work for a millisecond."""
    end_s = time.perf_counter() + SHORT_S
    while time.perf_counter() < end_s:
        pass


def _timed(
    client: Any, folder: Path, function: Callable[[], None], tasks: int, rounds: int, *, unit_s: float
) -> dict[str, tuple[float, ...]]:
    """Return the time of a task in units, by rounds."""
    import tprof.dask  # noqa: PLC0415 - an extra

    def plain() -> float:
        return _run(client, function, tasks) / tasks / unit_s

    def recorded() -> float:
        with tprof.dask.record(client, folder / "run.tprof", overwrite=True, energy="estimate"):
            return _run(client, function, tasks) / tasks / unit_s

    return take_turns({PLAIN: plain, RECORDED: recorded}, rounds=rounds)


def _run(client: Any, function: Callable[[], None], tasks: int) -> float:
    """Return the seconds from the first submission to the last end."""
    from distributed import wait  # noqa: PLC0415 - an extra

    begin_s = time.perf_counter()
    futures = [client.submit(function, pure=False) for _ in range(tasks)]
    wait(futures)
    took_s = time.perf_counter() - begin_s
    client.cancel(futures)
    return took_s


def _figures(label: str, taken: dict[str, tuple[float, ...]], target: float) -> list[Figure]:
    return [
        Figure(f"{label}: {PLAIN}", taken[PLAIN], "ms"),
        Figure(f"{label}: {RECORDED}", taken[RECORDED], "ms"),
        Figure(f"{label}: {RECORDED} over {PLAIN}", ratios(taken[RECORDED], taken[PLAIN]), "×", target),
    ]


def _bring_home(client: Any, folder: Path, size_mb: int) -> list[Figure]:
    """Measure a driver that brings a part home from the first worker."""
    part = folder / "away" / HOSTS / "host"
    size_bytes = write_part(part, size_mb)
    (folder / "home" / HOSTS).mkdir(parents=True)
    worker = next(iter(client.scheduler_info()["workers"]))
    words = [sys.executable, "-P", "-m", "benchmarks.overhead.dask_driver"]
    words += [client.scheduler.address, worker, str(folder)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own module
    found = json.loads(done.stdout.splitlines()[-1])
    label = f"bringing home {size_bytes / 1e6:,.0f} MB of traces"
    return [
        Figure(f"{label}: peak memory of the driver", (found["peak_bytes"] / 1e6,), "MB", MOST_AT_DRIVER_MB),
        Figure(f"{label}: of that before", (found["before_bytes"] / 1e6,), "MB", note="Python with dask and tprof"),
        Figure(f"{label}: time", (found["took_s"],), "s"),
    ]


def write_part(part: Path, size_mb: int) -> int:
    """Write a part whose threads' files are copies of one thread's; returns its size in bytes."""
    random = np.random.default_rng(1)
    t_ns = np.cumsum(random.integers(1_000, 100_000, SAMPLES))
    instance = np.where(np.arange(SAMPLES) % 2, 0, np.arange(SAMPLES) // 2 + 1)
    thread = {"t_ns": t_ns, "instance": instance, "task": np.where(instance > 0, 0, -1)}
    end_s = int(t_ns[-1]) * 1e-9
    part.parent.mkdir(parents=True)
    energy = {"package-0": (np.array([0, int(t_ns[-1])]), np.array([0.0, 10.0 * end_s]))}
    tprof.write_trace(part, tasks=["work"], threads=[thread], energy=energy)
    (first,) = (part / "threads").iterdir()
    content = first.read_bytes()
    for number in range(1, max(size_mb * 1_000_000 // len(content), 1)):
        first.with_name(f"{number:08d}.samples").write_bytes(content)
    return sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
