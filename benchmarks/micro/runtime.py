"""What the task runtime costs, beside its peers: the measurement behind `tprof bench runtime`."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.catalogue import usable_cpus
from tprof.benchmarks.figures import Figure
from tprof.benchmarks.machine import describe_machine

from .factoring import measure_factoring
from .live_graph import CHAINS, Peak, measure_live, measure_throttled
from .spawning import measure_spawning

if TYPE_CHECKING:
    import os

MOST_MB = 1_000.0


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes
    ----------
    tasks, rounds : in a batch of empty tasks, and how often each batch runs.
    rows, tile_rows, cholesky_rounds : of the tiled Cholesky.
    graph_tasks, graph_rounds : of the graph whose memory is looked at; at least 10,000.
    workers : threads of the runtime and of each peer; None: one a processor.
    """

    tasks: int = 100_000
    rounds: int = 7
    rows: int = 4_480
    tile_rows: int = 320
    cholesky_rounds: int = 7
    graph_tasks: int = 1_000_000
    graph_rounds: int = 3
    workers: int | None = None


FULL = Effort()
PAPER = replace(FULL, rows=10_240, cholesky_rounds=3)
QUICK = Effort(tasks=500, rounds=1, rows=256, tile_rows=64, cholesky_rounds=1, graph_tasks=10_000, graph_rounds=1)


def measure(effort: Effort = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure what the runtime costs, in one run.

    Parameters
    ----------
    effort
        `FULL` for figures, `PAPER` for a Cholesky of the paper's size, `QUICK` to see that it works.
    directory
        Where traces are made and removed; by default the folder for temporary files.

    Returns
    -------
    dict
        `machine` (as `describe_machine`), `effort`, and `figures`: plain values as `Figure.as_plain`, in the order
        in which they are to be read. Peers that are not installed are named and not measured.

    Raises
    ------
    UsageError
        If a recording runs in this process.
    WrongResultError
        If the runtime or a peer got a wrong factor.
    """
    machine = describe_machine()
    workers = effort.workers or usable_cpus()
    with tempfile.TemporaryDirectory(prefix="tprof-runtime-", dir=directory) as name:
        place = Path(name)
        figures = [
            *measure_spawning(place, effort.tasks, workers, effort.rounds),
            *measure_factoring(place, effort.rows, effort.tile_rows, workers, rounds=effort.cholesky_rounds),
            *measure_memory(effort.graph_tasks, workers, effort.graph_rounds),
        ]
    return {
        "machine": machine,
        "effort": {**asdict(effort), "workers": workers},
        "figures": [figure.as_plain() for figure in figures],
    }


def measure_memory(tasks: int, workers: int, rounds: int) -> list[Figure]:
    """Measure the memory of graphs in child processes."""
    throttled = [measure_throttled(tasks, workers) for _ in range(rounds)]
    live = [measure_live(tasks, workers) for _ in range(rounds)]
    return [
        _memory(f"peak memory, {tasks:,} tasks in {CHAINS:,} chains, then {tasks:,} independent ones", throttled),
        _memory(f"peak memory, {tasks:,} unfinished tasks in {CHAINS:,} chains, max_pending=None", live),
    ]


def _memory(name: str, peaks: list[Peak]) -> Figure:
    most = max(peak.most_unfinished for peak in peaks)
    before_mb = max(peak.before_bytes for peak in peaks) / 1e6
    note = f"{most:,} unfinished at most; {before_mb:.0f} MB of it before the first task"
    return Figure(name, tuple(peak.peak_bytes / 1e6 for peak in peaks), "MB", MOST_MB, note)
