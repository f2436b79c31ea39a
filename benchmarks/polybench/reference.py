"""What each kernel computes, in NumPy: returns the arrays it writes and leaves those it was given alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Array = np.ndarray[Any, np.dtype[np.float64]]
    Arrays = Mapping[str, Array]
    Result = dict[str, Array]

ALPHA, BETA = 1.5, 1.2
LEAST_DEVIATION = 0.1


def gemm(x: Arrays, steps: int) -> Result:
    """C = alpha A B + beta C."""
    del steps
    return {"C": ALPHA * x["A"] @ x["B"] + BETA * x["C"]}


def mm2(x: Arrays, steps: int) -> Result:
    """T = alpha A B, D = T C + beta D."""
    del steps
    between = ALPHA * x["A"] @ x["B"]
    return {"T": between, "D": between @ x["C"] + BETA * x["D"]}


def mm3(x: Arrays, steps: int) -> Result:
    """E = A B, F = C D, G = E F."""
    del steps
    left, right = x["A"] @ x["B"], x["C"] @ x["D"]
    return {"E": left, "F": right, "G": left @ right}


def symm(x: Arrays, steps: int) -> Result:
    """C = alpha A B + beta C, A symmetric and given by its lower triangle."""
    del steps
    whole = np.tril(x["A"]) + np.tril(x["A"], -1).T
    return {"C": ALPHA * whole @ x["B"] + BETA * x["C"]}


def syrk(x: Arrays, steps: int) -> Result:
    """C = alpha A A' + beta C in the lower triangle."""
    del steps
    return {"C": np.tril(ALPHA * x["A"] @ x["A"].T + BETA * x["C"]) + np.triu(x["C"], 1)}


def trmm(x: Arrays, steps: int) -> Result:
    """B = alpha A' B, A lower triangular with ones."""
    del steps
    return {"B": ALPHA * (np.tril(x["A"], -1).T @ x["B"] + x["B"])}


def gemver(x: Arrays, steps: int) -> Result:
    """A += u1 v1' + u2 v2', x += beta A' y + z, w += alpha A x."""
    del steps
    matrix = x["A"] + np.outer(x["u1"], x["v1"]) + np.outer(x["u2"], x["v2"])
    vector = x["x"] + BETA * (x["y"] @ matrix) + x["z"]
    return {"A": matrix, "x": vector, "w": x["w"] + ALPHA * (matrix @ vector)}


def mvt(x: Arrays, steps: int) -> Result:
    """x1 += A y1, x2 += A' y2."""
    del steps
    return {"x1": x["x1"] + x["A"] @ x["y1"], "x2": x["x2"] + x["y2"] @ x["A"]}


def atax(x: Arrays, steps: int) -> Result:
    """The product y = A' t with t = A x."""
    del steps
    between = x["A"] @ x["x"]
    return {"t": between, "y": between @ x["A"]}


def bicg(x: Arrays, steps: int) -> Result:
    """Two products, s = A' r and q = A p."""
    del steps
    return {"s": x["r"] @ x["A"], "q": x["A"] @ x["p"]}


def jacobi1d(x: Arrays, steps: int) -> Result:
    """Each inner point the mean of three, from A to B and back."""
    a, b = x["A"].copy(), x["B"].copy()
    for _ in range(steps):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])
    return {"A": a, "B": b}


def jacobi2d(x: Arrays, steps: int) -> Result:
    """Each inner point the mean of five, from A to B and back."""
    a, b = x["A"].copy(), x["B"].copy()
    for _ in range(steps):
        for source, target in ((a, b), (b, a)):
            across = source[1:-1, 1:-1] + source[1:-1, :-2] + source[1:-1, 2:]
            target[1:-1, 1:-1] = 0.2 * (across + source[2:, 1:-1] + source[:-2, 1:-1])
    return {"A": a, "B": b}


