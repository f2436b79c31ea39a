"""Parallel algorithms by their critical path and by all that their cores do together.

To describe one, give an `Algorithm` two functions of its size n, the number of cores p and the machine. `path` counts
what lies on the critical path, `total` what all cores do; both return `Work`. Whatever follows, frequency that keeps a
time, energy, best number of cores, follows from these two. Logarithms are base 2, and n/p need not be whole.

>>> from tprof.analysis.theory.energy_scalability import Algorithm, Work, isoperformance, normalised
>>> search = Algorithm(
...     "search", "each core scans its part, none waits",
...     path=lambda n, p, machine: Work(machine.operation_cycles * n / p, n / (machine.block_words * p)),
...     total=lambda n, p, machine: Work(machine.operation_cycles * n, n / machine.block_words),
... )
>>> round(float(isoperformance(search, normalised(), 1e6, 2).frequency_hz), 6)
0.001992
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from .multicore import Multicore

Floats = NDArray[np.float64]


class Work(NamedTuple):
    """Counts, numbers or arrays that broadcast.

    Attributes
    ----------
    cycles : of computing, the part that runs at the cores' frequency.
    accesses : blocks moved between memory and a cache.
    syncs : times that a core, still active, waits for another.
    messages : sent between cores.
    """

    cycles: Floats | float
    accesses: Floats | float = 0.0
    syncs: Floats | float = 0.0
    messages: Floats | float = 0.0


@dataclass(frozen=True)
class Algorithm:
    """An algorithm on cores of one frequency.

    Attributes
    ----------
    name : as `tprof scaling` takes it.
    title : one clause.
    path : what lies on the critical path, from n, p and the machine.
    total : what all cores do together.
    sequential : what the best program on one core does, from n and the machine; without it `path` with p = 1.
    most_cores : how many cores have something to do, from n; without it n.
    """

    name: str
    title: str
    path: Callable[[Floats, Floats, Multicore], Work]
    total: Callable[[Floats, Floats, Multicore], Work]
    sequential: Callable[[Floats, Multicore], Work] | None = None
    most_cores: Callable[[float], float] = float


def _addition_path(n: Floats, p: Floats, machine: Multicore) -> Work:
    merges = np.log2(p)  # in each the core waits for its partner to write, reads and adds
    cycles = (n / p - 1 + merges) * machine.operation_cycles
    return Work(cycles, n / (machine.block_words * p) + merges, merges)


def _addition_total(n: Floats, p: Floats, machine: Multicore) -> Work:
    return Work((n - 1) * machine.operation_cycles, n / machine.block_words + 2 * (p - 1), p - 1)


def _reduction_path(n: Floats, p: Floats, machine: Multicore) -> Work:
    merges = np.log2(p)
    cycles = (n / p - 1 + merges) * machine.operation_cycles
    return Work(cycles, n / (machine.block_words * p), 0.0, merges)


def _reduction_total(n: Floats, p: Floats, machine: Multicore) -> Work:
    return Work((n - 1) * machine.operation_cycles, n / machine.block_words, 0.0, p - 1)


def _scan_path(n: Floats, p: Floats, machine: Multicore) -> Work:
    merges = 2 * np.log2(p)  # up the tree and down again
    cycles = (2 * n / p - 1 + merges) * machine.operation_cycles
    return Work(cycles, 3 * n / (machine.block_words * p) + merges, merges)


def _scan_total(n: Floats, p: Floats, machine: Multicore) -> Work:
    merges = 2 * (p - 1)
    return Work((2 * n - p + merges) * machine.operation_cycles, 3 * n / machine.block_words + 2 * merges, merges)


def _scan_sequential(n: Floats, machine: Multicore) -> Work:
    return Work((n - 1) * machine.operation_cycles, 2 * n / machine.block_words)


def _product_total(n: Floats, p: Floats, machine: Multicore) -> Work:
    # Tiles of which three fill a cache: two are read for each product of tiles, each tile of the result written once.
    # A core's own block of the result may be smaller than such a tile, and then it reads more.
    tile = np.minimum(np.sqrt(machine.cache_words / 3), n / np.sqrt(p))
    return Work(n**3 * machine.operation_cycles, (2 * n**3 / tile + n**2) / machine.block_words)


def _product_path(n: Floats, p: Floats, machine: Multicore) -> Work:
    return Work(*(np.asarray(part) / p for part in _product_total(n, p, machine)))


_ALL = (
    Algorithm("addition", "adds n numbers: each core its part, then along a tree through shared memory",
              _addition_path, _addition_total),
    Algorithm("reduction", "adds n numbers: each core its part, then along a tree by messages",
              _reduction_path, _reduction_total),
    Algorithm("prefix-sums", "all sums of the first k of n numbers: parts, a tree of offsets, the parts again",
              _scan_path, _scan_total, _scan_sequential),
    Algorithm("product", "product of two n by n matrices: each core its block of the result, by tiles of its cache",
              _product_path, _product_total, most_cores=lambda n: n * n),
)  # fmt: skip
ALGORITHMS = {algorithm.name: algorithm for algorithm in _ALL}
