"""What the task runtime costs, beside its peers: the measurement behind `scripts/bench runtime`.

An empty task, recorded or not; empty tasks beside those of libraries for C++ (`native_cost.py`); the tiled Cholesky
(`factoring.py`); the memory of a graph of a million tasks, in child processes of their own. What locks would allow on
more cores is simulated (`scaling_simulation.py`).
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.machine_description import describe_machine, usable_cpus
from tprof.benchmarks.measured_figures import Figure
from tprof.runtime import Runtime

import tprof
from benchmarks.peers import DASK, EXECUTOR, OURS, PEERS, BatchPeer, GraphPeer
from benchmarks.peers.contract import grid_count, grid_side

from .children import memory_bytes
from .factoring import measure_factoring
from .native_cost import CHAINS, measure_native
from .scaling_simulation import simulate_scaling
from .timing import differences, ratios, take_turns

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray


MOST_MB = 1_000.0
ALONE = "an empty task"
LINKED = "an empty task that depends on three others"
RECORDED = f"{ALONE}, recorded"
OVER_EXECUTOR, OVER_EXECUTOR_LINKED, OVER_DASK = 0.5, 1.0, 0.2
OVER_PLAIN = 1.3
DEADLINE_S = 600.0


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes
    ----------
    tasks, rounds : in a batch of empty tasks, and how often each batch runs.
    tiles : in a row of the Cholesky whose tasks are empty.
    rows, tile_rows, cholesky_rounds : of the tiled Cholesky.
    graph_tasks, graph_rounds : of the graph whose memory is looked at; at least 10,000.
    workers : threads of the runtime and of each peer; None: one a processor.
    """

    tasks: int = 100_000
    rounds: int = 7
    tiles: int = 64
    rows: int = 4_480
    tile_rows: int = 320
    cholesky_rounds: int = 7
    graph_tasks: int = 1_000_000
    graph_rounds: int = 3
    workers: int | None = None


FULL = Extent()
PAPER = replace(FULL, rows=10_240, cholesky_rounds=3)
QUICK = Extent(
    tasks=500, rounds=1, tiles=4, rows=256, tile_rows=64, cholesky_rounds=1, graph_tasks=10_000, graph_rounds=1
)


