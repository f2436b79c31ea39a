"""Which programs there are, what each works on, and how to run one; a program's module is loaded when it runs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from tprof.benchmarks.machine_description import usable_cpus

from .outcome import check_size, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from .outcome import Outcome, ProgramModule


@dataclass(frozen=True)
class Program:
    """A task-parallel program that checks its own result.

    Attributes
    ----------
    name : as `tprof bench` takes it.
    description : one clause.
    module : the module that is the program; ``python -m`` runs it too.
    inputs : what it works on, for each size.
    tasks : the names of its tasks.
    """

    name: str
    description: str
    module: str
    inputs: Mapping[str, str]
    tasks: tuple[str, ...]

    def run(
        self,
        size: str = "small",
        workers: int | None = None,
        during: AbstractContextManager[object] | None = None,
    ) -> Outcome:
        """Run it and check its result.

        Parameters
        ----------
        size
            ``"small"`` (a second or less) or ``"paper"`` (the whole input).
        workers
            Threads; by default as many as there are processors for this process.
        during
            Entered around the parallel part, without making the input and the check: a recording.

        Raises
        ------
        UsageError
            If size or workers are out of range.
        WrongResultError
            If its check refutes the result.
        """
        workers = usable_cpus() if workers is None else workers
        return outcome_of(self.name, self._load(), size, workers, nullcontext() if during is None else during)

    def instances(self, size: str = "small") -> dict[str, int]:
        """Return how often each task runs, by its name. Looks at the input; runs nothing."""
        check_size(size)
        return self._load().count_instances(size)

    def _load(self) -> ProgramModule:
        return cast("ProgramModule", import_module(self.module))


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            name="blackscholes",
            description="prices options by the Black-Scholes formula in NumPy kernels, as in the paper",
            module="tprof.benchmarks.programs.blackscholes",
            inputs={
                "small": "1 million options in tasks of 44,000",
                "paper": "16 million options in tasks of 44,000",
            },
            tasks=("blackscholes",),
        ),
        Program(
            name="cholesky",
            description="factors a symmetric matrix by tiles in BLAS kernels on the task runtime, as in the paper",
            module="tprof.benchmarks.programs.cholesky",
            inputs={
                "small": "1,536 rows and columns in tiles of 128",
                "paper": "10,240 rows and columns in tiles of 320",
            },
            tasks=("potrf", "trsm", "syrk", "gemm"),
        ),
        Program(
            name="jacobi",
            description="sweeps a 5-point stencil over a grid by tiles on the task runtime, as in the paper",
            module="tprof.benchmarks.programs.jacobi",
            inputs={
                "small": "512 rows and columns in tiles of 128, 8 sweeps",
                "paper": "5,120 rows and columns in tiles of 1,024, 32 sweeps",
            },
            tasks=("jacobi",),
        ),
        Program(
            name="ferret",
            description="finds the images that are most like a query by their segments' features, as in the paper",
            module="tprof.benchmarks.programs.ferret",
            inputs={
                "small": "32 images against a database of 2,000",
                "paper": "1,000 images against a database of 59,695",
            },
            tasks=("ferret",),
        ),
        Program(
            name="stdlib_digest",
            description="reads, parses, compresses and digests Python's own standard library",
            module="tprof.benchmarks.programs.stdlib_digest",
            inputs={
                "small": "every 16th source file of the standard library",
                "paper": "every source file of the standard library",
            },
            tasks=("read", "parse", "compress", "restore", "digest"),
        ),
        Program(
            name="fft",
            description="transforms one long vector by five phases of tasks on a square matrix, as in the paper",
            module="tprof.benchmarks.programs.fft",
            inputs={
                "small": "500 × 500 complex numbers in blocks of 120 × 120",
                "paper": "5656 × 5656 complex numbers in blocks of 200 × 200 (512 MB)",
            },
            tasks=("transp_blk", "transp_swp", "fft1", "tw_transp_blk", "tw_transp_swp", "fft2"),
        ),
        Program(
            name="multisort",
            description="sorts 64 chunks and merges them in pairs until one is left, as in the paper",
            module="tprof.benchmarks.programs.multisort",
            inputs={
                "small": "2^20 integers of 4 bytes in chunks of 2^14",
                "paper": "2^26 integers of 4 bytes in chunks of 2^20 (256 MiB, and as much to merge into)",
            },
            tasks=("sort", "merge"),
        ),
        Program(
            name="polybench",
            description="calls PolyBench's kernels in C: products, stencils, statistics, as in the paper's table 2",
            module="tprof.benchmarks.programs.polybench",
            inputs={
                "small": "4 calls of each kernel, some milliseconds each",
                "paper": "20 calls of each kernel, up to some tens of milliseconds each",
            },
            tasks=(
                "gemm", "jacobi1d", "jacobi2d", "fdtd2d", "seidel2d", "mm2", "mm3", "adi", "correlation", "covariance",
                "symm", "gemver", "mvt", "syrk", "trmm", "atax", "bicg",
            ),
        ),
    )
}  # fmt: skip
