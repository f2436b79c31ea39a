"""Empty tasks of the runtime beside those of libraries for C++, on the same graphs in the same rounds."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.measured_figures import Figure
from tprof.runtime import Runtime

import tprof
from benchmarks.peers import OURS
from benchmarks.peers.contract import grid_side, grid_steps, in_order
from benchmarks.peers.native_libraries import LIBRARIES, predecessors, run_graph, write_graph

from .timing import ratios, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

CHAINS = 1_000
THEIRS = "functions of C++; the graph is made and then run"

touch_nothing = tprof.task(name="nothing")(sys.getdefaultencoding)
"""A call that executes no Python."""


@tprof.task(name="touch", reads=("first", "second"), updates=("updated",))
def touch(first: object, second: object, updated: object) -> None:
    """Do nothing to up to three arrays."""


@dataclass(frozen=True)
class Order:
    """A graph of empty tasks.

    Attributes
    ----------
    name : what tables call it.
    steps : up to two data that a task reads, and the one that it updates (None: it touches nothing).
    """

    name: str
    steps: list[tuple[tuple[Hashable, ...], Hashable | None]]

    def run(self, workers: int) -> float:
        """Return the seconds in which the runtime spawns and runs it; each datum is an array of its own."""
        if all(updated is None for _, updated in self.steps):
            return OURS.run_empty(len(self.steps), workers)
        names = {datum for read, updated in self.steps for datum in (*read, updated)}
        arrays: dict[Hashable, Any] = {name: np.zeros(8) for name in names} | {None: None}
        calls = [tuple(arrays[datum] for datum in (*[None] * (2 - len(read)), *read, at)) for read, at in self.steps]
        with Runtime(workers=workers) as runtime:
            begin_s = time.perf_counter()
            for first, second, updated in calls:
                touch(first, second, updated)
            runtime.wait()
            return time.perf_counter() - begin_s


def make_orders(tasks: int, tiles: int) -> tuple[Order, ...]:
    """Return graphs of about so many tasks with 0, 1 and 3 dependences each, and the Cholesky's of so many tiles."""
    grid = [((row, column), updated) for row, column, updated in grid_steps(grid_side(tasks))]
    factor = [(tuple(places[:-1]), places[-1]) for _, places in in_order(tiles)]
    return (
        Order("no dependence", [((), None)] * tasks),
        Order("1 dependence each", [((), index % CHAINS) for index in range(tasks)]),
        Order("3 dependences each", list(grid)),
        Order(f"the Cholesky's graph of {tiles:,} × {tiles:,} tiles", list(factor)),
    )


def measure_native(directory: Path, tasks: int, tiles: int, workers: int, *, rounds: int) -> list[Figure]:
    """Measure the graphs in interleaved rounds; a library that is missing is named and not measured."""
    programs = {library.name: library.compile(directory) for library in LIBRARIES}
    orders = make_orders(tasks, tiles)
    subjects: dict[str, Callable[[], float]] = {"C": partial(_run_c, tasks, workers)}
    edges: dict[str, int] = {}
    for number, order in enumerate(orders):
        path = directory / f"graph-{number}"
        found = predecessors(order.steps)
        write_graph(path, found)
        edges[order.name] = sum(map(len, found))
        subjects[order.name] = partial(order.run, workers)
        for name, program in programs.items():
            if program is not None:
                subjects[f"{order.name}{name}"] = partial(run_graph, program, path, workers)
    taken = take_turns(subjects, rounds=rounds)
    calling_c = Figure("tasks a second, no dependence: tprof, calling C", _rates(taken["C"], tasks), "1/s")
    return [calling_c, *(figure for order in orders for figure in _figures(order, edges[order.name], taken))]


def _figures(order: Order, edges: int, taken: dict[str, tuple[float, ...]]) -> list[Figure]:
    count, ours = len(order.steps), taken[order.name]
    label = f"tasks a second, {order.name}"
    figures = [Figure(f"{label}: {OURS.name}", _rates(ours, count), "1/s", note=f"{count:,} tasks, {edges:,} edges")]
    for library in LIBRARIES:
        theirs = taken.get(f"{order.name}{library.name}")
        over = f"a task, {order.name}: {OURS.name} over {library.name}"
        if theirs is None:
            note = f"not measured: no {library.name} for a compiler of C++ here ({library.package})"
            figures.append(Figure(f"{label}: {library.name}", (), "1/s", note=note))
            continue
        figures.append(Figure(f"{label}: {library.name}", _rates(theirs, count), "1/s", note=THEIRS))
        figures.append(Figure(over, ratios(ours, theirs), "×", note="Python that finds the graph, over C++ given it"))
    return figures


def _run_c(tasks: int, workers: int) -> float:
    with Runtime(workers=workers):
        begin_s = time.perf_counter()
        futures: list[Any] = [touch_nothing() for _ in range(tasks)]
        for future in futures:
            future.result()
        return time.perf_counter() - begin_s


def _rates(taken: tuple[float, ...], tasks: int) -> tuple[float, ...]:
    return tuple(tasks / duration_s for duration_s in taken)
