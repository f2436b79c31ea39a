"""What NumPy reaches on the same cores: its copy and its matrix product, to hold the kernels against."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from .crew import TYPES

if TYPE_CHECKING:
    from .crew import Crew


def copy_bytes_per_s(crew: Crew, seconds: float) -> float:
    """Return the bytes a second that all cores' copies read and write; what a write reads first is not counted."""

    def work() -> float:
        source, target = crew.stream("double"), crew.other()
        begin = now = time.perf_counter()
        done = 0
        while now - begin < seconds:
            np.copyto(target, source)
            done += 2 * source.nbytes
            now = time.perf_counter()
        return done / (now - begin)

    return sum(crew.all(work))


def product_flops_per_s(precision: str, rows: int, seconds: float) -> float:
    """Return the flops a second of the fastest of NumPy's matrix products, on as many threads as its library takes."""
    left = np.full((rows, rows), 0.5, TYPES[precision])
    product = left @ left
    begin, best_s = time.perf_counter(), np.inf
    while time.perf_counter() - begin < seconds:
        before = time.perf_counter()
        np.matmul(left, left, out=product)
        best_s = min(best_s, time.perf_counter() - before)
    return 2.0 * rows**3 / best_s if np.isfinite(best_s) else float("nan")
