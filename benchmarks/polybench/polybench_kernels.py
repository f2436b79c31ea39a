"""The seventeen kernels: the fifteen of the TProf paper's table 2, then atax and bicg, which its table 3 runs too.

Written from what PolyBench/C 4.2 computes, with its initial values and its order of loops. Names are those of the
virtual processor's kernels: mm2 and mm3 are PolyBench's 2mm and 3mm.

Operations are counted by the loops. An addition, multiplication, division and square root count one each, also where a
compiler makes one instruction of two. Factors that a loop does not change are taken out of it, as the C code does; a
kernel's few operations outside all loops are not counted.

References
----------
L.-N. Pouchet, T. Yuki: PolyBench/C, the polyhedral benchmark suite, version 4.2.1.
TProf, section 3, tables 2 to 4.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.kernels import Kernel as Load

from . import _polybench
from .initial_arrays import FORMULAS, fill
from .reference import REFERENCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Sizes = Mapping[str, int]

SIZES = ("small", "paper")
SIGNATURES = _polybench.signatures()


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    Attributes
    ----------
    name : as the virtual processor's.
    shapes : of each array the letters of its dimensions, in the order that the C code takes them; t is the steps.
    results : the arrays that PolyBench calls live-out.
    between : the arrays that it writes on the way.
    small, paper : a size for each letter; see `sizes`.
    """

    name: str
    shapes: Mapping[str, str]
    results: tuple[str, ...]
    between: tuple[str, ...]
    small: Sizes
    paper: Sizes

    @property
    def changed(self) -> tuple[str, ...]:
        """All arrays that it writes."""
        return self.results + self.between

    def sizes(self, size: str) -> Sizes:
        """Return what a letter stands for in ``"small"`` (a call of some ms) or ``"paper"`` (some tens of ms)."""
        return {"small": self.small, "paper": self.paper}[size]

    def arrays(self, sizes: Sizes) -> dict[str, Array]:
        """Return new arrays with PolyBench's initial values."""
        formulas = FORMULAS[self.name](sizes)
        return {
            name: fill(formulas.get(name), tuple(sizes[letter] for letter in letters))
            for name, letters in self.shapes.items()
        }

    def reference(self, arrays: Mapping[str, Array], steps: int = 1) -> dict[str, Array]:
        """Return what it should write, by NumPy; the arrays stay as they are."""
        return REFERENCES[self.name](arrays, steps)

    def flops(self, sizes: Sizes) -> int:
        """Return the floating point operations of a call."""
        return FLOPS[self.name](sizes)

    def bytes(self, sizes: Sizes) -> int:
        """Return the bytes that a call moves at least, if caches keep what one step uses and nothing from step to step.

        Each array is read once a step, one that is written at all also written once: a line must come before a part of
        it is written. A kernel that sweeps over an array several times moves more where caches are small.
        """
        return sizes.get("t", 1) * (self.footprint(sizes) + sum(self._bytes(name, sizes) for name in self.changed))

    def footprint(self, sizes: Sizes) -> int:
        """Return the bytes of all its arrays."""
        return sum(self._bytes(name, sizes) for name in self.shapes)

    def _bytes(self, name: str, sizes: Sizes) -> int:
        return 8 * prod(sizes[letter] for letter in self.shapes[name])


def run(kernel: Kernel, arrays: Mapping[str, Array], steps: int = 1) -> None:
    """Run a kernel once, in place, without the interpreter's lock.

    Parameters
    ----------
    kernel
        One of `KERNELS`.
    arrays
        Contiguous float64 arrays by the names and with the shapes of `kernel.shapes`.
    steps
        Of time, where the kernel has any.

    Raises
    ------
    ValueError
        If an array is missing, of another shape or kind, or shares memory with another.
    """
    missing = [name for name in kernel.shapes if name not in arrays]
    if missing:
        raise ValueError(f"{kernel.name} needs the arrays {', '.join(kernel.shapes)}; not given: {', '.join(missing)}")
    _polybench.run(kernel.name, tuple(arrays[name] for name in kernel.shapes), steps)


def _kernel(name: str, writes: str, small: str, paper: str) -> Kernel:
    """Make a kernel of words: results, after a semicolon what else it writes; sizes as ``i=60 j=70``."""
    shapes = dict(array.split(":") for array in SIGNATURES[name].split())
    results, _, between = writes.partition(";")
    return Kernel(name, shapes, tuple(results.split()), tuple(between.split()), _sizes(small), _sizes(paper))


def _sizes(words: str) -> dict[str, int]:
    return {letter: int(size) for letter, size in (word.split("=") for word in words.split())}


