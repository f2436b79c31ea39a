"""Lower bounds of communication for any algorithm: equations (3) to (5), and bounds for any memory.

Orders of growth with constant factors dropped, as everywhere in this model. `flops` are those of one processor,
`io_words` the words of its input and output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .communication_avoiding import OMEGA, Floats

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def sequential_words(flops: ArrayLike, memory_words: ArrayLike, io_words: ArrayLike = 0.0) -> Floats:
    """Return the words that must pass between fast and slow memory: (3), max(I+O, F/√M)."""
    return np.asarray(np.maximum(np.asarray(io_words, float), _moved(flops, memory_words)))


def sequential_messages(
    flops: ArrayLike, memory_words: ArrayLike, message_words: ArrayLike, io_words: ArrayLike = 0.0
) -> Floats:
    """Return the messages that take those words: (4), (3) over m."""
    return np.asarray(sequential_words(flops, memory_words, io_words) / np.asarray(message_words, float))


def parallel_words(flops: ArrayLike, memory_words: ArrayLike, io_words: ArrayLike = 0.0) -> Floats:
    """Return the words a processor must send or receive: (5), max(0, F/√M - (I+O))."""
    return np.asarray(np.maximum(0.0, _moved(flops, memory_words) - np.asarray(io_words, float)))


def parallel_messages(
    flops: ArrayLike, memory_words: ArrayLike, message_words: ArrayLike, io_words: ArrayLike = 0.0
) -> Floats:
    """Return the messages that take those words."""
    return np.asarray(parallel_words(flops, memory_words, io_words) / np.asarray(message_words, float))


def matmul_words(n: ArrayLike, p: ArrayLike, memory_words: ArrayLike, exponent: float = 3.0) -> Floats:
    """Return the words a processor must send for a matrix product, with little memory or with any: figure 3.

    Parameters
    ----------
    exponent
        ω: 3 for the classical product, `OMEGA` for Strassen's. The bound is the larger of n^ω/(p·M^(ω/2-1)) and
        n²/p^(2/ω), which meet at p = (n²/M)^(ω/2): the end of perfect strong scaling.
    """
    size, count, memory = (np.asarray(value, float) for value in (n, p, memory_words))
    limited = size**exponent / (count * memory ** (exponent / 2 - 1))
    return np.asarray(np.maximum(limited, size**2 / count ** (2 / exponent)))


def figure_3(n: float, memory_words: float, points: int = 200) -> dict[str, Floats]:
    """Return words times processors over processors: flat while strong scaling is perfect, then rising.

    Returns
    -------
    dict
        `p`, from the fewest processors that hold the data to 16 times the end of the longer range, and `classical`
        and `strassen`, words of all processors together.
    """
    fewest = max(n**2 / memory_words, 1.0)
    p = np.geomspace(fewest, 16 * max(fewest, (n**2 / memory_words) ** 1.5), points)
    classical, strassen = (matmul_words(n, p, memory_words, exponent) * p for exponent in (3.0, OMEGA))
    return {"p": p, "classical": classical, "strassen": strassen}


def _moved(flops: ArrayLike, memory_words: ArrayLike) -> Floats:
    return np.asarray(np.asarray(flops, float) / np.sqrt(np.asarray(memory_words, float)))
