"""Counts of samples whose counters could not be read come from the samples around them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples
from tprof.analysis.attribution.known_counts import Known, KnownCounts, fill

import tprof
from tprof.trace import Flag


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, None, [100, 100, 100, 125, 175, 200, 200]),
        ((-20, 40), None, [70, 85, 100, 125, 175, 200, 200]),
        ((-20, 40), (160, 500), [70, 85, 100, 125, 175, 200, 350]),
    ],
)
def test_what_was_counted_between_known_samples_is_split_by_time(before, after, expected) -> None:
    """Before the first one, and after the last one, nothing is known to have been counted; so above 2 ** 53 too."""
    more = 1 << 60
    t_ns = np.array([0, 10, 20, 30, 50, 60, 110])
    lost = np.array([1, 1, 0, 1, 1, 0, 1], bool)
    values = np.array([7, 7, 100 + more, 7, 7, 200 + more, 7], np.uint64)

    around = tuple(None if one is None else Known(one[0], {"cycles": one[1] + more}) for one in (before, after))
    fill(values, lost, t_ns, "cycles", around)

    assert [one - more for one in values.tolist()] == expected


def test_a_count_that_fell_has_not_counted_meanwhile() -> None:
    values = np.array([100, 7, 40], np.uint64)

    fill(values, np.array([False, True, False]), np.array([0, 5, 10]), "cycles")

    assert values.tolist() == [100, 100, 40]


@examples(100)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 9), st.integers(0, 39))
def test_counts_that_are_read_in_parts_are_those_that_are_read_at_once(lost, step, begin) -> None:
    """From any sample on: known ones lie before or after a part, or nowhere."""
    numbers = np.arange(len(lost))
    with tempfile.TemporaryDirectory() as folder:
        thread = {
            "t_ns": numbers, "instance": numbers * 0, "task": numbers * 0 - 1, "cpu_ns": numbers,
            "cycles": numbers * 10, "flags": np.where(lost, Flag.UNCOUNTED, 0),
        }  # fmt: skip
        (recorded,) = tprof.load(traces.write(Path(folder) / "x.tprof", threads=[thread])).threads
        samples = recorded.read()
        samples["cycles"][lost] = 0
        expected = samples["cycles"].astype(np.uint64)
        fill(expected, np.array(lost), numbers, "cycles")
        begin = min(begin, len(lost) - 1)
        known, found = KnownCounts.of(recorded, ["cycles"]), []
        for at in range(begin, len(lost), step):
            part = samples[at : at + step]
            found += known.filled(part, at, 10**9)["cycles"].tolist()
            known.passed(part, 10**9)

    assert found == expected[begin:].tolist()


def test_a_thread_without_counters_has_no_counts(tmp_path) -> None:
    (recorded,) = tprof.load(traces.write(tmp_path / "x.tprof")).threads[:1]

    assert KnownCounts.of(recorded, ["cycles"]) is None
