"""Least squares without negative coefficients, against a solver that works one system at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls
from support.properties import examples
from tprof.analysis.operating_points.fit import nonnegative

NUMBERS = some.integers(-40, 40).map(lambda value: value / 8)


@examples()
@given(arrays(float, (3, 5, 3), elements=NUMBERS), arrays(float, (3, 5), elements=NUMBERS))
def test_what_is_left_is_least_and_no_coefficient_is_negative(rows, wanted):
    found, left = nonnegative(rows, wanted)

    assert (found >= 0).all()
    for system in range(3):
        _, distance = nnls(rows[system], wanted[system])
        assert left[system] == pytest.approx(distance**2, abs=1e-4)
        assert np.square(rows[system] @ found[system] - wanted[system]).sum() == pytest.approx(left[system], abs=1e-4)


def test_a_system_whose_best_is_negative_gives_zero():
    found, left = nonnegative(np.array([[[1.0], [1.0]]]), np.array([[-1.0, -2.0]]))

    assert found.tolist() == [[0.0]]
    assert left.tolist() == [5.0]
