"""Which programs are the suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.benchmarks.catalogue import PROGRAMS

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

# In the order of the paper's figures 5 to 10.
SUITE = ("jacobi", "fft", "multisort", "ferret", "cholesky", "blackscholes")


def members(names: Sequence[str] = SUITE) -> tuple[str, ...]:
    """Return the names of the suite's programs, each once.

    Raises
    ------
    UsageError
        If the catalogue lacks one: a suite with a gap would be read as a whole one.
    """
    lacking = [name for name in names if name not in PROGRAMS]
    if lacking:
        message = (
            f"the suite needs {', '.join(lacking)}, which the catalogue of programs does not have: "
            f"run what it has by name ({', '.join(PROGRAMS)})"
        )
        raise UsageError(message)
    return tuple(dict.fromkeys(names))
