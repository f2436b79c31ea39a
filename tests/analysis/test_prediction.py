"""Intervals of predicted watts, by hand."""

import numpy as np
import pytest
from tprof.analysis.models.calibration.prediction import LeftOut, predicted, rows_outside

T_OF_ONE_DEGREE = 12.7062
"""Student's t, 95 %, with one degree of freedom."""
GROUPS = np.array(["a", "a", "b", "b"])


def left_out(errors, groups=GROUPS):
    return LeftOut(np.ones(len(errors)), np.exp(np.array(errors)), groups)


def test_the_factor_is_of_the_groups_means_and_of_the_runs_around_them():
    between_only, both = left_out([0.1, 0.1, -0.1, -0.1]), left_out([0.0, 0.2, -0.2, 0.0])

    assert between_only.factor() == pytest.approx(np.exp(T_OF_ONE_DEGREE * np.sqrt(0.01 * 1.5)), rel=1e-4)
    assert both.factor() == pytest.approx(np.exp(T_OF_ONE_DEGREE * np.sqrt(0.01 * 1.5 + 0.01)), rel=1e-4)


def test_without_a_second_group_or_with_a_prediction_that_is_no_power_no_factor_is_known():
    single = left_out([0.1, 0.2], np.array(["a", "a"]))
    negative = LeftOut(np.array([1.0, 1.0, -1.0, 1.0]), np.ones(4), GROUPS)

    assert np.isnan(single.factor())
    assert np.isnan(negative.factor())


def test_an_interval_reaches_as_far_as_the_factor_both_ways():
    errors = left_out([0.1, 0.1, -0.1, -0.1])
    found = predicted(errors, np.array([2.0, 8.0]), np.array([2.0, 1000.0]), np.array(["c", "d"]), 1)

    assert found.high_w / found.power_w == pytest.approx([errors.factor()] * 2)
    assert found.power_w / found.low_w == pytest.approx([errors.factor()] * 2)
    assert (found.covered, found.outside) == (0.5, 1)


def test_a_row_is_outside_if_one_of_its_counters_is_beyond_what_was_seen_of_that_counter():
    seen = np.array([[1.0, 10.0], [2.0, 20.0]])
    rows = np.array([[1.0, 20.0], [0.5, 15.0], [2.5, 15.0], [1.5, 5.0], [1.5, 25.0]])

    assert rows_outside(seen, rows) == 4
