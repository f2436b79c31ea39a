"""What an empty task costs on the runtime, recorded or not, and on its peers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tprof.benchmarks.figures import Figure
from tprof.benchmarks.peers import DASK, EXECUTOR, OURS, PEERS, BatchPeer, GraphPeer, grid

import tprof

from .timing import differences, ratios, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALONE = "an empty task"
LINKED = "an empty task that depends on three others"
RECORDED = f"{ALONE}, recorded"
OVER_EXECUTOR, OVER_EXECUTOR_LINKED, OVER_DASK = 0.5, 1.0, 0.2


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
        Figure(_label(LINKED, OURS), linked, "ns", note=_batch(grid.count(grid.side_for(tasks)))),
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
    return peer.run_grid(side, workers) * 1e9 / grid.count(side)


def _side(peer: BatchPeer, tasks: int) -> int:
    return grid.side_for(min(tasks, peer.most_empty))


def _label(what: str, peer: BatchPeer) -> str:
    return f"{what}: {peer.name}"


def _batch(tasks: int) -> str:
    return f"batches of {tasks:,}"


def _peer_figure(what: str, peer: BatchPeer, taken: dict[str, tuple[float, ...]], tasks: int) -> Figure:
    label = _label(what, peer)
    if label not in taken:
        return Figure(label, (), "ns", note="not installed")
    made = min(tasks, peer.most_empty) if what == ALONE else grid.count(_side(peer, tasks))
    return Figure(label, taken[label], "ns", note=_batch(made))


def _over_dask(what: str, ours: tuple[float, ...], taken: dict[str, tuple[float, ...]]) -> Figure:
    name, label = f"{what}: tprof over {DASK.name}", _label(what, DASK)
    target = OVER_DASK if what == ALONE else None
    if label not in taken:
        return Figure(name, (), "×", target, "not installed", comparable=False)
    return Figure(name, ratios(ours, taken[label]), "×", target)
