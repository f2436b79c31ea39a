"""Fields of records that are copied to arrays of their own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples

from tprof import _core

RECORD = np.dtype(
    [("wide", "<u8"), ("middle", "<u4"), ("short", "<u2"), ("byte", "u1"), ("other", "u1"), ("last", "<u8")]
)


def offset(name):
    return RECORD.fields[name][1]


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 3000), st.integers(0, 5), st.sets(st.sampled_from(RECORD.names)))
def test_columns_are_the_fields_of_the_records(seed, count, at, names):
    records = np.frombuffer(np.random.default_rng(seed).bytes(count * RECORD.itemsize), RECORD)
    arrays = {name: np.zeros(at + count + 1, RECORD[name]) for name in names}

    _core.copy_columns(records, RECORD.itemsize, at, tuple((offset(name), array) for name, array in arrays.items()))

    for name, array in arrays.items():
        np.testing.assert_array_equal(array[at : at + count], records[name])
        assert not array[:at].any()
        assert not array[at + count :].any()


@pytest.mark.parametrize(
    ("field", "array", "at", "message"),
    [
        (offset("last"), np.zeros(4, "<u8"), 2, "an array is too short"),
        (RECORD.itemsize - 4, np.zeros(9, "<u8"), 0, "a field is not inside the record"),
        (-1, np.zeros(9, "u1"), 0, "a field is not inside the record"),
        (0, np.zeros(9, "<c16"), 0, "a value has 1, 2, 4 or 8 bytes"),
        (0, np.zeros(9, "<u8"), -1, "the records are not whole, or the columns too many"),
    ],
)
def test_what_does_not_fit_is_refused(field, array, at, message):
    with pytest.raises(ValueError, match=message):
        _core.copy_columns(np.zeros(3, RECORD), RECORD.itemsize, at, ((field, array),))


def test_arrays_that_cannot_be_written_or_are_not_contiguous_are_refused():
    fixed = np.zeros(3, "<u8")
    fixed.flags.writeable = False

    for array in (fixed, np.zeros(6, "<u8")[::2]):
        with pytest.raises((ValueError, BufferError)):
            _core.copy_columns(np.zeros(3, RECORD), RECORD.itemsize, 0, ((0, array),))
