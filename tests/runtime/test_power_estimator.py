"""Powers of kinds of work that run side by side, from the package's joules."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.runtime.policy.power_estimator import FURTHEST, MOST_KINDS, PULL_S2, PowerEstimator

WINDOW_NS = 20_000_000


class Package:
    """A package whose counter is exact at every time, with the estimator that reads it."""

    def __init__(self) -> None:
        self.now_ns, self.joules = 0, 0.0
        self.estimator = PowerEstimator(lambda: (self.now_ns, self.joules))
        self.estimator.poll(0, ())

    def draw(self, joules, lasted_ns):
        self.now_ns, self.joules = self.now_ns + lasted_ns, self.joules + joules

    def run(self, kinds, joules, lasted_ns=WINDOW_NS):
        self.draw(joules, lasted_ns)
        self.estimator.poll(self.now_ns, kinds)


def fed(windows, lasted_ns=WINDOW_NS):
    """Return the equations of windows, each the kinds that ran and the joules that were drawn."""
    package = Package()
    for kinds, joules in windows:
        package.run(kinds, joules, lasted_ns)
    return package.estimator.equations()


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
    package = Package()
    package.run("a", 1.0)

    equations = package.estimator.equations()
    package.run("b", 4.0)

    assert equations.powers_w() == pytest.approx({"a": 50.0})


def test_powers_of_kinds_that_run_side_by_side_are_told_apart():
    powers_w = fed(
        [("ab", 1.5), ("aa", 1.0), ("bb", 2.0), ("ab", 1.5), ("aa", 1.0), ("bb", 2.0)], 100_000_000
    ).powers_w()

    assert powers_w == pytest.approx({"a": 5.0, "b": 10.0}, rel=0.01)


def test_windows_that_contradict_each_other_make_powers_doubtful():
    alike, unlike = (fed([("a", joules) for joules in drawn]) for drawn in ([1.0] * 8, [0.5, 1.5] * 4))

    assert alike.uncertainties("a")["a"] == pytest.approx(0.0, abs=1e-6)
    assert unlike.uncertainties("a")["a"] == pytest.approx(0.5 / 7**0.5, rel=0.02)


def test_kinds_that_never_ran_apart_share_evenly():
    assert fed([("ab", 0.4)]).powers_w() == pytest.approx({"a": 10.0, "b": 10.0})


def test_what_is_drawn_during_a_pause_is_attributed_to_no_kind():
    package = Package()

    package.estimator.pause()
    package.draw(50.0, 1_000_000_000)
    package.estimator.poll(package.now_ns, "a")
    package.run("a", 1.0, 100_000_000)

    assert package.estimator.equations().powers_w() == pytest.approx({"a": 10.0})


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(100_000, 3_000_000)), min_size=20, max_size=60),
    st.integers(300_000, 2_000_000),
)
def test_energy_goes_to_what_ran_when_the_counter_changed_however_late_that_is_seen(ran, period_ns):
    watts, now_ns, joules = {"a": 5.0, "b": 20.0}, 0, 0.0
    changes = [(0, 0.0)]
    estimator = PowerEstimator(lambda: changes[-1])
    estimator.poll(0, ())
    for kind, lasted_ns in ran:
        end_ns = now_ns + lasted_ns
        while changes[-1][0] + period_ns <= end_ns:
            t_ns = changes[-1][0] + period_ns
            joules, now_ns = joules + watts[kind] * (t_ns - now_ns) * 1e-9, t_ns
            changes.append((t_ns, joules))
        joules, now_ns = joules + watts[kind] * (end_ns - now_ns) * 1e-9, end_ns
        estimator.poll(now_ns, kind)

    equations = estimator.equations()
    shared_j, core_s = equations.shared_j.sum(), equations.core_s.sum()
    assert shared_j == pytest.approx(changes[-1][1])
    assert core_s == pytest.approx(changes[-1][0] * 1e-9)


def test_a_pause_in_the_middle_of_a_change_of_the_counter_takes_its_part_of_the_energy():
    read = (0, 0.0)
    estimator = PowerEstimator(lambda: read)
    estimator.poll(0, ())
    estimator.poll(30_000_000, "a")
    estimator.pause()

    read = (40_000_000, 0.4)
    estimator.pause()

    assert estimator.equations().powers_w() == pytest.approx({"a": 10.0})
    assert estimator.equations().core_s.tolist() == pytest.approx([0.03])
