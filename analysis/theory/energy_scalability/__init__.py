"""Energy scalability: how many cores, at which frequency, an algorithm should take for time, energy or both."""

from .best_cores import Best, bounded, efficient, figure_2, figure_3, least_energy, least_time, most_efficient
from .fit_multicore import Sweep, fit_sweep
from .multicore import PAPER, Multicore, Run, evaluate, find_multicore, isoperformance, normalised, sequential_s
from .parallel_algorithms import ALGORITHMS, Algorithm, Work

__all__ = [
    "ALGORITHMS", "PAPER", "Algorithm", "Best", "Multicore", "Run", "Sweep", "Work", "bounded", "efficient", "evaluate",
    "figure_2", "figure_3", "find_multicore", "fit_sweep", "isoperformance", "least_energy", "least_time",
    "most_efficient", "normalised", "sequential_s",
]  # fmt: skip
