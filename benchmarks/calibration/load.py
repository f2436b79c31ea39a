"""Which kernels a calibration runs: those made to be unlike each other, PolyBench's, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.benchmarks import polybench
from tprof.benchmarks.kernels import kernels

from tprof.errors import UsageError

if TYPE_CHECKING:
    from tprof.benchmarks.kernels import Caches, Kernel

SETS = ("stress", "polybench", "all")


def chosen(name: str, caches: Caches, cores: int) -> tuple[Kernel, ...]:
    """Return the kernels of a set.

    Parameters
    ----------
    name
        ``"stress"``, ``"polybench"`` or ``"all"``.
    caches, cores
        Decide over the working sets of the stress kernels; PolyBench's have their own.

    Raises
    ------
    UsageError
        If there is no such set.
    """
    check_set(name)
    stress = () if name == "polybench" else kernels(caches, cores)
    return stress if name == "stress" else stress + polybench.loads()


def check_set(name: str) -> None:
    """Refuse what is none of `SETS`. Raises UsageError."""
    if name not in SETS:
        message = f'kernels must be {", ".join(SETS[:-1])} or {SETS[-1]}; got "{name}"'
        raise UsageError(message)
