"""How good a machine must become to reach a number of flops per joule: section V-F, and figures 6 and 7."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import UsageError

from .communication import ALGORITHMS, Floats
from .distributed_machine import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .communication import Algorithm
    from .distributed_machine import Machine

ENERGIES = ("gamma_e", "beta_e", "alpha_e", "delta_e", "epsilon_e")
SCALED = {"gamma_e": ("gamma_e",), "beta_e": ("beta_e",), "delta_e": ("delta_e",),
          "all": ("gamma_e", "beta_e", "delta_e")}  # fmt: skip
_LEAST = 1e-12


@dataclass(frozen=True)
class Reach:
    """The requirements of a target.

    Attributes
    ----------
    feasible : whether it can be reached by these constants.
    factor : by which they must be multiplied, at most 1; NaN where no factor does.
    gflops_per_w : what is reached then; where it is not feasible, what comes nearest, with these constants at 0.
    """

    feasible: bool
    factor: float
    gflops_per_w: float


def factor_for(
    target: float, machine: Machine, gflops_per_w: Callable[[Machine], float], names: Sequence[str] = ENERGIES
) -> Reach:
    """Find the factor on a machine's constants that makes it as efficient as asked.

    Parameters
    ----------
    target
        10⁹ flops per joule.
    machine
        Where one begins.
    gflops_per_w
        Efficiency of a machine; must not fall when a constant does. `NBody.gflops_per_w` of section V-F, or that of
        one execution.
    names
        Constants that improve together.

    Raises
    ------
    UsageError
        If the target is not above 0.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - see search.py

    if not (math.isfinite(target) and target > 0):
        raise UsageError(f"a target must be above 0 and finite, got {target:g} GFLOPS/W")

    def reached(log_factor: float) -> float:
        return gflops_per_w(machine.scaled(**dict.fromkeys(names, math.exp(log_factor))))

    lowest = math.log(_LEAST)
    if reached(0.0) >= target:
        return Reach(feasible=True, factor=1.0, gflops_per_w=reached(0.0))
    if reached(lowest) < target:
        return Reach(feasible=False, factor=math.nan, gflops_per_w=reached(lowest))
    found = brentq(lambda x: math.log(reached(x) / target), lowest, 0.0, xtol=1e-13)
    return Reach(feasible=True, factor=math.exp(found), gflops_per_w=reached(found))


def generations(
    machine: Machine,
    algorithm: Algorithm = ALGORITHMS["matmul"],
    n: float = 35000.0,
    p: float = 2.0,
    memory_words: float | None = None,
    count: int = 9,
) -> dict[str, Floats]:
    """Return figures 6 and 7: GFLOPS/W when energies are halved with each generation, one of them or all three.

    Parameters
    ----------
    memory_words
        In use by a processor. The paper does not say; without it the most that the algorithm can use, n²/p^(2/3).
    count
        Generations, the present one included.

    Returns
    -------
    dict
        `generation`, `gamma_e`, `beta_e`, `delta_e` and `all`, each (count,).
    """
    used = algorithm.memory_range(n, p)[1] if memory_words is None else memory_words
    steps = np.arange(count)
    curves = {
        label: np.array(
            [
                evaluate(algorithm, machine.scaled(**dict.fromkeys(names, 0.5**step)), n, p, used).gflops_per_w
                for step in steps
            ]
        )
        for label, names in SCALED.items()
    }
    return {"generation": steps.astype(float), **curves}
