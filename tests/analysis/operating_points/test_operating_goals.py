"""What each goal of a policy chooses, beside a search through all assignments."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.operating_points.curves import Knowledge, Point
from tprof.analysis.operating_points.goals import Edp, Energy, MaxSlowdown, PowerCap, best_of
from tprof.runtime.policy.decision import RequestedFrequencies

GHZ = 10**9
amounts = st.floats(0.01, 100.0)
curves = st.dictionaries(
    st.sampled_from([1 * GHZ, 2 * GHZ, 3 * GHZ, 4 * GHZ]),
    st.builds(Point, amounts, amounts),
    min_size=1,
    max_size=4,
)
programs = st.builds(
    Knowledge,
    st.dictionaries(st.sampled_from("abc"), curves, min_size=1, max_size=3),
    st.fixed_dictionaries({name: st.integers(1, 50).map(float) for name in "abc"}),
    st.floats(0, 20),
    st.floats(1, 3),
)


def every(known, workers):
    tasks = list(known.curves)
    for chosen in itertools.product(*(known.curves[task] for task in tasks)):
        yield known.totals(dict(zip(tasks, chosen, strict=True)), workers)


def chosen_totals(goal, known, workers):
    choice = goal.choose({workers: known})
    return known.totals(best_of(choice.costs), workers)


@given(programs, st.integers(1, 8))
@examples(2000)
def test_edp_finds_the_least_product_of_all_assignments(known, workers):
    energy_j, time_s = chosen_totals(Edp(), known, workers)

    assert energy_j * time_s <= min(e * t for e, t in every(known, workers)) * (1 + 1e-9)


def test_edp_takes_the_least_product_even_where_little_more_of_it_saves_energy():
    """Two assignments whose products differ by 0.27 %: the one of less energy is not the least."""
    b = {GHZ: Point(72.0, 14.0), 2 * GHZ: Point(74.5, 2.0)}
    known = Knowledge({"b": b, "a": {GHZ: Point(0.5, 24.0)}}, {"a": 29.0, "b": 2.0})

    energy_j, time_s = chosen_totals(Edp(), known, 1)

    assert energy_j * time_s == pytest.approx(163.5 * 700.0)


@given(programs, st.integers(1, 8))
def test_energy_finds_the_least_energy_of_all_assignments(known, workers):
    energy_j, _ = chosen_totals(Energy(), known, workers)

    assert energy_j <= min(e for e, _ in every(known, workers)) * (1 + 1e-9)


@given(programs, st.floats(0.001, 1.0))
def test_no_task_is_slower_than_the_bound_and_none_could_take_less_within_it(known, share):
    best = best_of(MaxSlowdown(share).choose({2: known}).costs)

    for task, curve in known.curves.items():
        limit_s = min(point.time_s for point in curve.values()) * (1 + share)
        allowed = [point.energy_j for point in curve.values() if point.time_s <= limit_s]
        assert curve[best[task]].time_s <= limit_s
        assert curve[best[task]].energy_j == min(allowed)


@given(programs, st.floats(1.0, 1000.0), st.integers(1, 8))
def test_under_a_cap_each_worker_keeps_to_its_part_where_any_frequency_does(known, watts, workers):
    best = best_of(PowerCap(watts).choose({workers: known}).costs)
    each_w = (watts - known.outside_w) / workers

    for task, curve in known.curves.items():
        fitting = [point.time_s for point in curve.values() if point.power_w <= each_w]
        if fitting:
            assert curve[best[task]].power_w <= each_w
            assert curve[best[task]].time_s == min(fitting)
        else:
            assert curve[best[task]].power_w + curve[best[task]].time_s == min(
                point.power_w + point.time_s for point in curve.values()
            )


def program(power_w, time_s):
    return Knowledge({"work": {GHZ: Point(power_w * time_s, time_s)}}, {"work": 8.0})


def test_a_cap_that_all_workers_break_is_kept_by_fewer():
    known = {4: program(10.0, 1.0), 2: program(11.0, 1.0), 1: program(14.0, 1.0)}

    assert PowerCap(45.0).choose(known).workers == 4
    assert PowerCap(25.0).choose(known).workers == 2
    assert PowerCap(15.0).choose(known).workers == 1
    assert PowerCap(5.0).choose(known).workers == 1


def test_energy_takes_fewer_workers_where_more_only_contend():
    known = {4: program(10.0, 2.0), 2: program(12.0, 1.0)}

    assert Energy().choose(known).workers == 2
    assert MaxSlowdown(0.05).choose(known).workers == 2


def test_a_slowdown_allows_fewer_workers_only_within_the_bound():
    known = {4: program(10.0, 1.0), 2: program(5.0, 1.0)}

    assert MaxSlowdown(0.05).choose(known).workers == 4
    assert MaxSlowdown(1.5).choose(known).workers == 2


def test_tasks_that_share_a_control_agree_on_what_they_lose_least_at():
    requested = RequestedFrequencies({"slow": {1: 5.0, 2: 4.0, 3: 1.0}, "cool": {1: 1.0, 2: 1.5, 3: 4.0}})

    assert requested.vote(["slow"]) == 3
    assert requested.vote(["cool", "cool"]) == 1
    assert requested.vote(["slow", "cool"]) == 3
    assert requested.vote(["slow", "cool", "cool", "cool"]) == 1
    assert requested.vote(["stranger"]) is None