def fdtd2d(x: Arrays, steps: int) -> Result:
    """Two electric fields and a magnetic one, driven at an edge."""
    ex, ey, hz = (x[name].copy() for name in ("ex", "ey", "hz"))
    for step in range(steps):
        ey[0] = x["drive"][step]
        ey[1:] -= 0.5 * (hz[1:] - hz[:-1])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return {"ex": ex, "ey": ey, "hz": hz}


def seidel2d(x: Arrays, steps: int) -> Result:
    """Each inner point the mean of nine, in place.

    Points with the same 2 i + j need none of each other, and what they need anew has a smaller one: each such front
    is computed at once. In the flat array its points lie n - 2 apart.
    """
    grid = x["A"].copy()
    n = len(grid)
    flat = grid.reshape(-1)
    around = [row * n + column for row in (-1, 0, 1) for column in (-1, 0, 1)]
    for _ in range(steps if n > 2 else 0):
        for front in range(3, 3 * n - 5):
            first, last = max(1, (front - n + 3) // 2), min(n - 2, (front - 1) // 2)
            begin, count = first * n + front - 2 * first, last - first + 1
            places = slice(begin, begin + (count - 1) * (n - 2) + 1, n - 2)
            flat[places] = sum(flat[places.start + at : places.stop + at : n - 2] for at in around) / 9.0
    return {"A": grid}


def adi(x: Arrays, steps: int) -> Result:
    """Alternating direction implicit: columns of v from u, then rows of u from v, ends at 1."""
    u, v, p, q = (x[name].copy() for name in ("u", "v", "p", "q"))
    per_step = len(u) ** 2 / steps
    for _ in range(steps):
        _sweep(u, v.T, p, q, implicit=per_step, explicit=per_step / 2)
        _sweep(v.T, u, p, q, implicit=per_step / 2, explicit=per_step)
    return {"u": u, "v": v, "p": p, "q": q}


def _sweep(source: Array, target: Array, p: Array, q: Array, *, implicit: float, explicit: float) -> None:
    """Solve along the second axis of the target, whose rows are the source's columns."""
    inner = slice(1, -1)
    if len(p) < 3:
        return
    target[inner, 0], p[inner, 0], q[inner, 0] = 1, 0, 1
    for j in range(1, len(p) - 1):
        pivot = 1 + 2 * implicit - implicit * p[inner, j - 1]
        across = explicit * (source[j, :-2] + source[j, 2:]) + (1 - 2 * explicit) * source[j, 1:-1]
        p[inner, j], q[inner, j] = implicit / pivot, (across + implicit * q[inner, j - 1]) / pivot
    target[inner, -1] = 1
    for j in range(len(p) - 2, 0, -1):
        target[inner, j] = p[inner, j] * target[inner, j + 1] + q[inner, j]


def correlation(x: Arrays, steps: int) -> Result:
    """Correlation of columns; one that hardly varies is only centred."""
    del steps
    data = x["data"]
    mean, deviation = data.mean(axis=0), data.std(axis=0)
    deviation = np.where(deviation <= LEAST_DEVIATION, 1.0, deviation)
    reduced = (data - mean) / (np.sqrt(len(data)) * deviation)
    found = reduced.T @ reduced
    np.fill_diagonal(found, 1.0)
    return {"data": reduced, "corr": found, "mean": mean, "deviation": deviation}


def covariance(x: Arrays, steps: int) -> Result:
    """Covariance of columns, unbiased."""
    del steps
    mean = x["data"].mean(axis=0)
    centred = x["data"] - mean
    return {"data": centred, "cov": centred.T @ centred / (len(centred) - 1), "mean": mean}


REFERENCES: dict[str, Callable[[Arrays, int], Result]] = {
    function.__name__: function
    for function in (
        gemm, mm2, mm3, symm, syrk, trmm, gemver, mvt, atax, bicg,
        jacobi1d, jacobi2d, fdtd2d, seidel2d, adi, correlation, covariance,
    )
}  # fmt: skip