# In the paper size, matrices by vectors are PolyBench's LARGE sets and grids are too, with fewer steps (the line of
# jacobi1d with more); products and statistics have the proportions of LARGE, which takes up to seconds a call.
KERNELS: Mapping[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        _kernel("gemm", "C", "i=200 j=220 k=240", "i=500 j=550 k=600"),
        _kernel("jacobi1d", "A; B", "i=2000 t=2000", "i=2000 t=20000"),
        _kernel("jacobi2d", "A; B", "i=250 t=40", "i=1300 t=8"),
        _kernel("fdtd2d", "ex ey hz", "i=200 j=240 t=40", "i=1000 j=1200 t=10"),
        _kernel("seidel2d", "A", "i=400 t=1", "i=2000 t=1"),
        _kernel("mm2", "D; T", "i=96 j=108 k=132 l=144", "i=240 j=270 k=330 l=360"),
        _kernel("mm3", "G; E F", "i=80 j=90 k=100 l=110 m=120", "i=200 j=225 k=250 l=275 m=300"),
        _kernel("adi", "u; v p q", "i=200 t=2", "i=1000 t=2"),
        _kernel("correlation", "corr; data mean deviation", "i=180 k=210", "i=360 k=420"),
        _kernel("covariance", "cov; data mean", "i=180 k=210", "i=360 k=420"),
        _kernel("symm", "C", "i=150 j=180", "i=400 j=480"),
        _kernel("gemver", "w; A x", "i=1000", "i=2000"),
        _kernel("mvt", "x1 x2", "i=1000", "i=2000"),
        _kernel("syrk", "C", "i=240 k=200", "i=600 k=500"),
        _kernel("trmm", "B", "i=150 j=180", "i=400 j=480"),
        _kernel("atax", "y; t", "i=1000 j=1100", "i=1900 j=2100"),
        _kernel("bicg", "s q", "i=1000 j=1100", "i=1900 j=2100"),
    )
}


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
            while not work or time.perf_counter() < end_s:
                for name, values in first.items():
                    np.copyto(arrays[name], values)
                run(kernel, arrays, sizes.get("t", 1))
                work += kernel.flops(sizes)
            return float(work), float(sum(arrays[name].flat[-1] for name in kernel.results))

        return load

    return Load(kernel.name, kernel.footprint(sizes), prepare)


def _pairs(n: int) -> int:
    """Return how many pairs i < j there are."""
    return n * (n - 1) // 2


def _inner(n: int) -> int:
    return max(n - 2, 0)


def _mm2(n: Sizes) -> int:
    return n["i"] * (n["j"] * (2 * n["k"] + 1) + n["l"] * (2 * n["j"] + 2))


def _mm3(n: Sizes) -> int:
    return 2 * (n["i"] * n["j"] * n["k"] + n["j"] * n["l"] * n["m"] + n["i"] * n["l"] * n["j"])


def _syrk(n: Sizes) -> int:
    lower = _pairs(n["i"] + 1)
    return lower + n["i"] * n["k"] + 2 * lower * n["k"]


def _fdtd2d(n: Sizes) -> int:
    i, j = n["i"], n["j"]
    return n["t"] * (3 * (i - 1) * j + 3 * i * (j - 1) + 5 * (i - 1) * (j - 1))


def _correlation(n: Sizes) -> int:
    means, deviations, reduced = n["k"] + 1, 3 * n["k"] + 2, 3 * n["k"]
    return n["i"] * (means + deviations + reduced) + 2 * n["k"] * _pairs(n["i"])


def _covariance(n: Sizes) -> int:
    return n["i"] * (2 * n["k"] + 1) + (2 * n["k"] + 1) * _pairs(n["i"] + 1)


FLOPS: dict[str, Callable[[Sizes], int]] = {
    "gemm": lambda n: n["i"] * (n["j"] + n["k"] + 2 * n["j"] * n["k"]),
    "mm2": _mm2,
    "mm3": _mm3,
    "symm": lambda n: n["j"] * (6 * n["i"] + 4 * _pairs(n["i"])),
    "syrk": _syrk,
    "trmm": lambda n: n["j"] * (n["i"] + 2 * _pairs(n["i"])),
    "gemver": lambda n: n["i"] * (8 * n["i"] + 5),
    "mvt": lambda n: n["i"] * (4 * n["i"] + 2),
    "atax": lambda n: 4 * n["i"] * n["j"],
    "bicg": lambda n: 4 * n["i"] * n["j"],
    "jacobi1d": lambda n: 6 * n["t"] * _inner(n["i"]),
    "jacobi2d": lambda n: 10 * n["t"] * _inner(n["i"]) ** 2,
    "fdtd2d": _fdtd2d,
    "seidel2d": lambda n: 9 * n["t"] * _inner(n["i"]) ** 2,
    "adi": lambda n: 26 * n["t"] * _inner(n["i"]) ** 2,
    "correlation": _correlation,
    "covariance": _covariance,
}
