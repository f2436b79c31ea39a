"""Curves through few tried frequencies: exact for the laws, through what was seen, silent where no law comes near."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.analysis.operating_points.curves import Point
from tprof.analysis.operating_points.fit import filled
from tprof.benchmarks.simulator.policy_trials import FREQUENCIES_HZ
from tprof.benchmarks.simulator.simulated_machine import RESPONSES
from tprof.runtime.policy.controls import spread

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
