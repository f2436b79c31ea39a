"""Warnings of runs that differ in figures only become one, which gives the range of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.benchmarks.sweep.output import merged_range, without_figures


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["had it for 44% of 2 s", "had it for 7% of 2 s"], "had it for 7 … 44% of 2 s"),
        (["power of package-0 is (0.02 ± 0.1 W)", "power of package-0 is (0.03 ± 0.1 W)"],
         "power of package-0 is ((0.02 … 0.03) ± 0.1 W)"),
        (["not steady after 60 s", "not steady after 1e+02 s"], "not steady after 60 … 1e+02 s"),
    ],
)  # fmt: skip
def test_each_figure_becomes_its_range(texts, said):
    assert len({without_figures(text) for text in texts}) == 1
    assert merged_range(texts) == said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("package-0 is uncertain", "package-1 is uncertain"),
        ("policy0 took 2 GHz", "policy0 took 3 GHz"),
        ("the run ended with status 1", "the run ended with status 2"),
    ],
)
def test_numbers_that_tell_things_apart_stay(one, other):
    assert without_figures(one) != without_figures(other)


@given(st.lists(st.integers(0, 100), min_size=1))
def test_the_range_holds_every_figure_and_one_is_no_range(parts):
    low, high = min(parts), max(parts)

    said = merged_range([f"{part}% of it" for part in parts])

    assert said == (f"{low}% of it" if low == high else f"{low} … {high}% of it")
