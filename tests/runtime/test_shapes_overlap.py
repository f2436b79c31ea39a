"""Two arrays are the same data exactly where NumPy says that they share memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from support.views import ROOM_BYTES, View, views
from tprof.runtime import _scheduler


def agree(one, other):
    assert _scheduler.share_memory(one, other) == np.shares_memory(one, other)
    assert _scheduler.share_memory(other, one) == np.shares_memory(one, other)


@examples(1500)
@given(views(), views())
def test_any_two_views_of_a_buffer(one, other):
    buffer = np.zeros(ROOM_BYTES, np.uint8)

    agree(one.of(buffer), other.of(buffer))


@examples(300)
@given(st.integers(1, 40), st.integers(2, 40), st.integers(2, 40), st.data())
def test_columns_of_one_stride_that_miss_each_other_by_a_byte(width, gap, rows, data):
    stride = width + gap
    offset = data.draw(st.integers(0, stride - 1))
    buffer = np.zeros(stride * (rows + 2), np.uint8)
    one = np.ndarray((rows, width), np.uint8, buffer, 0, (stride, 1))
    other = np.ndarray((rows, data.draw(st.integers(1, gap))), np.uint8, buffer, offset, (stride, 1))

    agree(one, other)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 3)), min_size=3, max_size=3), st.data())
def test_slices_transposed_reversed_and_broadcast(slices, data):
    whole = np.zeros((10, 10, 10), np.float32)

    def part():
        at = tuple(slice(start, start + length, step) for start, length, step in slices)
        view = whole[at].transpose(data.draw(st.permutations(range(3))))
        if data.draw(st.booleans()):
            view = view[::-1]
        return np.broadcast_to(view, (2, *view.shape)) if data.draw(st.booleans()) else view

    agree(part(), part())


def lengths():
    return st.integers(0, 3) | st.integers(0, 2**62)


def strides():
    return st.integers(-9, 9) | st.integers(-(2**60), 2**60) | st.integers(-(2**63), 2**63 - 1)


@examples(1000)
@given(st.lists(st.tuples(lengths(), strides()), max_size=4))
def test_any_strides_are_refused_or_overlap_with_their_own_first_item(axes):
    """NumPy checks neither; whatever is not refused must stay within 64 bits."""
    data = np.zeros(2)
    shape = [length for length, _ in axes]
    view = strided(data[1:], shape, [stride for _, stride in axes])
    if view is None:
        return
    reaches = [stride * (length - 1) for length, stride in axes]
    reach_bytes = 8 + sum(abs(reach) for reach in reaches)
    start = data.ctypes.data + 8 + sum(reach for reach in reaches if reach < 0)

    if 0 not in shape and (reach_bytes > 2**60 or start < 0):
        with pytest.raises(ValueError, match="strides lead out of memory"):
            _scheduler.share_memory(view, data)
        return

    assert _scheduler.share_memory(view, data[1:]) == (0 not in shape)
    assert _scheduler.share_memory(view, view) == (0 not in shape)


def strided(first, shape, strides):
    """Return such a view, None where NumPy itself refuses."""
    try:
        return np.lib.stride_tricks.as_strided(first, shape, strides)
    except (ValueError, OverflowError):
        return None


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_fields_of_a_structure_are_apart(start):
    records = np.zeros(20, [("a", "u1"), ("b", "<u2"), ("c", "f8"), ("d", "u1")])
    fields = ["a", "b", "c", "d"]

    for other in fields:
        agree(records[fields[start]][::2], records[other][1:])
        agree(records[fields[start]], records[other])


def test_what_has_no_byte_shares_none():
    empty, scalar = np.zeros((0, 5)), np.zeros(())

    agree(empty, empty)
    agree(scalar, scalar)
    agree(scalar, empty)
    agree(scalar, scalar[...])


def test_more_dimensions_than_are_kept_exactly_never_miss_an_overlap():
    buffer = np.zeros(ROOM_BYTES, np.uint8)
    five = View(0, (2, 2, 2, 2, 2), (100, 40, 16, 6, 2), 1).of(buffer)

    for offset in range(ROOM_BYTES):
        other = buffer[offset : offset + 1]
        assert _scheduler.share_memory(five, other) >= np.shares_memory(five, other)


def test_a_search_that_takes_too_long_is_given_up_for_yes():
    buffer = np.zeros(10**6, np.int8)
    one = np.ndarray((40,) * 4, np.int8, buffer, 0, (1094, 1902, 8146, 2222))
    other = np.ndarray((40,) * 4, np.int8, buffer, 1, (1118, 2904, 7918, 3334))

    assert not np.shares_memory(one, other)
    assert _scheduler.share_memory(one, other)
