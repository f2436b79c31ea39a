"""Photographs of a kind: images from a seed in families that look alike, and distorted copies of them.

Image i is the same in a database of any size. It shows its family's scene, shapes upon a background that fades from
one colour to another, with each shape moved, resized and tinted, and with noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Pixels = NDArray[np.uint8]

SIDE = 64
FAMILY = 20
SHAPES = 6
SEED = 2006
_SCENES, _MEMBERS, _COPIES = 0, 1, 2  # streams of random numbers that never meet
_ROWS, _COLUMNS = np.mgrid[0 : 1 : SIDE * 1j, 0 : 1 : SIDE * 1j].astype(np.float32)


@dataclass(frozen=True)
class Scene:
    """What a family shares; places and radii are shares of the side.

    Attributes
    ----------
    ends : (2, 3), colours between which the background fades.
    tilt : radians, the direction in which it fades.
    places : (SHAPES, 2), row and column of each shape's middle.
    radii : (SHAPES, 2), along rows and columns.
    colours : (SHAPES, 3), of which later ones cover earlier ones.
    boxes : (SHAPES,), whether the shape is a box, else it is an ellipse.
    """

    ends: Floats
    tilt: float
    places: Floats
    radii: Floats
    colours: Floats
    boxes: NDArray[np.bool_]


def make_image(index: int) -> Pixels:
    """Return image number `index`: (SIDE, SIDE, 3), red, green and blue."""
    scene = _scene(index // FAMILY)
    source = np.random.default_rng([SEED, _MEMBERS, index])
    tint = source.normal(0, 12, 3)
    image = _background(scene, source.normal(0, 0.2)) + tint.astype(np.float32)
    places = scene.places + source.normal(0, 0.06, (SHAPES, 2))
    radii = scene.radii * source.uniform(0.75, 1.3, (SHAPES, 2))
    colours = scene.colours + tint + source.normal(0, 18, (SHAPES, 3))
    for place, radius, colour, box in zip(places, radii, colours, scene.boxes, strict=True):
        np.copyto(image, colour, where=_inside(place, radius, box=bool(box))[..., None], casting="same_kind")
    return _as_pixels(image + _noise(source, 4))


def distort(image: Pixels, number: int) -> Pixels:
    """Return a copy that is moved by up to two pixels, brighter or darker, and noisy, in the way of that number."""
    source = np.random.default_rng([SEED, _COPIES, number])
    rows, columns = (np.clip(np.arange(SIDE) + by, 0, SIDE - 1) for by in source.integers(-2, 3, 2))
    moved = image[np.ix_(rows, columns)].astype(np.float32)
    gain, offset = source.uniform(0.92, 1.08), source.uniform(-8, 8)
    return _as_pixels(moved * np.float32(gain) + np.float32(offset) + _noise(source, 8))


def _scene(family: int) -> Scene:
    source = np.random.default_rng([SEED, _SCENES, family])
    return Scene(
        ends=source.uniform(20, 235, (2, 3)).astype(np.float32),
        tilt=source.uniform(0, 2 * np.pi),
        places=source.uniform(0.1, 0.9, (SHAPES, 2)).astype(np.float32),
        radii=source.uniform(0.08, 0.3, (SHAPES, 2)).astype(np.float32),
        colours=source.uniform(10, 245, (SHAPES, 3)).astype(np.float32),
        boxes=source.random(SHAPES) < 1 / 3,
    )


def _background(scene: Scene, turn: float) -> Floats:
    rows, columns = np.sin(scene.tilt + turn), np.cos(scene.tilt + turn)
    along = np.float32(rows) * _ROWS + np.float32(columns) * _COLUMNS
    along -= along.min()
    along /= along.max()
    faded: Floats = scene.ends[0] + along[..., None] * (scene.ends[1] - scene.ends[0])
    return faded


def _inside(place: Floats, radius: Floats, *, box: bool) -> NDArray[np.bool_]:
    rows = np.abs(_ROWS - np.float32(place[0])) / np.float32(radius[0])
    columns = np.abs(_COLUMNS - np.float32(place[1])) / np.float32(radius[1])
    inside: NDArray[np.bool_] = np.maximum(rows, columns) < 1 if box else rows**2 + columns**2 < 1
    return inside


def _noise(source: Generator, deviation: float) -> Floats:
    return source.standard_normal((SIDE, SIDE, 3), dtype=np.float32) * np.float32(deviation)


def _as_pixels(image: Floats) -> Pixels:
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)
