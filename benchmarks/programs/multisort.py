"""Multisort: chunks are sorted each by a task, then merged in pairs until one is left, as in the paper and Cilksort.

The paper sorts 256 MB in tasks of about 4 MB and counts 256 instances of two tasks: 64 sorts and so 192 merges. It
does not print how the merges are cut; here each of the six levels, from 64 sorted runs to one, is 32 tasks that write
equal parts of the result, whatever the number of pairs. Chunks are 2**20 numbers of 4 bytes: the footprint of 12.3 MB
that table 5 prints for a merge is three such chunks in its unit of 1,024,000 bytes. A merge here moves 8 MiB from the
two runs to its part of the result. Which elements of the runs it needs it finds itself, by binary search: what it
reads is known only when the runs are sorted, and so it depends on both runs as a whole.

A merge is `numpy.sort` of kind "stable" on the two runs one behind the other: timsort, which finds the runs and merges
them in linear time with the interpreter's lock released. With runs of 2**17 to 2**22 numbers a merge took 3.9 to 4.3 ns
a number on one core of an AMD EPYC, 1.5 to 1.7 times as long as a loop without branches in C; finding each number's
place with `numpy.searchsorted` took 19 to 23 ns.

References
----------
M. Frigo, C. E. Leiserson, K. H. Randall: The Implementation of the Cilk-5 Multithreaded Language (1998): Cilksort.
O. Green, S. Odeh, Y. Birk: Merge Path - A Visually Intuitive Approach to Parallel Merging (2014): where to cut.
TProf, sections 4.1 and 4.2, table 5.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

import tprof
from tprof.trace.plain_values import counted

from .adjoining import join, put_back
from .outcome import Checked, WrongResultError, check_size, on_runtime

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    Integers = NDArray[np.int32]

CHUNKS = 64
MERGES_PER_LEVEL = 32
NUMBERS_PER_CHUNK = {"small": 2**14, "paper": 2**20}
SEED = 1998


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Sort numbers of that size inside `during`, and check that they are sorted and still the same."""
    numbers = make_numbers(size)
    spare = np.zeros_like(numbers)
    with on_runtime(workers, during) as watch:
        result = multisort(numbers, spare)
    return Checked(
        duration_s=watch.duration_s,
        checks=check(result, make_numbers(size)),
        facts={
            "numbers": len(numbers),
            "bytes": numbers.nbytes,
            # Of the runs that a merge is given it reads as much as it writes.
            "footprint_bytes": 2 * numbers.nbytes // MERGES_PER_LEVEL,
        },
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of each task, the same for every size."""
    check_size(size)
    levels = CHUNKS.bit_length() - 1
    return {"sort": CHUNKS, "merge": levels * MERGES_PER_LEVEL}


def make_numbers(size: str) -> Integers:
    """Return numbers from the whole range of 4 bytes, always the same ones."""
    limits = np.iinfo(np.int32)
    count = CHUNKS * NUMBERS_PER_CHUNK[size]
    return np.random.default_rng(SEED).integers(limits.min, limits.max, count, dtype=np.int32, endpoint=True)


def multisort(numbers: Integers, spare: Integers) -> Integers:
    """Sort in two arrays of the same length, a multiple of the chunks; return that which will hold the result."""
    length = len(numbers) // CHUNKS
    for begin in range(0, len(numbers), length):
        sort(numbers[begin : begin + length])
    source, target = numbers, spare
    while length < len(numbers):
        merge_level(source, target, length)
        source, target, length = target, source, 2 * length
    return source


def merge_level(source: Integers, target: Integers, length: int) -> None:
    """Merge each pair of runs of that length from one array into the other, in parts of equal length."""
    part = len(source) // MERGES_PER_LEVEL
    for begin in range(0, len(source), part):
        first = begin - begin % (2 * length)
        middle, last = first + length, first + 2 * length
        left, right = chunks_of(source, first, middle), chunks_of(source, middle, last)
        merge(left, right, chunks_of(target, begin, begin + part), begin - first)


def chunks_of(numbers: Integers, begin: int, end: int) -> list[Integers]:
    """Return the chunks between two places, the smallest parts that a task writes."""
    length = len(numbers) // CHUNKS
    return [numbers[at : at + length] for at in range(begin, end, length)]


@tprof.task(updates=("chunk",))
def sort(chunk: Integers) -> None:
    """Sort a chunk in place."""
    chunk.sort()


@tprof.task(reads=("left_chunks", "right_chunks"), writes=("chunks",))
def merge(left_chunks: list[Integers], right_chunks: list[Integers], chunks: list[Integers], begin: int) -> None:
    """Write the part of two merged runs that begins at `begin`, each a list of chunks.

    Raises
    ------
    WrongResultError
        If what it takes of the runs is not sorted.
    """
    left, right, part = join(left_chunks), join(right_chunks), join(chunks)
    end = begin + len(part)
    left_begin, left_end = count_from_left(left, right, begin), count_from_left(left, right, end)
    taken = (left[left_begin:left_end], right[begin - left_begin : end - left_end])
    # Timsort would sort whatever it is given: without this a chunk that no task sorted in time would never show.
    if sum(map(len, taken)) != len(part) or not all(is_sorted(run) for run in taken):
        raise WrongResultError(
            "multisort merges numbers that are not sorted: a task before this merge was lost or has not ended"
        )
    np.concatenate(taken, out=part)
    part.sort(kind="stable")
    put_back(part, chunks)


def is_sorted(numbers: Integers) -> bool:
    """Return whether no number is smaller than the one before it."""
    return not np.any(numbers[1:] < numbers[:-1])


def count_from_left(left: Integers, right: Integers, smallest: int) -> int:
    """Return how many of that many smallest numbers of two sorted runs come from the left; equal ones do first."""
    return bisect_left(
        range(min(smallest, len(left))),
        True,  # noqa: FBT003 - what bisect looks for, not an option
        lo=max(smallest - len(right), 0),
        key=lambda count: bool(left[count] > right[smallest - count - 1]),
    )


def check(result: Integers, numbers: Integers) -> tuple[str, ...]:
    """Compare what should be sorted with what was to be sorted; sorts the latter in one piece.

    Raises
    ------
    WrongResultError
        If numbers are out of order, or others than they were.
    """
    falls = np.flatnonzero(result[1:] < result[:-1])
    if falls.size:
        at = int(falls[0])
        raise WrongResultError(
            f"multisort left {result[at]} at {at} before {result[at + 1]}: "
            f"{counted(falls.size, 'place is', 'places are')} out of order"
        )
    numbers.sort()
    wrong = np.flatnonzero(result != numbers)
    if wrong.size:
        at = int(wrong[0])
        raise WrongResultError(f"multisort changed numbers: {result[at]} is at {at} where {numbers[at]} belongs")
    return (f"{len(result):,} numbers in order", "the same numbers as one sort of all gives")


if __name__ == "__main__":
    from .outcome import main

    main()
