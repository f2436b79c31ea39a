"""PolyBench: the kernels of the paper's table 2, with atax and bicg, as tasks of C code on a thread pool.

Seventeen tasks that differ in what they load: pipeline, caches, memory. Each instance is one call on arrays of its own,
which are copied before the task begins. What a call leaves is checked by a sum over the bits of its results; afterwards
one more call of each kernel is compared with NumPy, number by number, and has to give the same sum.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks import polybench
from tprof.benchmarks.polybench import KERNELS

import tprof

from .outcome import Checked, WrongResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from tprof.benchmarks.polybench import Kernel

    Array = np.ndarray[Any, np.dtype[np.float64]]

INSTANCES = {"small": 4, "paper": 20}
# Sums of some thousand products in another order: many rounding errors of the largest numbers, and no more.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Problem:
    """A kernel with what it begins with; calls work on copies."""

    kernel: Kernel
    arrays: dict[str, Array]
    steps: int

    def copy(self) -> dict[str, Array]:
        """Return arrays of one's own."""
        return {name: values.copy() for name, values in self.arrays.items()}


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Call every kernel so many times on threads, inside `during`, and check all results."""
    problems = make_problems(size)
    with during:
        begin_s = time.perf_counter()
        sums = call_all(problems, INSTANCES[size], workers)
        duration_s = time.perf_counter() - begin_s
    return Checked(
        duration_s=duration_s,
        checks=check(problems, sums),
        facts={
            "flops": INSTANCES[size] * sum(kernel.flops(kernel.sizes(size)) for kernel in KERNELS.values()),
            "footprint_bytes": sum(kernel.footprint(kernel.sizes(size)) for kernel in KERNELS.values()),
        },
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of each task, as many of one as of another."""
    return dict.fromkeys(KERNELS, INSTANCES[size])


def make_problems(size: str) -> list[Problem]:
    """Return each kernel with PolyBench's initial values."""
    sizes = [(kernel, kernel.sizes(size)) for kernel in KERNELS.values()]
    return [Problem(kernel, kernel.arrays(of), of.get("t", 1)) for kernel, of in sizes]


def call_all(problems: list[Problem], instances: int, workers: int) -> dict[str, list[int]]:
    """Call them in turn, so that each runs beside many others; return the sum of each call by the kernel's name."""
    with ThreadPoolExecutor(workers, thread_name_prefix="polybench") as pool:
        calls: dict[str, list[Future[int]]] = {problem.kernel.name: [] for problem in problems}
        for _ in range(instances):
            for problem in problems:
                calls[problem.kernel.name].append(pool.submit(call, problem))
        return {name: [one.result() for one in ones] for name, ones in calls.items()}


def call(problem: Problem) -> int:
    """Call a kernel on arrays of its own; return the sum of its results."""
    arrays = problem.copy()
    TASKS[problem.kernel.name](arrays, problem.steps)
    return bit_sum(arrays[name] for name in problem.kernel.results)


def bit_sum(results: Iterable[Array]) -> int:
    """Return the sum of the bits of all numbers, read as integers, modulo 2**64: one number that differs changes it."""
    return sum(int(values.view(np.uint64).sum(dtype=np.uint64)) for values in results) % 2**64


def _make_task(kernel: Kernel) -> Callable[[dict[str, Array], int], None]:
    return tprof.task(name=kernel.name)(partial(polybench.run, kernel))


TASKS = {name: _make_task(kernel) for name, kernel in KERNELS.items()}


def check(problems: list[Problem], sums: dict[str, list[int]]) -> tuple[str, ...]:
    """Compare one call of each kernel with NumPy, and all others with that one.

    Raises
    ------
    WrongResultError
        If a result differs.
    """
    for problem in problems:
        name, arrays = problem.kernel.name, problem.copy()
        # Not the task: the check is no part of the program.
        polybench.run(problem.kernel, arrays, problem.steps)
        for array, right in problem.kernel.reference(problem.arrays, problem.steps).items():
            _compare(name, array, arrays[array], right)
        once = bit_sum(arrays[result] for result in problem.kernel.results)
        wrong = [place for place, found in enumerate(sums[name]) if found != once]
        if wrong:
            raise WrongResultError(
                f"polybench's {name} gave another result in call {wrong[0]} than in a call on its own"
            )
    calls = sum(map(len, sums.values()))
    return (f"{len(problems)} kernels against NumPy", f"{calls:,} calls against those")


def _compare(name: str, array: str, found: Array, right: Array) -> None:
    differs = ~(np.abs(found - right) <= TOLERANCE * np.abs(right).max())
    if differs.any():
        place = tuple(int(index) for index in np.argwhere(differs)[0])
        raise WrongResultError(
            f"polybench's {name} has {found[place]} in {array}{list(place)}, NumPy says {right[place]}"
        )


if __name__ == "__main__":
    from .outcome import main

    main()
