"""Refutes a wrong answer: by the images that queries are copies of, and by a plain search through all images."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist
from tprof.benchmarks.programs.outcome import WrongResultError

from .features import SEGMENTS, Segments, extract

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from .ranking import Database

    Indices = NDArray[np.intp]

# Shares of the distorted copies. With the images and distortions as they are, all are found within the first ten.
FIRST_SHARE, AMONG_SHARE = 0.9, 0.98
TOLERANCE = 1e-9
_CHUNK = 1_000  # images whose distances are Python's numbers at a time


def check_complete(answers: NDArray[np.void]) -> None:
    """Refuse answers that were never written.

    Raises
    ------
    WrongResultError
        If a query has none.
    """
    missing = int(np.isnan(answers["distance"]).any(axis=1).sum())
    if missing:
        raise WrongResultError(f"ferret left {missing} of {len(answers)} queries without an answer: a task was lost")


def check_originals(answers: NDArray[np.void], originals: Indices) -> str:
    """Expect the image that each query is a copy of, mostly first, and return how many were.

    Raises
    ------
    WrongResultError
        If too few were found.
    """
    found = answers["image"] == originals[:, None]
    first, among, queries = int(found[:, 0].sum()), int(found.any(axis=1).sum()), len(answers)
    if first < FIRST_SHARE * queries or among < AMONG_SHARE * queries:
        raise WrongResultError(
            f"ferret found the originals of {first} of {queries} distorted copies first and of {among} among the "
            f"first {answers.shape[1]}, expected at least {FIRST_SHARE:.0%} and {AMONG_SHARE:.0%}"
        )
    return (
        f"originals of {first:,} of {queries:,} distorted copies first and of {among:,} in the top {answers.shape[1]}"
    )


def check_rankings(answers: NDArray[np.void], paths: Sequence[Path], database: Database, sample: int) -> str:
    """Compare a sample of the answers with plain searches.

    Raises
    ------
    WrongResultError
        If one differs in an image or its distance.
    """
    chosen = np.unique(np.linspace(0, len(paths) - 1, sample).astype(int))
    for query in chosen:
        right = plain_ranking(extract(np.load(paths[query], allow_pickle=False)), database, answers.shape[1])
        for place, (distance, image) in enumerate(right):
            ours = answers[query, place]
            if ours["image"] != image or not abs(ours["distance"] - distance) <= TOLERANCE:
                raise WrongResultError(
                    f"ferret put image {ours['image']} at distance {ours['distance']:.6f} in place {place + 1} for "
                    f"query {query}, a plain search puts image {image} at {distance:.6f} there"
                )
    return f"{len(chosen)} rankings against plain searches of {len(database):,} images"


def plain_ranking(query: Segments, database: Database, top: int) -> list[tuple[float, int]]:
    """Return (distance, image) of the nearest, without bounds, one image after the other."""
    return heapq.nsmallest(top, ((distance, image) for image, distance in enumerate(_plain_distances(query, database))))


def _plain_distances(query: Segments, database: Database) -> Iterator[float]:
    ours = query.weights.tolist()
    for begin in range(0, len(database), _CHUNK):
        here = slice(begin, begin + _CHUNK)
        ways = [cdist(query.features, database.features[segment, :, here].T) for segment in range(SEGMENTS)]
        between = np.stack(ways, axis=2).transpose(1, 0, 2).tolist()
        theirs = database.weights[:, here].T.tolist()
        yield from (plain_distance(ours, weights, way) for weights, way in zip(theirs, between, strict=True))


def plain_distance(ours: Sequence[float], theirs: Sequence[float], ways: Sequence[Sequence[float]]) -> float:
    """Return the distance by integrated region matching of two images.

    Parameters
    ----------
    ours, theirs
        Weights of their segments.
    ways
        Distances between segments, a row for each of ours.
    """
    left, capacity, total = list(ours), list(theirs), 0.0
    pairs = [(way, here, there) for here, row in enumerate(ways) for there, way in enumerate(row)]
    for way, here, there in sorted(pairs):
        carried = min(left[here], capacity[there])
        left[here] -= carried
        capacity[there] -= carried
        total += carried * way
    return total
