"""Perfect strong scaling: time, energy and power of communication-avoiding algorithms, and their best executions."""

from .communication import (
    ALGORITHMS,
    OMEGA,
    Algorithm,
    Costs,
    figure_3,
    matmul_words,
    nbody,
    parallel_messages,
    parallel_words,
    sequential_messages,
    sequential_words,
)
from .distributed_machine import Level, Machine, Run, TwoLevelMachine, can_run, evaluate
from .machine_tables import Processor, find_machine, machines, processors, read_machine
from .nbody_closed_form import NBody
from .optimum import QUANTITIES, Limits, Optimum, Problem, figure_4, optimise
from .target import Reach, factor_for, generations
from .two_levels import TWO_LEVEL_ALGORITHMS, TwoLevelAlgorithm, evaluate_two_levels, two_level_nbody

__all__ = [
    "ALGORITHMS", "OMEGA", "QUANTITIES", "TWO_LEVEL_ALGORITHMS", "Algorithm", "Costs", "Level", "Limits", "Machine",
    "NBody", "Optimum", "Problem", "Processor", "Reach", "Run", "TwoLevelAlgorithm", "TwoLevelMachine", "can_run",
    "evaluate", "evaluate_two_levels", "factor_for", "figure_3", "figure_4", "find_machine", "generations", "machines",
    "matmul_words", "nbody", "optimise", "parallel_messages", "parallel_words", "processors", "read_machine",
    "sequential_messages", "sequential_words", "two_level_nbody",
]  # fmt: skip
