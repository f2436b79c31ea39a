"""Differences: intervals that hold, chances that are no smaller than they may be, and what is not known."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.compare.evidence import Estimate, difference, holm
from tprof.analysis.compare.scatter import batched_error
from tprof.analysis.compare.sides import estimates
from tprof.analysis.operating_points.scales import student

TRIALS = 4000
LEVEL = 0.05
TOLERANCE = 3 * math.sqrt(LEVEL * (1 - LEVEL) / TRIALS)
"""Three standard errors of a share that is found in so many trials."""
NAMES = [str(place) for place in range(TRIALS)]


def estimate(value, variance=1.0, df=1e9, below=0.0, above=0.0):
    return Estimate(*(np.atleast_1d(np.asarray(part, float)) for part in (value, variance, df, below, above)))


def frame(values, variance=np.nan, df=np.nan):
    empty = dict.fromkeys(("below", "above", "common_below", "common_above"), 0.0)
    return pd.DataFrame({"value": values, "variance": variance, "df": df, **empty}, index=NAMES)


def one_run(draw, mean, count, spread, drift=0.0):
    """Return a run of so many instances of each trial's task, which may drift slowly."""
    values = mean * (1 + spread * draw.standard_normal((TRIALS, count)))
    if drift:
        values += mean * drift * _slow(draw.standard_normal((TRIALS, count)))
    errors = [batched_error(row) for row in values]
    return frame(values.mean(axis=1), *np.array(errors).T)


def _slow(steps, memory=0.9):
    """Return noise of unit variance of which each value keeps a part of the one before."""
    found = np.empty_like(steps)
    found[:, 0] = steps[:, 0]
    for place in range(1, steps.shape[1]):
        found[:, place] = memory * found[:, place - 1] + math.sqrt(1 - memory**2) * steps[:, place]
    return found


def several(draw, mean, runs, between, within=0.02):
    """Return runs that differ as wholes."""
    scatter = math.hypot(between, within)
    return [frame(mean * (1 + scatter * draw.standard_normal(TRIALS)), (within * mean) ** 2, 99.0) for _ in range(runs)]


def compared(a, b, **options):
    left, right, is_shared = estimates(a, b, NAMES, common=False)
    return difference(left, right, is_shared=is_shared, **options)


def held(low, high, truth):
    return np.mean((low <= truth) & (truth <= high))


@pytest.mark.parametrize("count", [4, 12, 60])
def test_instances_of_one_run_that_are_alike_are_called_different_at_the_level(count):
    draw = np.random.default_rng(count)

    found = compared([one_run(draw, 1.0, count, 0.1)], [one_run(draw, 1.0, 2 * count, 0.3)])

    assert np.mean(found.chance < LEVEL) <= LEVEL + TOLERANCE
    assert held(found.low, found.high, 0.0) >= 1 - LEVEL - TOLERANCE


@pytest.mark.parametrize(("before", "after"), [(2, 2), (3, 5), (5, 5), (1, 4), (4, 1)])
def test_runs_that_differ_as_wholes_are_called_different_at_the_level(before, after):
    draw = np.random.default_rng(10 * before + after)

    found = compared(several(draw, 1.0, before, 0.1), several(draw, 1.0, after, 0.1))

    assert np.mean(found.chance < LEVEL) <= LEVEL + TOLERANCE
    assert held(found.low, found.high, 0.0) >= 1 - LEVEL - TOLERANCE
    unbounded = np.isnan(found.ratio_low)
    assert held(found.ratio_low[~unbounded], found.ratio_high[~unbounded], 1.0) >= 1 - LEVEL - TOLERANCE


def test_the_intervals_of_a_real_change_hold_it_and_it_is_found():
    draw = np.random.default_rng(5)

    found = compared(several(draw, 2.0, 5, 0.05), several(draw, 2.6, 5, 0.05))

    assert held(found.low, found.high, 0.6) >= 1 - LEVEL - TOLERANCE
    assert held(found.ratio_low, found.ratio_high, 1.3) >= 1 - LEVEL - TOLERANCE
    assert np.mean(found.chance < LEVEL) > 0.99


