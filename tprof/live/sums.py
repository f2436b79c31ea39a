"""Sums by key that keep the interpreter's lock.

NumPy's own (bincount, add.at, searchsorted) give it away, and where other threads run Python, to win it back takes
milliseconds each time. The arrays of one step are short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def added(sums: NDArray[np.float64], key: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums with values added under their keys, longer where a key is new."""
    if not len(key):
        return sums
    keys = key.tolist()
    more: list[float] = sums.tolist()
    more += [0.0] * (max(keys) + 1 - len(more))
    for at, value in zip(keys, values.tolist(), strict=True):
        more[at] += value
    return np.array(more)
