"""Least squares without negative coefficients, for many small systems at once."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RIDGE = 1e-9
TOLERANCE = 1e-12


def nonnegative(rows: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return the best coefficients ≥ 0, and the sums of squared residuals.

    Solves for every set of positive columns and selects the best valid one: exact, and cheap for the few columns of a
    law, O(systems * 2^columns). An iterative solver would treat each system separately.

    Parameters
    ----------
    rows : (systems, n, columns)
    target : (systems, n)

    Returns
    -------
    tuple
        (systems, columns) and (systems,).
    """
    gram = np.einsum("sni,snj->sij", rows, rows)
    right = np.einsum("sni,sn->si", rows, target)
    total = np.einsum("sn,sn->s", target, target)
    best, least = np.zeros_like(right), total.copy()
    columns = rows.shape[2]
    for size in range(1, columns + 1):
        for chosen in combinations(range(columns), size):
            some = list(chosen)
            part = gram[:, some][:, :, some]
            traces = np.einsum("sii->s", part)
            ridge = np.where(traces > 0, RIDGE * traces, 1.0)[:, None, None] * np.eye(size)
            found = np.linalg.solve(part + ridge, right[:, some][..., None])[..., 0]
            left = total - np.einsum("si,si->s", found, right[:, some])
            better = (found >= 0).all(axis=1) & (left < least * (1 - TOLERANCE))
            least = np.where(better, left, least)
            padded = np.zeros_like(best)
            padded[:, some] = found
            best = np.where(better[:, None], padded, best)
    return best, np.maximum(least, 0.0)
