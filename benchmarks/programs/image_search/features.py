"""An image's segments and what each looks like: colour moments and bounding box, as in Ferret.

An image is cut by k-means over the colour and the place of its pixels, from fixed beginnings and for a fixed number of
rounds, so that like images are cut alike. Ferret describes a segment by the same two kinds of features; our colours
are brightness and two differences of colour, which have no jump at red.

References
----------
Q. Lv, W. Josephson, Z. Wang, M. Charikar, K. Li: Ferret: A Toolkit for Content-Based Similarity Search of
Feature-Rich Data (2006). M. Stricker, M. Orengo: Similarity of Color Images (1995), for the moments.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.ndimage import uniform_filter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]
    Flags = NDArray[np.bool_]

SEGMENTS = 8
FEATURES = 14
ROUNDS = 6
_TILES = (2, 4)  # of the image, with which the segments begin
_PLACE = np.float32(0.6)  # what the way across the image weighs in cutting, beside that from black to white
_COLOURS = np.array([[0.299, 0.587, 0.114], [0.5, -0.419, -0.081], [-0.169, -0.331, 0.5]], np.float32)  # of JPEG
WEIGHTS = np.repeat(np.array([2, 1, 1, 0.2, 0.2, 0.2, 1], np.float32), [3, 3, 3, 1, 1, 1, 2])


class Segments(NamedTuple):
    """What is compared of an image.

    Attributes
    ----------
    features : (SEGMENTS, FEATURES): mean, deviation and skewness of three colours, logarithms of the bounding box's
        aspect and area, the share of it that is filled, row and column of the centre; each times its weight in
        the distance. Zero for a segment that has no pixels.
    weights : (SEGMENTS,), sum 1, as the square root of the number of pixels.
    """

    features: Floats
    weights: Floats


def extract(image: NDArray[np.uint8]) -> Segments:
    """Cut an image of shape (rows, columns, 3) into segments and describe each."""
    rows, columns, _ = image.shape
    colours = _smooth(image)
    points = np.vstack([colours, _places(rows, columns) * _PLACE])
    return describe(colours, cut(points, _tiles(rows, columns)), rows, columns)


def cut(points: Floats, members: Flags) -> Flags:
    """Return which points belong to which segment: (SEGMENTS, points), each point to one.

    Parameters
    ----------
    points
        (coordinates, points), float32.
    members
        (SEGMENTS, points), with which the segments begin; none is empty.
    """
    centres = np.zeros((SEGMENTS, len(points)), np.float32)
    for _ in range(ROUNDS):
        sizes = np.count_nonzero(members, axis=1)[:, None]
        sums = members.astype(np.float32) @ points.T
        # A segment that lost all its points keeps its centre and may win some back.
        centres = np.where(sizes > 0, sums / np.maximum(sizes, 1), centres).astype(np.float32)
        members = _nearest(points, centres)
    return members


def describe(colours: Floats, members: Flags, rows: int, columns: int) -> Segments:
    """Return what segments look like.

    Parameters
    ----------
    colours
        (3, rows * columns).
    members
        (SEGMENTS, rows * columns), which pixels belong to which segment.
    rows, columns
        Of the image.
    """
    sizes = np.count_nonzero(members, axis=1)
    features = np.hstack([
        _moments(colours, members, sizes),
        _boxes(members.reshape(SEGMENTS, rows, columns), sizes),
        _means(_places(rows, columns), members, sizes),
    ])  # fmt: skip
    features[sizes == 0] = 0
    roots = np.sqrt(sizes)
    return Segments((features * WEIGHTS).astype(np.float32), (roots / roots.sum()).astype(np.float32))


def _nearest(points: Floats, centres: Floats) -> Flags:
    # Without |point|², which is the same for all centres.
    distances = (-2 * centres) @ points
    distances += (centres**2).sum(axis=1)[:, None]
    members: Flags = distances.argmin(axis=0) == np.arange(SEGMENTS)[:, None]
    return members


def _smooth(image: NDArray[np.uint8]) -> Floats:
    """Return brightness, 0 to 1, and differences of colour, about 0, each pixel the mean of nine: (3, pixels)."""
    colours = image.astype(np.float32) @ (_COLOURS.T / np.float32(255))
    smooth = uniform_filter(colours, size=(3, 3, 1), mode="nearest")
    return np.ascontiguousarray(smooth.reshape(-1, 3).T)


@cache
def _places(rows: int, columns: int) -> Floats:
    """Return each pixel's row and column as shares of the image: (2, pixels)."""
    return np.mgrid[0 : 1 : rows * 1j, 0 : 1 : columns * 1j].reshape(2, -1).astype(np.float32)


@cache
def _tiles(rows: int, columns: int) -> Flags:
    """Return which pixels belong to which tile: (SEGMENTS, pixels)."""
    down, across = _TILES
    tile_rows, tile_columns = np.arange(rows) * down // rows, np.arange(columns) * across // columns
    tiles = (tile_rows[:, None] * across + tile_columns).ravel()
    members: Flags = tiles == np.arange(SEGMENTS)[:, None]
    return members


def _means(values: NDArray[np.floating], members: Flags, sizes: NDArray[np.intp]) -> Doubles:
    """Return the mean of each row of values in each segment: (SEGMENTS, rows)."""
    return members.astype(np.float64) @ values.T.astype(np.float64) / np.maximum(sizes, 1)[:, None]


def _moments(colours: Floats, members: Flags, sizes: NDArray[np.intp]) -> Doubles:
    """Return mean, deviation and cube root of the third moment about the mean, of each colour: (SEGMENTS, 9)."""
    values = colours.astype(np.float64)  # single precision would leave noise of a hundredth in the cube root
    powers = (values, values * values, values * values * values)
    first, second, third = (_means(power, members, sizes) for power in powers)
    variances = np.maximum(second - first**2, 0)
    skews = third - 3 * first * second + 2 * first**3
    return np.hstack([first, np.sqrt(variances), np.cbrt(skews)])


def _boxes(masks: Flags, sizes: NDArray[np.intp]) -> Doubles:
    """Return logarithms of aspect and area, as a share of the image, and the share that is filled: (SEGMENTS, 3)."""
    heights, widths = (_extents(np.logical_or.reduce(masks, axis=axis)) for axis in (2, 1))
    areas = heights * widths
    return np.stack([np.log(widths / heights), np.log(areas / masks[0].size), sizes / areas], axis=1)


def _extents(used: Flags) -> NDArray[np.intp]:
    """Return how far each row of flags reaches from its first to its last, at least 1."""
    ahead, behind = used.argmax(axis=1), used[:, ::-1].argmax(axis=1)
    extents: NDArray[np.intp] = np.maximum(used.shape[1] - ahead - behind, 1)
    return extents
