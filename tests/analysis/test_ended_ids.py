"""The ids of instances that have ended are known again, however they came."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution.ended_ids import EndedIds

IDS = st.one_of(st.integers(1, 60), st.integers(2**64 - 20, 2**64 - 1))


@examples(200)
@given(st.lists(st.sets(IDS, max_size=5), max_size=9))
def test_ids_that_have_ended_are_noted_when_they_come_again_and_no_others(batches):
    ended, known, again = EndedIds(), set(), set()
    for ids in batches:
        ended.add(np.array(sorted(ids, key=lambda one: one % 7), np.uint64))
        again |= known & ids
        known |= ids
        assert set(ended.again.tolist()) == again
