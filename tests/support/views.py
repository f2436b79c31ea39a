"""Views of one buffer, as numbers that say where they lie, so that the same view can be had of another buffer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

ROOM_BYTES = 384
KINDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class View(NamedTuple):
    """Where a view lies."""

    offset: int
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    item_bytes: int

    def of(self, buffer: np.ndarray) -> np.ndarray:
        """Return this view of a buffer of bytes."""
        return np.ndarray(self.lengths, KINDS[self.item_bytes], buffer, self.offset, self.strides)

    def bytes(self) -> np.ndarray:
        """Return which bytes it covers."""
        covered = np.zeros(ROOM_BYTES, np.uint8)
        self.of(covered)[...] = -1 & (256**self.item_bytes - 1)
        return covered != 0


@st.composite
def views(draw, *, dimensions=4, longest=5, furthest=48):
    """Give views of any shape: backwards, overlapping themselves, of one item or of none."""
    lengths = draw(st.lists(st.integers(0, longest), max_size=dimensions))
    strides = draw(st.tuples(*[st.integers(-furthest, furthest) for _ in lengths]))
    item_bytes = draw(st.sampled_from(list(KINDS)))
    reaches = [stride * (length - 1) for stride, length in zip(strides, lengths, strict=True) if length > 1]
    low = -sum(reach for reach in reaches if reach < 0)
    high = ROOM_BYTES - item_bytes - sum(reach for reach in reaches if reach > 0)
    if low > high:
        return View(0, (), (), item_bytes)
    return View(draw(st.integers(low, high)), tuple(lengths), strides, item_bytes)


def spans(*, longest=6, room=24):
    """Give stretches of bytes."""
    return st.builds(
        lambda start, length: View(start, (length,), (1,), 1), st.integers(0, room - longest), st.integers(1, longest)
    )
