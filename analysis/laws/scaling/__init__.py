"""Perfect strong scaling: time, energy and power of communication-avoiding algorithms, and their best executions."""

from .algorithms import ALGORITHMS, OMEGA, Algorithm, Costs, nbody
from .bounds import (
    figure_3,
    matmul_words,
    parallel_messages,
    parallel_words,
    sequential_messages,
    sequential_words,
)
from .closed_form import NBody
from .limits import QUANTITIES, Limits, Optimum
from .machine import Level, Machine, TwoLevelMachine
from .machines import Processor, find_machine, machines, processors, read_machine
from .regions import figure_4
from .run import Run, can_run, evaluate
from .search import Problem, optimise
from .target import Reach, factor_for, generations
from .two_levels import TWO_LEVEL_ALGORITHMS, TwoLevelAlgorithm, evaluate_two_levels, two_level_nbody

__all__ = [
    "ALGORITHMS", "OMEGA", "QUANTITIES", "TWO_LEVEL_ALGORITHMS", "Algorithm", "Costs", "Level", "Limits", "Machine",
    "NBody", "Optimum", "Problem", "Processor", "Reach", "Run", "TwoLevelAlgorithm", "TwoLevelMachine", "can_run",
    "evaluate", "evaluate_two_levels", "factor_for", "figure_3", "figure_4", "find_machine", "generations", "machines",
    "matmul_words", "nbody", "optimise", "parallel_messages", "parallel_words", "processors", "read_machine",
    "sequential_messages", "sequential_words", "two_level_nbody",
]  # fmt: skip
