"""The images of a database that are most like one: a cheap bound for all of them, then the distance of the likely ones.

Two images are as far from each other as integrated region matching says: the weights of the segments of one are
carried to those of the other, the nearest pair of segments first, and the distance is the sum of weight times way.
It is what Ferret's earth mover's distance is, with a plan that is made greedily and so without a linear programme.

However weights are carried, each goes at least as far as the nearest segment of the other image. That bound, taken
from either side, comes from matrix products over the whole database in single precision. Images are then measured
in the order of their bounds until the next bound is above the last distance that counts: no nearer one is missed.
O(SEGMENTS² FEATURES) a bound, and O(SEGMENTS²) steps for all images that are measured together.

References
----------
J. Li, J. Wang, G. Wiederhold: IRM: Integrated Region Matching for Image Retrieval (2000).
M. Kusner, Y. Sun, N. Kolkin, K. Weinberger: From Word Embeddings To Document Distances (2015), for the bound.
T. Seidl, H.-P. Kriegel: Optimal Multi-Step k-Nearest Neighbor Search (1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .features import SEGMENTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .features import Segments

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]
    Indices = NDArray[np.intp]

ANSWER = np.dtype([("image", np.int64), ("distance", np.float64)])
BLOCK = 8_192  # images whose distances from a segment stay in a second-level cache
BATCH = 64  # images that are measured together
_ABSENT = np.float32(1e6)  # squared distance of a segment that has no pixels: never the nearest, and times zero is zero
# Rounding makes a squared distance less than half of this wrong: a segment's squared features sum to less than 20.
_SLACK = np.float32(1e-4)


@dataclass(frozen=True)
class Database:
    """Segments of many images, so arranged that a loop over images runs along memory.

    Attributes
    ----------
    features : (SEGMENTS, FEATURES, images), float32.
    weights : (SEGMENTS, images), float32, sum 1 for each image, 0 for a segment without pixels.
    squares : (SEGMENTS, images), float32, sums of the squared features, very large for a segment without pixels.
    """

    features: Floats
    weights: Floats
    squares: Floats

    @classmethod
    def of(cls, features: Floats, weights: Floats) -> Database:
        """Add the squares."""
        return cls(features, weights, np.where(weights > 0, np.einsum("sfi,sfi->si", features, features), _ABSENT))

    def __len__(self) -> int:
        """Return the number of images."""
        return int(self.features.shape[2])


def search(query: Segments, database: Database, top: int) -> NDArray[np.void]:
    """Return the `top` nearest images and their distances, nearest first: (top,) of ANSWER."""
    bounds = lower_bounds(query, database)
    order = np.argsort(bounds)
    best = np.empty(0, ANSWER)
    for begin in range(0, len(order), BATCH):
        if len(best) == top and bounds[order[begin]] > best["distance"][-1]:
            break
        chosen = order[begin : begin + BATCH]
        measured = np.empty(len(chosen), ANSWER)
        measured["image"], measured["distance"] = chosen, distances(query, database, chosen)
        both = np.concatenate([best, measured])
        best = both[np.lexsort((both["image"], both["distance"]))[:top]]
    return best


def lower_bounds(query: Segments, database: Database) -> Floats:
    """Return for each image a number that its distance is not below: (images,)."""
    bounds = np.empty(len(database), np.float32)
    squares = np.where(query.weights > 0, (query.features**2).sum(axis=1), _ABSENT).astype(np.float32)
    for begin in range(0, len(database), BLOCK):
        here = slice(begin, begin + BLOCK)
        bounds[here] = _bounds_of_block(query, squares, database, here)
    return bounds


def _bounds_of_block(query: Segments, squares: Floats, database: Database, here: slice) -> Floats:
    """Return the larger of two bounds: what the query's segments need, and what the images' need."""
    doubled = -2 * query.features
    nearest = np.full((SEGMENTS, len(range(*here.indices(len(database))))), np.inf, np.float32)
    theirs = np.zeros(nearest.shape[1], np.float32)
    for segment in range(SEGMENTS):
        between = doubled @ database.features[segment, :, here]
        between += squares[:, None]
        between += database.squares[segment, here]
        np.minimum(nearest, between, out=nearest)
        theirs += database.weights[segment, here] * _ways(between.min(axis=0))
    bounds: Floats = np.maximum(query.weights @ _ways(nearest), theirs)
    return bounds


def _ways(squares: Floats) -> Floats:
    """Return square roots of what the squares are at least, in their place."""
    squares -= _SLACK
    np.maximum(squares, 0, out=squares)
    return np.sqrt(squares, out=squares)


def distances(query: Segments, database: Database, chosen: Indices) -> Doubles:
    """Return how far the chosen images are from the query: (chosen,)."""
    ways = _ways_between(query, database, chosen)
    order = np.argsort(ways, axis=1, kind="stable")
    rows = np.arange(len(chosen))
    ours = np.tile(query.weights.astype(np.float64), (len(chosen), 1))
    theirs = database.weights[:, chosen].T.astype(np.float64)
    total = np.zeros(len(chosen))
    for pair in order.T:
        from_here, to_there = (rows, pair // SEGMENTS), (rows, pair % SEGMENTS)
        carried = np.minimum(ours[from_here], theirs[to_there])
        ours[from_here] -= carried
        theirs[to_there] -= carried
        total += carried * ways[rows, pair]
    return total


def _ways_between(query: Segments, database: Database, chosen: Indices) -> Doubles:
    """Return distances between the query's segments and the chosen images': (chosen, SEGMENTS * SEGMENTS)."""
    theirs = database.features[:, :, chosen].transpose(2, 0, 1).astype(np.float64)
    steps = query.features.astype(np.float64)[None, :, None, :] - theirs[:, None, :, :]
    ways: Doubles = np.sqrt(np.einsum("iabf,iabf->iab", steps, steps)).reshape(len(chosen), -1)
    return ways
