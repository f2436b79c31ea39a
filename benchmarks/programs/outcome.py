"""What one run of a benchmark program gives back once its result was checked, and what makes a program a script.

A program runs by ``python -m tprof.benchmarks.programs.NAME --size small --workers 2``, too.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tprof.benchmarks.machine_description import usable_cpus
from tprof.runtime import Runtime

from tprof.errors import TprofError, UsageError
from tprof.trace.plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
            f"{self.program} ({self.size}, {counted(self.workers, 'worker')}): {tasks} in {self.duration_s:.2f} s; "
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


class Checked(NamedTuple):
    """What a program's `run` returns: `duration_s`, `checks` and `facts` of its `Outcome`."""

    duration_s: float
    checks: tuple[str, ...]
    facts: Mapping[str, int]


class ProgramModule(Protocol):
    """The module that is a program."""

    def run(self, size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
        """Make the input, run on so many workers inside `during`, and check. Raises WrongResultError."""

    def count_instances(self, size: str) -> dict[str, int]:
        """Return how often each task runs, by its name."""


@dataclass
class Stopwatch:
    """The seconds of a block, once it has ended."""

    duration_s: float = 0.0


CLUSTER_WORKERS: ContextVar[int | None] = ContextVar("tprof_cluster_workers", default=None)
"""Worker processes of a cluster on this machine that run programs; None: threads do."""


@contextmanager
def on_runtime(workers: int, during: AbstractContextManager[object]) -> Iterator[Stopwatch]:
    """Run a block's tasks on a runtime, inside `during`, and time them."""
    watch = Stopwatch()
    with during, _runtime(workers) as runtime:
        begin_s = time.perf_counter()
        yield watch
        runtime.wait()
        watch.duration_s = time.perf_counter() - begin_s


@contextmanager
def _runtime(workers: int) -> Iterator[Runtime]:
    processes = CLUSTER_WORKERS.get()
    if processes is None:
        with Runtime(workers=workers) as runtime:
            yield runtime
        return
    from .local_cluster import local_cluster  # noqa: PLC0415 - loads an extra

    with local_cluster(processes) as client, Runtime(cluster=client) as runtime:
        yield runtime


def outcome_of(
    name: str, module: ProgramModule, size: str, workers: int, during: AbstractContextManager[object]
) -> Outcome:
    """Run a program.

    Raises
    ------
    UsageError
        If size or workers are out of range.
    WrongResultError
        If its check refutes the result.
    """
    check_size(size)
    check_workers(workers)
    checked = module.run(size, workers, during)
    return Outcome(name, size, workers, module.count_instances(size), *checked)


def main() -> None:
    """Run the script's program as the command line asks and print its outcome."""
    module: Any = sys.modules["__main__"]
    parser = argparse.ArgumentParser(description=module.__doc__ and module.__doc__.partition("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="small", help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=usable_cpus(), help="threads; default: %(default)s")
    arguments = parser.parse_args()
    try:
        name = Path(module.__file__).stem
        outcome = outcome_of(name, module, arguments.size, arguments.workers, nullcontext())
        sys.stdout.write(outcome.sentence() + "\n")
    except TprofError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        sys.exit(2 if isinstance(error, UsageError) else 1)
