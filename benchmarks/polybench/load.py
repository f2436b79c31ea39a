"""The kernels as the load of a calibration: called again and again for a given time, each time on the same numbers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from tprof.benchmarks.kernels import Kernel as Load

from .catalogue import KERNELS, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from .catalogue import Kernel


def loads(size: str = "paper") -> tuple[Load, ...]:
    """Return every kernel of that size as a calibration takes it; the work is floating point operations."""
    return tuple(_load(kernel, size) for kernel in KERNELS.values())


def _load(kernel: Kernel, size: str) -> Load:
    sizes = kernel.sizes(size)

    def prepare() -> Callable[[float], tuple[float, float]]:
        arrays = kernel.arrays(sizes)
        # Products would grow call by call until they are no numbers, and those switch fewer transistors.
        first = {name: arrays[name].copy() for name in kernel.changed}

        def load(seconds: float) -> tuple[float, float]:
            work, end_s = 0, time.perf_counter() + seconds
            while time.perf_counter() < end_s:
                for name, values in first.items():
                    np.copyto(arrays[name], values)
                run(kernel, arrays, sizes.get("t", 1))
                work += kernel.flops(sizes)
            return float(work), float(sum(arrays[name].flat[-1] for name in kernel.results))

        return load

    return Load(kernel.name, kernel.footprint(sizes), prepare)
