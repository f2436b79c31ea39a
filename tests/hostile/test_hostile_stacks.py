"""Files of sampled stacks that lie: what they say is left out or used, and no joule is lost or made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import stacks, traces
from support.properties import examples

import tprof
from tprof.trace import layout
from tprof.trace.stacks import stacks_of

NUMBER = st.sampled_from([0, 1, 2, 3, 7, layout.NO_STACK, 2**31])
RECORD = st.tuples(
    st.sampled_from([0, 1, 10**9, 2**63, 2**64 - 1]), st.sampled_from([0, 1, 2, 2**64 - 1]), NUMBER, NUMBER, NUMBER,
    st.integers(0, 3), st.integers(0, 5), st.integers(0, 255),
)  # fmt: skip


@given(st.lists(RECORD, max_size=30))
@examples(100)
def test_any_records_are_read_into_stacks_that_end(records):
    found = stacks_of(np.array(records, layout.STACK), 0, 1)

    assert (found.caller < np.arange(len(found.caller))).all()
    assert set(found.stack) <= set(range(len(found.caller)))
    assert all(0 <= one < len(found.functions) for number in found.stack for one in found.path(int(number)))
    assert found.left_out >= 0


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"magic": np.void(b"nonsense")}, "is not a tprof trace file"),
        ({"committed": 10**6, "flushed": 10**6}, "is cut: 1000000 records were committed, 4 are there"),
        ({"record_bytes": 64}, "its header contradicts itself"),
        ({"description_bytes": 3}, "its description is not readable"),
    ],
)
def test_a_damaged_file_is_left_out_or_read_as_far_as_it_goes(tmp_path, fields, note):
    trace = traces.write(tmp_path / "t.tprof")
    whole = tprof.load(trace).profile().flame().energy_j
    records = np.concatenate(
        [stacks.function(0, "f"), stacks.call(0, 0), stacks.samples([10**9, 10**9], [0, 0], tid=0)]
    )
    stacks.write(trace, records, **fields)

    loaded = tprof.load(trace)

    assert any(note in one for one in loaded.notes)
    assert loaded.profile().flame().energy_j == pytest.approx(whole)
