"""Matrix multiplication and the n-body problem on a machine of two levels: equations (12) and (17).

Words between nodes are charged once a node, words within a node once a core. Energy is that of definition (2) for both
levels; expanded it is (12), whose time begins with gamma_t·n³/p, and (17). A level's latency enters as the paper says,
by beta + alpha/m in place of beta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .communication import FLOPS_PER_PAIR, Floats
from .distributed_machine import Run, check_sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from .distributed_machine import TwoLevelMachine


@dataclass(frozen=True)
class TwoLevelAlgorithm:
    """An algorithm on nodes and their cores.

    Attributes
    ----------
    name, title, flops, size_power, most : as in `Algorithm`.
    words : of a processor with M words among p of them, from n, p and M; taken for nodes and for cores.
    """

    name: str
    title: str
    flops: Callable[[Floats], Floats]
    words: Callable[[Floats, Floats, Floats], Floats]
    size_power: float
    most: float

    def memory_range(self, n: ArrayLike, nodes: ArrayLike) -> tuple[Floats, Floats]:
        """Return the least and the most words a node that so many nodes can use."""
        copy, count = np.asarray(n, float) ** self.size_power, np.asarray(nodes, float)
        return copy / count, copy / count**self.most


def two_level_nbody(flops_per_pair: float = FLOPS_PER_PAIR) -> TwoLevelAlgorithm:
    """Return the direct n-body problem on two levels; f flops for each pair."""
    return TwoLevelAlgorithm(
        "nbody-two-level",
        f"direct n-body problem on nodes and cores, {flops_per_pair:g} flops a pair",
        lambda n: flops_per_pair * n**2,
        lambda n, p, memory_words: n**2 / (p * memory_words),
        size_power=1,
        most=1 / 2,
    )


TWO_LEVEL_ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        TwoLevelAlgorithm(
            "matmul-two-level",
            "2.5D matrix multiplication on nodes and cores",
            lambda n: n**3,
            lambda n, p, memory_words: n**3 / (p * np.sqrt(memory_words)),
            size_power=2,
            most=2 / 3,
        ),
        two_level_nbody(),
    )
}


def evaluate_two_levels(
    algorithm: TwoLevelAlgorithm,
    machine: TwoLevelMachine,
    n: ArrayLike,
    nodes: ArrayLike,
    node_words: ArrayLike | None = None,
    core_words: ArrayLike | None = None,
) -> Run:
    """Evaluate the model; arrays broadcast.

    Parameters
    ----------
    n, nodes
        Sizes and numbers of nodes.
    node_words, core_words
        Words in use of a node's and of a core's memory, M_n and M_l; without them the most that is of use and fits.

    Returns
    -------
    Run
        Its `p` are cores, its `memory_words` the nodes'.
    """
    size, count = np.asarray(n, float), np.asarray(nodes, float)
    node, core = machine.node, machine.core
    most = np.minimum(algorithm.memory_range(size, count)[1], node.memory_words)
    large = most if node_words is None else np.asarray(node_words, float)
    small = np.asarray(core.memory_words if core_words is None else core_words, float)
    check_sizes(n=size, nodes=count, node_words=large, core_words=small)
    cores = count * machine.cores_per_node
    flops = algorithm.flops(size)
    outer, inner = algorithm.words(size, count, large), algorithm.words(size, cores, small)
    time_s = machine.gamma_t * flops / cores + node.word_s * outer + core.word_s * inner
    node_j = node.word_j * outer + node.delta_e * large * time_s
    core_j = machine.gamma_e * flops / cores + core.word_j * inner
    core_j = core_j + (core.delta_e * small + machine.epsilon_e) * time_s
    return Run(*np.broadcast_arrays(size, cores, large, flops, time_s, count * node_j + cores * core_j))
