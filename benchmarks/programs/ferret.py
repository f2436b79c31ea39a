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

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from tprof.benchmarks.programs.image_search.check import check_complete, check_originals, check_rankings
from tprof.benchmarks.programs.image_search.database import kept_database
from tprof.benchmarks.programs.image_search.features import extract
from tprof.benchmarks.programs.image_search.images import distort, make_image
from tprof.benchmarks.programs.image_search.ranking import ANSWER, search
from tprof.runtime import Runtime

import tprof

from .outcome import Outcome, check_size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from tprof.benchmarks.programs.image_search.ranking import Database

IMAGES = {"small": 2_000, "paper": 59_695}
QUERIES = {"small": 32, "paper": 1_000}
TOP = 10
SAMPLE = 4


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Outcome:
    """Answer all queries of that size, inside `during`, and check the answers."""
    check_size(size)
    database = kept_database(IMAGES[size], workers)
    with TemporaryDirectory(prefix="tprof-ferret-") as folder:
        originals = choose_originals(size)
        paths = write_queries(Path(folder), originals)
        answers = no_answers(len(paths))
        with during, Runtime(workers=workers) as runtime:
            begin_s = time.perf_counter()
            search_all(paths, database, answers)
            runtime.wait()
            duration_s = time.perf_counter() - begin_s
        checks = check(answers, originals, paths, database)
    return Outcome(
        program="ferret",
        size=size,
        workers=workers,
        instances=count_instances(size),
        duration_s=duration_s,
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


if __name__ == "__main__":
    from .outcome import main

    main(run, __doc__ and __doc__.partition("\n")[0])
