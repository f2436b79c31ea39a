"""Curves through few tried frequencies: exact for the laws, through what was seen, silent where no law comes near."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import nnls
from support.properties import examples
from tprof.analysis.operating_points.curves import Point
from tprof.analysis.operating_points.fit import filled, nonnegative
from tprof.runtime.policy.controls import spread

from benchmarks.simulator.policy_trials import FREQUENCIES_HZ
from benchmarks.simulator.simulated_machine import RESPONSES

TRIED = spread(FREQUENCIES_HZ, 3)


def seen(law, frequencies_hz=TRIED):
    return {hz: Point(law.power_w(hz) * law.time(hz), law.time(hz)) for hz in frequencies_hz}


@pytest.mark.parametrize("task", RESPONSES)
def test_three_frequencies_tell_the_papers_tasks_at_all_others(task):
    law = RESPONSES[task]

    curve = filled(seen(law), FREQUENCIES_HZ)

    assert list(curve) == list(FREQUENCIES_HZ)
    for hz, point in curve.items():
        assert point.time_s == pytest.approx(law.time(hz), rel=1e-6)
        assert point.energy_j == pytest.approx(law.energy(hz) * law.power_w(FREQUENCIES_HZ[-1]), rel=0.02)


values = st.floats(1e-3, 1e3)


@given(st.dictionaries(st.sampled_from(FREQUENCIES_HZ), st.builds(Point, values, values), min_size=1))
def test_what_was_tried_is_kept_as_it_was_seen_and_nothing_is_made_up_outside(tried):
    curve = filled(tried, FREQUENCIES_HZ)

    assert tried.items() <= curve.items()
    assert all(min(tried) <= hz <= max(tried) for hz in curve)
    assert all(point.energy_j > 0 and point.time_s > 0 for point in curve.values())


def test_two_frequencies_say_nothing_of_those_between():
    tried = seen(RESPONSES["sort"], (FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]))

    assert filled(tried, FREQUENCIES_HZ) == tried


def test_where_no_law_comes_near_only_what_was_tried_is_known():
    tried = {hz: Point(1.0, time_s) for hz, time_s in zip(TRIED, (1.0, 5.0, 1.0), strict=True)}

    assert filled(tried, FREQUENCIES_HZ) == tried


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