def test_batches_show_a_drift_that_independent_instances_would_hide():
    draw = np.random.default_rng(6)
    found = compared([one_run(draw, 1.0, 400, 0.1, drift=0.1)], [one_run(draw, 1.0, 400, 0.1, drift=0.1)])
    if_independent = 1.96 * math.sqrt(2 * (0.1**2 + 0.1**2) / 400)

    assert np.mean(np.abs(found.difference) > if_independent) > 0.3, "neighbours that are alike move the mean by more"
    assert np.mean(found.chance < LEVEL) < 0.1


def test_runs_that_happen_to_agree_are_not_taken_for_more_alike_than_their_instances():
    a, b = ([frame(value, 0.04, 99.0) for _ in range(2)] for value in (1.0, 1.3))

    found = compared(a, b)

    assert np.all(found.chance > LEVEL)


def test_a_single_instance_in_a_single_run_has_no_interval_and_no_chance():
    assert all(math.isnan(value) for value in batched_error(np.array([1.0])))
    found = compared([frame(1.0)], [frame(2.0, 0.01, 9.0)])

    assert found.difference[0] == 1.0
    assert np.isnan(found.low[0])
    assert np.isnan(found.chance[0])


def test_welchs_example_by_hand():
    """Means 20 and 22, variances of the means 0.5 with 9 and 1.5 with 4 degrees of freedom."""
    found = difference(estimate(20.0, 0.5, 9), estimate(22.0, 1.5, 4))

    df = 2.0**2 / (0.25 / 9 + 2.25 / 4)
    half = float(student(df)) * math.sqrt(2.0)
    assert found.low[0] == pytest.approx(2 - half)
    assert found.high[0] == pytest.approx(2 + half)
    assert found.chance[0] == pytest.approx(0.2016, abs=5e-4)  # tables of t = 1.414: 0.207 at 6 degrees, 0.200 at 7


def test_fiellers_interval_by_hand():
    """Ratio 2 of exact degrees of freedom, both means known within 10 %."""
    found = difference(estimate(1.0, 0.01), estimate(2.0, 0.04))

    g = 1.959964**2 * 0.01
    half = 1.959964 * math.sqrt(0.04 * (1 - g) + 4 * 0.01)
    assert found.ratio_low[0] == pytest.approx((2 - half) / (1 - g), rel=1e-4)
    assert found.ratio_high[0] == pytest.approx((2 + half) / (1 - g), rel=1e-4)


def test_a_first_side_that_may_be_zero_bounds_no_ratio():
    found = difference(estimate(1.0, 1.0), estimate(2.0, 0.01))

    assert found.ratio[0] == 2.0
    assert np.isnan(found.ratio_high[0])


def test_a_bias_that_explains_the_difference_leaves_no_evidence():
    exact = difference(estimate(1.0, 1e-6), estimate(1.2, 1e-6))
    biased = difference(estimate(1.0, 1e-6, above=0.1), estimate(1.2, 1e-6, below=0.1))

    assert exact.chance[0] < 1e-6
    assert biased.chance[0] > 0.9
    assert biased.low[0] <= 0.0 <= exact.low[0]


@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=12))
@examples(60)
def test_holms_chances_keep_their_order_and_are_no_smaller(chances):
    raw = np.array(chances, float)

    found = holm(raw)

    known = np.isfinite(raw)
    assert np.array_equal(np.isfinite(found), known)
    assert np.all(found[known] >= raw[known])
    assert np.all(found[known] <= 1.0)
    order = np.argsort(raw[known], kind="stable")
    assert np.all(np.diff(found[known][order]) >= 0)


def test_holms_chances_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03, math.nan])).tolist()[:3] == pytest.approx([0.03, 0.06, 0.06])


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@examples(60)
def test_exchanging_the_sides_turns_the_difference_round(a, b, of_a, of_b):
    sides = estimate(a, of_a, 5), estimate(b, of_b, 7)
    there, back = difference(*sides), difference(*reversed(sides))

    assert there.difference[0] == -back.difference[0]
    assert there.low[0] == pytest.approx(-back.high[0])
    assert there.chance[0] == pytest.approx(back.chance[0])
