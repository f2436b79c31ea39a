"""How many floating point operations a call of each kernel does, by its loops.

An addition, multiplication, division and square root count one each, also where a compiler makes one instruction of
two. Factors that a loop does not change are taken out of it, as the C code does; a kernel's few operations outside all
loops are not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Sizes = Mapping[str, int]


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
