"""Energy scalability: how many cores, at which frequency, an algorithm should take for time, energy or both."""

from .algorithms import ALGORITHMS, Algorithm, Work
from .figures import figure_2, figure_3
from .machine import PAPER, Multicore, find_multicore, normalised
from .metrics import Best, bounded, efficient, least_energy, least_time, most_efficient
from .run import Run, evaluate, isoperformance, sequential_s
from .sweep import Sweep, fit_sweep

__all__ = [
    "ALGORITHMS", "PAPER", "Algorithm", "Best", "Multicore", "Run", "Sweep", "Work", "bounded", "efficient", "evaluate",
    "figure_2", "figure_3", "find_multicore", "fit_sweep", "isoperformance", "least_energy", "least_time",
    "most_efficient", "normalised", "sequential_s",
]  # fmt: skip
