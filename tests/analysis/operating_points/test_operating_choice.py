"""What is chosen keeps to its conditions, costs least, and says what to measure next where it is not sure."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from tprof.analysis.operating_points.choice import Objective, allowed, choose, expected_loss, front, next_point, weighed
from tprof.analysis.operating_points.draws import Draws, Ran

POINTS = some.lists(some.tuples(some.integers(1, 9), some.integers(1, 9)), min_size=1, max_size=12)


def sure(time_s, power_w):
    """Curves that all agree."""
    return Draws(np.tile(time_s, (50, 1)), np.tile(power_w, (50, 1)), np.zeros(50), 0.01, 0.01)


@given(POINTS)
def test_the_front_is_what_no_other_point_beats(points):
    time_s, energy_j = np.array(points, float).T

    kept = front(time_s, energy_j)

    pairs = set(points)
    for place, (time, energy) in enumerate(points):
        beaten = any(t <= time and e <= energy and (t, e) != (time, energy) for t, e in pairs)
        if kept[place]:
            assert not beaten
    assert {pairs_kept for pairs_kept, is_kept in zip(points, kept, strict=True) if is_kept} == {
        one for one in pairs if not any(t <= one[0] and e <= one[1] and (t, e) != one for t, e in pairs)
    }


@pytest.mark.parametrize(
    ("objective", "place"),
    [
        (Objective("energy"), 0),  # 4 s at 10 W: 40 J
        (Objective("edp"), 1),  # 2.5 s at 20 W: 125 Js
        (Objective("ed2p"), 2),  # 2 s at 35 W: 280 Js²
        (Objective("energy", max_slowdown=0.25), 1),
        (Objective("energy", max_slowdown=0.0), 2),
        (Objective("ed2p", max_power_w=25), 1),
        (Objective("energy", max_slowdown=0.1, max_power_w=25), None),
    ],
)
def test_each_objective_has_its_point(objective, place):
    assert choose(objective, sure([4.0, 2.5, 2.0], [10.0, 20.0, 35.0])) == place


def test_where_all_curves_agree_nothing_is_lost_and_nothing_is_to_be_measured():
    draws = sure([4.0, 2.5, 2.0], [10.0, 20.0, 35.0])

    assert expected_loss(weighed(Objective(), draws), 0) == 0.0
    assert next_point(Objective(), draws, 0, measured=np.array([True, False, True])) is None


def test_the_next_point_is_the_one_that_the_choice_hangs_on():
    # Point 1 is far better or far worse than point 0, point 2 never good, however unsure it is.
    side = np.where(np.arange(200) % 2, 0.5, 1.6)
    vague = np.linspace(4, 8, 200)
    draws = Draws(np.ones((200, 3)), np.stack([np.ones(200), side, vague], axis=1), np.zeros(200), 0.01, 0.01)
    chosen = choose(Objective(), draws)

    found = next_point(Objective(), draws, chosen, measured=np.array([True, False, False]))

    assert chosen == 0
    assert found.place == 1
    assert found.loss_after == pytest.approx(0.0, abs=1e-9)
    assert expected_loss(weighed(Objective(), draws), chosen) == pytest.approx(0.5)


def test_a_point_that_would_not_lower_the_loss_is_not_proposed():
    # A run is as noisy as the curves differ: it says nothing.
    side = np.where(np.arange(200) % 2, 0.9, 1.1)
    draws = Draws(np.ones((200, 2)), np.stack([np.ones(200), side], axis=1), np.zeros(200), 10.0, 10.0)
    chosen = choose(Objective(), draws)

    assert expected_loss(weighed(Objective(), draws), chosen) > 0.04
    assert next_point(Objective(), draws, chosen, measured=np.array([True, False])) is None


def test_what_was_measured_is_not_proposed_again_where_it_shows_the_same():
    draws = Draws(np.ones((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2), 0.01, 0.01)

    assert next_point(Objective(), draws, 0, measured=np.array([True, True]), repeat=False) is None


def test_where_chance_decides_between_points_that_were_run_one_is_to_be_run_again():
    # Two points of the same expected energy, each known to 10 %; the third is out of the question.
    chance = np.random.default_rng(1).standard_normal((400, 2)) * 0.1
    power_w = np.column_stack([np.exp(chance), np.full(400, 5.0)])
    draws = Draws(np.ones((400, 3)), power_w, np.zeros(400), 0.1, 0.1)
    chosen = choose(Objective(), draws)

    found = next_point(Objective(), draws, chosen, measured=np.array([True, True, False]))

    assert found.again
    assert found.place in {0, 1}
    assert found.loss_after < 0.9 * expected_loss(weighed(Objective(), draws), chosen)


def test_a_condition_is_kept_on_as_many_curves_as_is_wished():
    # Point 0 costs least and breaks 11 W on every tenth curve.
    power_w = np.column_stack([np.where(np.arange(100) % 10, 10.0, 12.0), np.full(100, 10.5)])
    draws = Draws(np.ones((100, 2)), power_w, np.zeros(100), 0.01, 0.01)

    assert choose(Objective(max_power_w=11, certainty=0.95), draws) == 1
    assert choose(Objective(max_power_w=11, certainty=0.9), draws) == 0


def test_a_point_whose_run_broke_a_condition_is_not_allowed_whatever_the_curves_say():
    draws = sure([2.0, 1.0], [10.0, 20.0])
    ran = Ran(np.array([2.0, np.nan]), np.array([22.0, np.nan]))

    assert allowed(Objective(max_power_w=10.5), draws).tolist() == [True, False]
    assert allowed(Objective(max_power_w=10.5), replace(draws, ran=ran)).tolist() == [False, False]


def test_no_slowdown_at_all_leaves_the_point_that_is_expected_to_be_fastest():
    # Which of the two is faster differs from curve to curve: neither is the fastest on 95 % of them.
    time_s = np.column_stack([np.where(np.arange(100) % 3, 1.0, 1.1), np.full(100, 1.05)])
    draws = Draws(time_s, np.tile([20.0, 10.0], (100, 1)), np.zeros(100), 0.01, 0.01)

    assert allowed(Objective(max_slowdown=0.0), draws).tolist() == [True, False]
