"""How much memory a graph of a million tasks takes, in child processes of their own."""

from __future__ import annotations

import multiprocessing
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tprof.runtime import Runtime

import tprof

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CHAINS = 1_000
DEADLINE_S = 600.0


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
    before_bytes = _resident_bytes("VmRSS")
    with Runtime(workers=workers) as runtime:
        for index in range(tasks):
            link(chains[index % CHAINS])
        for _ in range(tasks):
            alone()
        runtime.wait()
        return _peak(runtime, before_bytes)


def _live(tasks: int, workers: int) -> Peak:
    chains, gate, is_open = _chains(), np.zeros(1), threading.Event()
    before_bytes = _resident_bytes("VmRSS")
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
    return Peak(before_bytes, _resident_bytes("VmHWM"), runtime.counts()["peak_unfinished"])


def _resident_bytes(field: str) -> int:
    """Return this process's memory; not by `getrusage`, whose peak begins with that of the process that forked."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{field}:"))


def _in_child(work: Callable[[int, int], Peak], tasks: int, workers: int) -> Peak:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (tasks, workers))
