"""Ferret: content-based image search, as in PARSEC and in the paper: one task a query, from its file to its answer.

A task reads its image, cuts it into segments, describes each by colour moments and bounding box, and ranks the
database by how far weights must be carried between segments; each step is a module of `image_search`. The paper asks
1,000 images of a database of 59,695, photographs that are not ours to give: these images are made from a seed, and
each query is a distorted copy of an image of the database. The database's features are made once, which takes a minute
or two for the paper's size, and kept in the user's cache folder. None of this is part of what is measured.

References
----------
C. Bienia, S. Kumar, J. P. Singh, K. Li: The PARSEC Benchmark Suite (2008), for the original.
TProf, section 4.2 and table 5.
"""

from __future__ import annotations

import heapq
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist
from tprof.benchmarks.programs.image_search.database import kept_database
from tprof.benchmarks.programs.image_search.features import SEGMENTS, Segments, extract
from tprof.benchmarks.programs.image_search.images import distort, make_image
from tprof.benchmarks.programs.image_search.ranking import ANSWER, search

import tprof

from .outcome import Checked, WrongResultError, on_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from tprof.benchmarks.programs.image_search.ranking import Database

    Indices = NDArray[np.intp]


IMAGES = {"small": 2_000, "paper": 59_695}
QUERIES = {"small": 32, "paper": 1_000}
TOP = 10
SAMPLE = 4
# Shares of the distorted copies. With the images and distortions as they are, all are found within the first ten.
FIRST_SHARE, AMONG_SHARE = 0.9, 0.98
TOLERANCE = 1e-9
_CHUNK = 1_000  # images whose distances are Python's numbers at a time


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Answer all queries of that size, inside `during`, and check the answers."""
    database = kept_database(IMAGES[size], workers)
    with TemporaryDirectory(prefix="tprof-ferret-") as folder:
        originals = choose_originals(size)
        paths = write_queries(Path(folder), originals)
        answers = no_answers(len(paths))
        with on_runtime(workers, during) as watch:
            search_all(paths, database, answers)
        checks = check(answers, originals, paths, database)
    return Checked(
        duration_s=watch.duration_s,
        checks=checks,
        facts={"queries": len(paths), "images": len(database)},
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of the one task: one for each query."""
    return {"ferret": QUERIES[size]}


def choose_originals(size: str) -> NDArray[np.intp]:
    """Return which image of the database each query is a copy of, evenly spread."""
    return np.arange(QUERIES[size]) * IMAGES[size] // QUERIES[size]


def write_queries(folder: Path, originals: NDArray[np.intp]) -> list[Path]:
    """Write a distorted copy of each of these images into the folder."""
    paths = []
    for number, original in enumerate(originals.tolist()):
        paths.append(folder / f"query-{number:04}.npy")
        np.save(paths[-1], distort(make_image(original), number))
    return paths


def no_answers(queries: int) -> NDArray[np.void]:
    """Return an empty array for the answers: (queries, TOP), image -1 at distance NaN."""
    return np.full((queries, TOP), np.array((-1, np.nan), ANSWER))


def search_all(paths: Sequence[Path], database: Database, answers: NDArray[np.void]) -> None:
    """Fill `answers`, one task instance for each query; returns before they are done where a runtime runs them."""
    for path, answer in zip(paths, answers, strict=True):
        ferret(path, database, answer)


@tprof.task(writes=("answer",))
def ferret(path: Path, database: Database, answer: NDArray[np.void]) -> None:
    """Put the images most like the one in that file into `answer`, nearest first."""
    answer[:] = search(extract(np.load(path, allow_pickle=False)), database, len(answer))


def check(
    answers: NDArray[np.void], originals: NDArray[np.intp], paths: Sequence[Path], database: Database
) -> tuple[str, ...]:
    """Compare the answers with the originals of the queries, and some with plain searches.

    Raises
    ------
    WrongResultError
        If an answer is missing or wrong.
    """
    check_complete(answers)
    return check_originals(answers, originals), check_rankings(answers, paths, database, SAMPLE)


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


if __name__ == "__main__":
    from .outcome import main

    main()
