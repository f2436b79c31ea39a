"""What one run of a benchmark program gives back once its result was checked, and what makes a program a script.

A program runs by ``python -m tprof.benchmarks.programs.NAME --size small --workers 2``, too.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tprof.benchmarks.machine_description import usable_cpus

from tprof.errors import TprofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager


SIZES = ("small", "paper")


class WrongResultError(TprofError):
    """A benchmark program calculated something that its check refutes."""


@dataclass(frozen=True)
class Outcome:
    """A run whose result is right.

    Attributes
    ----------
    instances : how often each task ran, by its name.
    duration_s : of the parallel part only, without making the input and without the check.
    checks : what was compared with what, one clause each.
    facts : numbers about the input, by name.
    """

    program: str
    size: str
    workers: int
    instances: Mapping[str, int]
    duration_s: float
    checks: tuple[str, ...]
    facts: Mapping[str, int] = field(default_factory=dict)

    def sentence(self) -> str:
        """Return the run in one line."""
        tasks = ", ".join(f"{count:,} {name}" for name, count in self.instances.items())
        return (
            f"{self.program} ({self.size}, {self.workers} workers): {tasks} in {self.duration_s:.2f} s; "
            f"checked: {'; '.join(self.checks)}"
        )


def check_size(size: str) -> None:
    """Refuse a size that no program has.

    Raises
    ------
    UsageError
        If it is none of `SIZES`.
    """
    if size not in SIZES:
        raise UsageError(f"the size of a program must be {' or '.join(SIZES)}, got {size!r}")


def check_workers(workers: int) -> None:
    """Refuse a number of threads below one.

    Raises
    ------
    UsageError
        If it is below one.
    """
    if workers < 1:
        raise UsageError(f"a program needs at least 1 worker, got {workers}")


def main(run: Callable[[str, int, AbstractContextManager[object]], Outcome], description: str | None) -> None:
    """Run the program as the command line asks and print its outcome."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--size", choices=SIZES, default="small", help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=usable_cpus(), help="threads; default: %(default)s")
    arguments = parser.parse_args()
    try:
        check_workers(arguments.workers)
        sys.stdout.write(run(arguments.size, arguments.workers, nullcontext()).sentence() + "\n")
    except TprofError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        sys.exit(2 if isinstance(error, UsageError) else 1)
