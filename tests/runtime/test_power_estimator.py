"""Powers of kinds of work that run side by side, from the package's joules."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.runtime.policy.power_estimator import FURTHEST, MOST_KINDS, PULL_S2, PowerEstimator

WINDOW_NS = 20_000_000


def fed(windows):
    """Return the equations of windows, each the kinds that ran and the joules that were drawn."""
    drawn = itertools.accumulate([0.0, *(joules for _, joules in windows)])
    estimator = PowerEstimator(lambda: next(drawn))
    estimator.poll(0, ())
    for place, (running, _) in enumerate(windows, 1):
        estimator.poll(place * WINDOW_NS, running)
    return estimator.equations()


windows = st.lists(
    st.tuples(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), st.floats(0.01, 2.0)), min_size=1, max_size=40
)


@given(windows)
def test_powers_are_the_least_squares_of_all_windows_with_a_pull_to_the_even_share(ran):
    equations = fed(ran)

    kinds = list(dict.fromkeys(itertools.chain.from_iterable(running for running, _ in ran)))
    core_s = np.array([[running.count(kind) for kind in kinds] for running, _ in ran]) * WINDOW_NS * 1e-9
    joules = np.array([joules for _, joules in ran])
    shared_j = (core_s / core_s.sum(axis=1, keepdims=True) * joules[:, None]).sum(axis=0)
    even_w = shared_j / core_s.sum(axis=0)
    rows = np.vstack([core_s, np.eye(len(kinds)) * math.sqrt(PULL_S2)])
    best_w, *_ = np.linalg.lstsq(rows, np.append(joules, even_w * math.sqrt(PULL_S2)), rcond=None)
    expected = np.clip(best_w, even_w / FURTHEST, even_w * FURTHEST)
    assert equations.powers_w() == pytest.approx(dict(zip(kinds, expected, strict=True)), rel=1e-6)


def test_with_too_many_kinds_each_has_the_even_share():
    kinds = [f"task {number}" for number in range(MOST_KINDS + 1)]

    equations = fed([([kind], 0.1 * (1 + place % 2)) for place, kind in enumerate(kinds)])

    assert equations.powers_w() == pytest.approx({kind: 5.0 * (1 + place % 2) for place, kind in enumerate(kinds)})
    assert equations.uncertainties(kinds[:2]) == dict.fromkeys(kinds[:2], 0.0)


def test_equations_do_not_change_with_later_windows():
    drawn = iter([0.0, 1.0, 5.0])
    estimator = PowerEstimator(lambda: next(drawn))
    estimator.poll(0, ())
    estimator.poll(100_000_000, "a")

    equations = estimator.equations()
    estimator.poll(200_000_000, "b")

    assert equations.powers_w() == pytest.approx({"a": 10.0})


def test_powers_of_kinds_that_run_side_by_side_are_told_apart():
    drawn = iter(itertools.accumulate([0.0, 1.5, 1.0, 2.0, 1.5, 1.0, 2.0]))
    estimator = PowerEstimator(lambda: next(drawn))

    for place, running in enumerate([(), "ab", "aa", "bb", "ab", "aa", "bb"]):
        estimator.poll(place * 100_000_000, running)

    assert estimator.equations().powers_w()["a"] == pytest.approx(5.0, rel=0.01)
    assert estimator.equations().powers_w()["b"] == pytest.approx(10.0, rel=0.01)


def test_windows_that_contradict_each_other_make_powers_doubtful():
    alike, unlike = ([0.0, *itertools.accumulate(joules)] for joules in ([1.0] * 8, [0.5, 1.5] * 4))
    uncertainties = []

    for joules in (alike, unlike):
        drawn = iter(joules)
        estimator = PowerEstimator(lambda drawn=drawn: next(drawn))
        for place in range(9):
            estimator.poll(place * 100_000_000, "a" if place else "")
        uncertainties.append(estimator.equations().uncertainties("a")["a"])

    assert uncertainties == [pytest.approx(0.0, abs=1e-6), pytest.approx(0.5 / 7**0.5, rel=0.01)]


def test_kinds_that_never_ran_apart_share_evenly():
    drawn = iter([0.0, 2.0])
    estimator = PowerEstimator(lambda: next(drawn))

    estimator.poll(0, ())
    estimator.poll(100_000_000, "ab")

    assert estimator.equations().powers_w() == pytest.approx({"a": 10.0, "b": 10.0})


def test_what_is_drawn_while_it_rests_is_nobodys():
    drawn = iter([0.0, 50.0, 51.0])
    estimator = PowerEstimator(lambda: next(drawn))

    estimator.poll(0, ())
    estimator.pause()
    estimator.poll(1_000_000_000, "a")
    estimator.poll(1_100_000_000, "a")

    assert estimator.equations().powers_w() == pytest.approx({"a": 10.0})
