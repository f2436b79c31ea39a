"""The ids of instances that have ended are known again, in few runs, however they came."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution.open_instances import IdRuns, _EndedIds
from tprof.analysis.attribution.windows import UnorderedError

IDS = st.one_of(st.integers(1, 60), st.integers(2**64 - 20, 2**64 - 1))


def runs_of(ids):
    return IdRuns.of(np.array(sorted(ids, key=lambda one: one % 7), np.uint64))


@examples(200)
@given(st.lists(st.sets(IDS, max_size=5), max_size=9))
def test_ids_that_have_ended_are_refused_when_they_come_again_and_no_others(batches):
    ended, known = _EndedIds(), set()
    for ids in batches:
        runs = runs_of(ids)
        spans = zip(runs.begin.tolist(), runs.end.tolist(), strict=True)
        assert {one for begin, end in spans for one in range(begin, end + 1)} == ids
        if known & ids:
            with pytest.raises(UnorderedError, match="again"):
                ended.add(runs)
            return
        ended.add(runs)
        known |= ids


def test_ids_with_too_little_order_are_refused_rather_than_kept(monkeypatch):
    monkeypatch.setattr("tprof.analysis.attribution.open_instances.MOST_RUNS", 3)
    ended = _EndedIds()

    ended.add(runs_of({1, 2, 3, 5, 7, 8}))
    ended.add(runs_of({4, 6}))
    ended.add(runs_of({20, 30}))

    with pytest.raises(UnorderedError, match="too little order"):
        ended.add(runs_of({40}))
