"""PolyBench's initial values: formulas of the indices, so that every run works on the same numbers.

An array that has no formula is written before it is read and begins as zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Formula = Callable[..., Any]
    Sizes = Mapping[str, int]


def _gemm(n: Sizes) -> dict[str, Formula]:
    return {
        "C": lambda i, j: (i * j + 1) % n["i"] / n["i"],
        "A": lambda i, k: i * (k + 1) % n["k"] / n["k"],
        "B": lambda k, j: k * (j + 2) % n["j"] / n["j"],
    }


def _mm2(n: Sizes) -> dict[str, Formula]:
    return {
        "A": lambda i, k: (i * k + 1) % n["i"] / n["i"],
        "B": lambda k, j: k * (j + 1) % n["j"] / n["j"],
        "C": lambda j, l: (j * (l + 3) + 1) % n["l"] / n["l"],  # noqa: E741 - as the dimension is called
        "D": lambda i, l: i * (l + 2) % n["k"] / n["k"],  # noqa: E741 - as the dimension is called
    }


def _mm3(n: Sizes) -> dict[str, Formula]:
    return {
        "A": lambda i, k: (i * k + 1) % n["i"] / (5 * n["i"]),
        "B": lambda k, j: (k * (j + 1) + 2) % n["j"] / (5 * n["j"]),
        "C": lambda j, m: j * (m + 3) % n["l"] / (5 * n["l"]),
        "D": lambda m, l: (m * (l + 2) + 2) % n["k"] / (5 * n["k"]),  # noqa: E741 - as the dimension is called
    }


def _symm(n: Sizes) -> dict[str, Formula]:
    return {
        "C": lambda i, j: (i + j) % 100 / n["i"],
        "A": lambda i, j: np.where(j <= i, (i + j) % 100 / n["i"], -999.0),
        "B": lambda i, j: (n["j"] + i - j) % 100 / n["i"],
    }


def _syrk(n: Sizes) -> dict[str, Formula]:
    return {
        "C": lambda i, j: (i * j + 2) % n["k"] / n["k"],
        "A": lambda i, k: (i * k + 1) % n["i"] / n["i"],
    }


def _trmm(n: Sizes) -> dict[str, Formula]:
    return {
        "A": lambda i, j: np.where(j < i, (i + j) % n["i"] / n["i"], np.where(j == i, 1.0, 0.0)),
        "B": lambda i, j: (n["j"] + i - j) % n["j"] / n["j"],
    }


def _gemver(n: Sizes) -> dict[str, Formula]:
    def part(of: int) -> Formula:
        return lambda i: (i + 1) / n["i"] / of

    return {
        "A": lambda i, j: i * j % n["i"] / n["i"],
        "u1": lambda i: i,
        "u2": part(2), "v1": part(4), "v2": part(6), "y": part(8), "z": part(9),
    }  # fmt: skip


def _mvt(n: Sizes) -> dict[str, Formula]:
    def turned(by: int) -> Formula:
        return lambda i: (i + by) % n["i"] / n["i"]

    matrix = {"A": lambda i, j: i * j % n["i"] / n["i"]}
    return {"x1": turned(0), "x2": turned(1), "y1": turned(3), "y2": turned(4), **matrix}


def _atax(n: Sizes) -> dict[str, Formula]:
    return {"A": lambda i, j: (i + j) % n["j"] / (5 * n["i"]), "x": lambda j: 1 + j / n["j"]}


def _bicg(n: Sizes) -> dict[str, Formula]:
    return {
        "A": lambda i, j: i * (j + 1) % n["i"] / n["i"],
        "p": lambda j: j % n["j"] / n["j"],
        "r": lambda i: i % n["i"] / n["i"],
    }


def _jacobi1d(n: Sizes) -> dict[str, Formula]:
    return {"A": lambda i: (i + 2) / n["i"], "B": lambda i: (i + 3) / n["i"]}


def _jacobi2d(n: Sizes) -> dict[str, Formula]:
    return {"A": lambda i, j: (i * (j + 2) + 2) / n["i"], "B": lambda i, j: (i * (j + 3) + 3) / n["i"]}


def _fdtd2d(n: Sizes) -> dict[str, Formula]:
    return {
        "ex": lambda i, j: i * (j + 1) / n["i"],
        "ey": lambda i, j: i * (j + 2) / n["j"],
        "hz": lambda i, j: i * (j + 3) / n["i"],
        "drive": lambda t: t,
    }


def _seidel2d(n: Sizes) -> dict[str, Formula]:
    return {"A": lambda i, j: (i * (j + 2) + 2) / n["i"]}


def _adi(n: Sizes) -> dict[str, Formula]:
    return {"u": lambda i, j: (i + n["i"] - j) / n["i"]}


def _correlation(n: Sizes) -> dict[str, Formula]:
    return {"data": lambda k, i: k * i / n["i"] + k}


def _covariance(n: Sizes) -> dict[str, Formula]:
    return {"data": lambda k, i: k * i / n["i"]}


FORMULAS: dict[str, Callable[[Sizes], dict[str, Formula]]] = {
    "gemm": _gemm, "mm2": _mm2, "mm3": _mm3, "symm": _symm, "syrk": _syrk, "trmm": _trmm,
    "gemver": _gemver, "mvt": _mvt, "atax": _atax, "bicg": _bicg,
    "jacobi1d": _jacobi1d, "jacobi2d": _jacobi2d, "fdtd2d": _fdtd2d, "seidel2d": _seidel2d, "adi": _adi,
    "correlation": _correlation, "covariance": _covariance,
}  # fmt: skip


def fill(formula: Formula | None, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return an array of that shape by its formula, zeros without one."""
    values = np.zeros(shape)
    if formula is not None:
        values[...] = formula(*np.ogrid[tuple(slice(0, size) for size in shape)])
    return values