def measure(extent: Extent = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure what the runtime costs, in one run.

    Parameters
    ----------
    extent
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
    workers = extent.workers or usable_cpus()
    with tempfile.TemporaryDirectory(prefix="tprof-runtime-", dir=directory) as name:
        place = Path(name)
        figures = [
            *measure_spawning(place, extent.tasks, workers, extent.rounds),
            *measure_native(place, extent.tasks, extent.tiles, workers, rounds=extent.rounds),
            *measure_factoring(place, extent.rows, extent.tile_rows, workers, rounds=extent.cholesky_rounds),
            *measure_memory(extent.graph_tasks, workers, extent.graph_rounds),
            *simulate_scaling(),
        ]
    return {
        "machine": machine,
        "effort": {**asdict(extent), "workers": workers},
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


def measure_spawning(directory: Path, tasks: int, workers: int, rounds: int) -> list[Figure]:
    """Measure batches of empty tasks, independent and not, in interleaved rounds; a slow peer's are smaller."""
    taken = take_turns(_subjects(directory, tasks, workers), rounds=rounds)
    ours, linked = taken[_label(ALONE, OURS)], taken[_label(LINKED, OURS)]
    executor = taken[_label(ALONE, EXECUTOR)]
    return [
        Figure(_label(ALONE, OURS), ours, "ns", note=_batch(tasks)),
        *(_peer_figure(ALONE, peer, taken, tasks) for peer in PEERS if isinstance(peer, BatchPeer)),
        Figure(f"{ALONE}: tprof over {EXECUTOR.name}", ratios(ours, executor), "×", OVER_EXECUTOR),
        _over_dask(ALONE, ours, taken),
        Figure(_label(LINKED, OURS), linked, "ns", note=_batch(grid_count(grid_side(tasks)))),
        _peer_figure(LINKED, DASK, taken, tasks),
        Figure(
            f"{LINKED}: tprof over {EXECUTOR.name}'s independent one",
            ratios(linked, executor),
            "×",
            OVER_EXECUTOR_LINKED,
        ),
        _over_dask(LINKED, linked, taken),
        Figure(
            f"{RECORDED}, over one that is not",
            differences(taken[RECORDED], ours),
            "ns",
            note="two samples, their writing, and what that takes from the other threads",
        ),
        Figure(f"{RECORDED}: over one that is not", ratios(taken[RECORDED], ours), "×", OVER_PLAIN),
    ]


def _subjects(directory: Path, tasks: int, workers: int) -> dict[str, Callable[[], float]]:
    subjects: dict[str, Callable[[], float]] = {RECORDED: partial(_recorded_ns, directory, tasks, workers)}
    for peer in (OURS, *PEERS):
        if isinstance(peer, BatchPeer) and peer.is_installed():
            subjects[_label(ALONE, peer)] = partial(_empty_ns, peer, min(tasks, peer.most_empty), workers)
        if isinstance(peer, GraphPeer) and peer.is_installed():
            subjects[_label(LINKED, peer)] = partial(_grid_ns, peer, _side(peer, tasks), workers)
    return subjects


def _recorded_ns(directory: Path, tasks: int, workers: int) -> float:
    with tprof.record(directory / "empty.tprof", energy="estimate", counters="none", overwrite=True):
        return _empty_ns(OURS, tasks, workers)


def _empty_ns(peer: BatchPeer, tasks: int, workers: int) -> float:
    return peer.run_empty(tasks, workers) * 1e9 / tasks


def _grid_ns(peer: GraphPeer, side: int, workers: int) -> float:
    return peer.run_grid(side, workers) * 1e9 / grid_count(side)


def _side(peer: BatchPeer, tasks: int) -> int:
    return grid_side(min(tasks, peer.most_empty))


def _label(what: str, peer: BatchPeer) -> str:
    return f"{what}: {peer.name}"


def _batch(tasks: int) -> str:
    return f"batches of {tasks:,}"


def _peer_figure(what: str, peer: BatchPeer, taken: dict[str, tuple[float, ...]], tasks: int) -> Figure:
    label = _label(what, peer)
    if label not in taken:
        return Figure(label, (), "ns", note="not installed")
    made = min(tasks, peer.most_empty) if what == ALONE else grid_count(_side(peer, tasks))
    return Figure(label, taken[label], "ns", note=_batch(made))


def _over_dask(what: str, ours: tuple[float, ...], taken: dict[str, tuple[float, ...]]) -> Figure:
    name, label = f"{what}: tprof over {DASK.name}", _label(what, DASK)
    target = OVER_DASK if what == ALONE else None
    if label not in taken:
        return Figure(name, (), "×", target, "not installed", comparable=False)
    return Figure(name, ratios(ours, taken[label]), "×", target)


@dataclass(frozen=True)
class Peak:
    """What a graph took.

    Attributes
    ----------
    before_bytes, peak_bytes : resident memory of the process before the first task, and the most it ever was.
    most_unfinished : tasks at a time.
    """

    before_bytes: int
    peak_bytes: int
    most_unfinished: int


@tprof.task(name="link", updates=("chain",))
def link(chain: NDArray[np.float64]) -> None:
    """Follow the link before it."""


@tprof.task(name="head", reads=("gate",), updates=("chain",))
def head(gate: NDArray[np.float64], chain: NDArray[np.float64]) -> None:
    """Begin a chain once the gate is open."""


@tprof.task(name="hold", updates=("gate",))
def hold(gate: NDArray[np.float64], is_open: threading.Event) -> None:  # noqa: ARG001 - what it updates
    """Keep the gate shut until all is spawned."""
    is_open.wait(DEADLINE_S)


@tprof.task(name="alone")
def alone() -> None:
    """Depend on nothing."""


def measure_throttled(tasks: int, workers: int) -> Peak:
    """Return what that many tasks in chains and as many independent ones take where spawning waits, as it is set."""
    return _in_child(_throttled, tasks, workers)


def measure_live(tasks: int, workers: int) -> Peak:
    """Return what that many tasks in chains take where none may end before all are spawned, without a limit."""
    return _in_child(_live, tasks, workers)


def _throttled(tasks: int, workers: int) -> Peak:
    chains = _chains()
    before_bytes = memory_bytes("VmRSS")
    with Runtime(workers=workers) as runtime:
        for index in range(tasks):
            link(chains[index % CHAINS])
        for _ in range(tasks):
            alone()
        runtime.wait()
        return _peak(runtime, before_bytes)


def _live(tasks: int, workers: int) -> Peak:
    chains, gate, is_open = _chains(), np.zeros(1), threading.Event()
    before_bytes = memory_bytes("VmRSS")
    with Runtime(workers=workers, max_pending=None) as runtime:
        hold(gate, is_open)
        for chain in chains:
            head(gate, chain)
        for index in range(tasks - CHAINS - 1):
            link(chains[index % CHAINS])
        is_open.set()
        runtime.wait()
        return _peak(runtime, before_bytes)


def _chains() -> list[NDArray[np.float64]]:
    return [np.zeros(1) for _ in range(CHAINS)]


def _peak(runtime: Runtime, before_bytes: int) -> Peak:
    return Peak(before_bytes, memory_bytes("VmHWM"), runtime.counts()["peak_unfinished"])


def _in_child(work: Callable[[int, int], Peak], tasks: int, workers: int) -> Peak:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (tasks, workers))
