"""FFT: the discrete Fourier transform of one long vector as the paper's five phases of tasks on a square matrix.

The vector of side² numbers is transformed as a matrix of side rows: transpose; transform each row; multiply by the
twiddle factors and transpose; transform each row; transpose (the six-step method, twiddling and transposing as one).
Tasks transpose in place, a block on the diagonal or a pair of blocks across it, and transform groups of rows. Nothing
waits between the phases: a task begins once those before it are done whose blocks or rows it shares.
The paper's 5656 rows are 28 blocks of 200 and one of 56, which gives the 1363 instances of its table 5. A block is
the 0.6 MB that it prints as the footprint; a pair is twice that, and the 200 rows of a row task are 18 MB.
Every kernel is NumPy's or SciPy's, with the interpreter's lock released.

References
----------
D. H. Bailey: FFTs in External or Hierarchical Memory (1990), section 3: the method.
TProf, sections 4.1 and 4.2, table 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import scipy.fft

import tprof

from .adjoining import join, put_back
from .outcome import Checked, WrongResultError, on_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    Complex = NDArray[np.complex128]
    Integers = NDArray[np.int64]

SIDE = {"small": 500, "paper": 5656}
# Neither divides its side, so that the tasks at the edges are smaller in both sizes.
BLOCK = {"small": 120, "paper": 200}
SEED = 1965
SAMPLE = 8
# Of the root mean square of what is compared: rounding grows with the logarithm of the length, sums of the check more.
TOLERANCE = 1e-12


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Transform a vector of that size inside `during`, and check the result against sums from the definition."""
    matrix = make_input(SIDE[size])
    expected = Expected.of(matrix)
    with on_runtime(workers, during) as watch:
        transform(matrix, BLOCK[size])
    return Checked(
        duration_s=watch.duration_s,
        checks=check(matrix, expected),
        facts={
            "numbers": matrix.size,
            "block": BLOCK[size],
            "footprint_bytes": BLOCK[size] * SIDE[size] * matrix.itemsize,
        },
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of each task."""
    bands = len(list(bands_of(SIDE[size], BLOCK[size])))
    pairs = bands * (bands - 1) // 2
    return {
        "transp_blk": 2 * bands,
        "transp_swp": 2 * pairs,
        "fft1": bands,
        "tw_transp_blk": bands,
        "tw_transp_swp": pairs,
        "fft2": bands,
    }


def bands_of(side: int, block: int) -> Iterator[slice]:
    """Cut the side into blocks; the last one may be smaller."""
    return (slice(begin, min(begin + block, side)) for begin in range(0, side, block))


def make_input(side: int) -> Complex:
    """Return side² numbers as a matrix, always the same ones."""
    source = np.random.default_rng(SEED)
    return source.standard_normal((side, 2 * side)).view(np.complex128)


def transform(matrix: Complex, block: int) -> None:
    """Put the transform of the vector that the matrix holds row by row in its place."""
    bands = list(bands_of(len(matrix), block))
    _transpose(matrix, bands)
    for band in bands:
        fft1([matrix[band, other] for other in bands])
    _twiddle_and_transpose(matrix, bands)
    for band in bands:
        fft2([matrix[band, other] for other in bands])
    _transpose(matrix, bands)


def _transpose(matrix: Complex, bands: list[slice]) -> None:
    for band in bands:
        transp_blk(matrix[band, band])
    for upper, lower in combinations(bands, 2):
        transp_swp(matrix[upper, lower], matrix[lower, upper])


def _twiddle_and_transpose(matrix: Complex, bands: list[slice]) -> None:
    order, block = matrix.size, bands[0].stop
    corner = _roots(np.multiply.outer(np.arange(block), np.arange(block)), order)
    for band in bands:
        tw_transp_blk(matrix[band, band], Twiddles(corner, order, band.start, band.start))
    for upper, lower in combinations(bands, 2):
        twiddles = Twiddles(corner, order, upper.start, lower.start)
        tw_transp_swp(matrix[upper, lower], matrix[lower, upper], twiddles)


@dataclass(frozen=True)
class Twiddles:
    """What the block of a matrix that begins at (row, column) is multiplied by: root ** (j * k) at (j, k).

    (row + a) * (column + b) is row * column + a * column + row * b + a * b: the last term is the same in every block,
    the others belong to a row or a column of it, so that a block of 200 by 200 takes 400 exponentials. The product of
    three factors is right to a few roundings, which powers by repeated multiplication are not.

    Attributes
    ----------
    corner : (block, block), the factors of the matrix's first block.
    order : the root is exp(-2πi / order).
    """

    corner: Complex
    order: int
    row: int
    column: int

    def of(self, shape: tuple[int, ...]) -> Complex:
        """Return the factors of a block of that shape."""
        rows, columns = shape
        # Products of two indices are below the order, so that no angle exceeds one turn.
        along_rows = _roots((self.row + np.arange(rows)) * self.column, self.order)
        along_columns = _roots(self.row * np.arange(columns), self.order)
        factors: Complex = self.corner[:rows, :columns] * along_rows[:, np.newaxis]
        factors *= along_columns
        return factors


def _roots(powers: Integers, order: int, sign: int = -1) -> Complex:
    roots: Complex = np.exp(powers * (sign * 2j * np.pi / order))
    return roots


@tprof.task(updates=("block",))
def transp_blk(block: Complex) -> None:
    """Transpose a block on the diagonal."""
    block[:] = block.T.copy()


@tprof.task(updates=("upper", "lower"))
def transp_swp(upper: Complex, lower: Complex) -> None:
    """Transpose two blocks that mirror each other, each into the other's place."""
    kept = upper.T.copy()
    upper[:] = lower.T
    lower[:] = kept


@tprof.task(updates=("block",))
def tw_transp_blk(block: Complex, twiddles: Twiddles) -> None:
    """Twiddle and transpose a block on the diagonal."""
    np.multiply(block.T.copy(), twiddles.of(block.shape), out=block)


@tprof.task(updates=("upper", "lower"))
def tw_transp_swp(upper: Complex, lower: Complex, twiddles: Twiddles) -> None:
    """Twiddle and transpose two blocks; j * k is k * j, and so one block of factors serves both."""
    factors = twiddles.of(upper.shape)
    kept = (upper * factors).T
    np.multiply(lower.T, factors, out=upper)
    lower[:] = kept


@tprof.task(updates=("blocks",))
def fft1(blocks: list[Complex]) -> None:
    """Transform each row of the blocks that stand side by side, the first time."""
    _transform_rows(blocks)


@tprof.task(updates=("blocks",))
def fft2(blocks: list[Complex]) -> None:
    """Transform each row of the blocks that stand side by side, the second time."""
    _transform_rows(blocks)


def _transform_rows(blocks: list[Complex]) -> None:
    rows = join(blocks, axis=1)
    transformed = scipy.fft.fft(rows, axis=1, overwrite_x=True, workers=1)
    # SciPy may work in place then, but does not promise it.
    if not np.may_share_memory(transformed, rows):
        rows[:] = transformed
    put_back(rows, blocks, axis=1)


@dataclass(frozen=True)
class Expected:
    """What is known of a vector and its transform without a fast transform.

    Attributes
    ----------
    chosen : (n,) int64, places in the vector and, as frequencies, in its transform.
    numbers : (n,) complex128, the vector there.
    transformed : (n,) complex128, its transform there, by the sum that defines it.
    energy : of the whole vector.
    """

    chosen: Integers
    numbers: Complex
    transformed: Complex
    energy: float

    @classmethod
    def of(cls, matrix: Complex) -> Expected:
        """Return what is to be expected of the transform of that vector; the vector is not kept."""
        chosen = np.random.default_rng(SEED).choice(matrix.size, SAMPLE, replace=False)
        transformed = fourier_sums(matrix, chosen, sign=-1)
        return cls(chosen, matrix.ravel()[chosen], transformed, float(np.vdot(matrix, matrix).real))


def fourier_sums(matrix: Complex, chosen: Integers, *, sign: int) -> Complex:
    """Sum all numbers of the vector times exp(sign * 2πi * place * c / size), for each c chosen: O(size) each.

    The place is row * side + column, so that the factor is one of the row times one of the column.
    """
    side, order = len(matrix), matrix.size
    places = np.arange(side)
    along_rows = _roots(np.multiply.outer(places, chosen) % side, side, sign)
    along_columns = _roots(np.multiply.outer(places, chosen) % order, order, sign)
    sums: Complex = (matrix @ along_columns * along_rows).sum(axis=0)
    return sums


def check(matrix: Complex, expected: Expected) -> tuple[str, ...]:
    """Compare some of the transform with sums over the vector, and some of the vector with sums over the transform.

    Each of the latter depends on every number of the transform: one that is wrong or out of place shows in all.

    Raises
    ------
    WrongResultError
        If any differs, or if the transform has not the energy of the vector.
    """
    scale = float(np.sqrt(expected.energy))
    _compare("transform", matrix.ravel()[expected.chosen], expected.transformed, expected.chosen, scale)
    restored = fourier_sums(matrix, expected.chosen, sign=1) / matrix.size
    _compare("inverse", restored, expected.numbers, expected.chosen, scale / len(matrix))
    energy = float(np.vdot(matrix, matrix).real) / matrix.size
    if not abs(energy - expected.energy) <= TOLERANCE * expected.energy:
        raise WrongResultError(f"fft breaks Parseval's theorem: energy {energy} instead of {expected.energy}")
    return (f"{SAMPLE} frequencies and {SAMPLE} numbers of the inverse against direct sums", "Parseval's theorem")


def _compare(what: str, got: Complex, right: Complex, chosen: Integers, scale: float) -> None:
    wrong = np.flatnonzero(~(np.abs(got - right) <= TOLERANCE * scale))
    if wrong.size:
        first = wrong[0]
        raise WrongResultError(
            f"fft: the {what} at {chosen[first]} is {got[first]}, the direct sum says {right[first]}"
        )


if __name__ == "__main__":
    from .outcome import main

    main()
