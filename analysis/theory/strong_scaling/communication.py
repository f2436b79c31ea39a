"""Parallel algorithms by what each processor must do: flops, words and messages, and the memory they can use.

Constant factors are dropped as in the paper (n³ flops for a matrix product, not 2n³) and logarithms are base 2.
An algorithm runs with M words a processor where ``n^a / p^least <= M <= n^a / p^most``: one copy of the data spread
over all processors at the lower end, as many copies as still save communication at the upper one (6). Where all costs
fall as 1/p at a fixed M, so does time, and energy does not depend on p: that is perfect strong scaling.

The lower bounds of communication hold for any algorithm: equations (3) to (5), and bounds for any memory. Their `flops`
are those of one processor, `io_words` the words of its input and output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike


Floats = NDArray[np.float64]
OMEGA = math.log2(7)  # Strassen's exponent
FLOPS_PER_PAIR = 20.0


class Costs(NamedTuple):
    """The work of one processor: flops F, words sent W, messages sent S; arrays that broadcast."""

    flops: Floats
    words: Floats
    messages: Floats


def _full_messages(_n: Floats, _p: Floats, words: Floats, message_words: float) -> Floats:
    return words / message_words


@dataclass(frozen=True)
class Algorithm:
    """An algorithm on the machine of one level.

    Attributes
    ----------
    name : as `tprof scaling` takes it.
    title : one clause.
    flops : of the whole problem, from its size n.
    words : W of a processor, from n, p and M.
    messages : S of a processor, from n, p, W and m; W/m unless something else is said.
    size_power : a, so that one copy of the data is n^a words.
    least, most : exponents of p in the least and the most memory, see above.
    scales : whether time falls as 1/p at a fixed memory.
    """

    name: str
    title: str
    flops: Callable[[Floats], Floats]
    words: Callable[[Floats, Floats, Floats], Floats]
    size_power: float
    least: float
    most: float
    scales: bool
    messages: Callable[[Floats, Floats, Floats, float], Floats] = _full_messages

    def costs(self, n: ArrayLike, p: ArrayLike, memory_words: ArrayLike, message_words: float) -> Costs:
        """Return F, W and S of a processor, without checking that the algorithm can use M."""
        size, count = np.asarray(n, float), np.asarray(p, float)
        words = self.words(size, count, np.asarray(memory_words, float))
        return Costs(self.flops(size) / count, words, self.messages(size, count, words, message_words))

    def memory_range(self, n: ArrayLike, p: ArrayLike) -> tuple[Floats, Floats]:
        """Return the least and the most words a processor that p of them can use."""
        copy, count = np.asarray(n, float) ** self.size_power, np.asarray(p, float)
        return copy / count**self.least, copy / count**self.most

    def processor_range(self, n: ArrayLike, memory_words: ArrayLike) -> tuple[Floats, Floats]:
        """Return the fewest and the most processors that can use M words each; where it `scales`, perfectly."""
        copies = np.asarray(n, float) ** self.size_power / np.asarray(memory_words, float)
        return copies ** (1 / self.least), copies ** (1 / self.most)


def nbody(flops_per_pair: float = FLOPS_PER_PAIR) -> Algorithm:
    """Return the direct n-body problem with data replication; f flops for each pair. Section IV."""
    return Algorithm(
        "nbody", f"direct n-body problem, {flops_per_pair:g} flops a pair, data replicated",
        lambda n: flops_per_pair * n**2, lambda n, p, memory_words: n**2 / (p * memory_words),
        size_power=1, least=1, most=1 / 2, scales=True,
    )  # fmt: skip


def _cube(n: Floats) -> Floats:
    return n**3


def _matmul_words(n: Floats, p: Floats, memory_words: Floats) -> Floats:
    return n**3 / (p * np.sqrt(memory_words))


def _strassen_words(n: Floats, p: Floats, memory_words: Floats) -> Floats:
    return n**OMEGA / (p * memory_words ** (OMEGA / 2 - 1))


def _fft_flops(n: Floats) -> Floats:
    return n * np.log2(n)


_ALL = (
    Algorithm(
        "matmul", "2.5D matrix multiplication: replicates as far as memory goes", _cube, _matmul_words,
        size_power=2, least=1, most=2 / 3, scales=True,
    ),
    Algorithm(
        "matmul-3d", "3D matrix multiplication: as much memory as saves communication", _cube, _matmul_words,
        size_power=2, least=2 / 3, most=2 / 3, scales=False,
    ),
    Algorithm(
        "strassen", "Strassen's multiplication (CAPS) with limited memory", lambda n: n**OMEGA, _strassen_words,
        size_power=2, least=1, most=2 / OMEGA, scales=True,
    ),
    Algorithm(
        "strassen-unlimited", "Strassen's multiplication (CAPS) with unlimited memory",
        lambda n: n**OMEGA, _strassen_words, size_power=2, least=2 / OMEGA, most=2 / OMEGA, scales=False,
    ),
    Algorithm(
        "lu", "2.5D LU factorisation: its messages do not scale", _cube, _matmul_words,
        size_power=2, least=1, most=2 / 3, scales=False, messages=lambda n, _p, words, _m: n**2 / words,
    ),
    nbody(),
    Algorithm(
        "fft-tree", "FFT with an all-to-all along a tree", _fft_flops, lambda n, p, _: n * np.log2(p) / p,
        size_power=1, least=1, most=1, scales=False, messages=lambda _n, p, _words, _m: np.log2(p),
    ),
    Algorithm(
        "fft-naive", "FFT with a naive all-to-all", _fft_flops, lambda n, p, _: n / p,
        size_power=1, least=1, most=1, scales=False, messages=lambda _n, p, _words, _m: p,
    ),
)  # fmt: skip
ALGORITHMS = {algorithm.name: algorithm for algorithm in _ALL}


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
