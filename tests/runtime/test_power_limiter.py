"""A cap on the package's power that its sensor keeps: never passed for long, and used where it can be."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.runtime.policy.power_limiter import SPAN_S, SPARE, TRY_AFTER, PowerLimiter

from benchmarks.simulator.policy_trials import FREQUENCIES_HZ, MIXES, Trial

LOWEST, HIGHEST = FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]
STEP_NS = round(SPAN_S * 1e9)
WORKERS = 4


class Package:
    """A package whose power goes with frequency and workers, under a limiter."""

    def __init__(self, watts, static_w=5.0, each_w=10.0, exponent=2.0, begins_hz=LOWEST) -> None:
        self.static_w, self.each_w, self.exponent = static_w, each_w, exponent
        self.joules, self.now_ns, self.busy_ns, self.drawn = 0.0, 0, 0, []
        self.limiter = PowerLimiter(FREQUENCIES_HZ, watts, WORKERS, lambda: (self.now_ns, self.joules), begins_hz)
        self.limiter.poll(0, 0)

    def power_w(self):
        share = (self.limiter.highest_hz / HIGHEST) ** self.exponent
        return self.static_w + self.each_w * self.limiter.workers * share

    def run(self, spans, *, busy=True):
        for _ in range(spans):
            self.drawn.append(self.power_w())
            self.joules += self.drawn[-1] * SPAN_S
            self.now_ns += STEP_NS
            self.busy_ns += STEP_NS * busy
            self.limiter.poll(self.now_ns, self.busy_ns)


packages = st.tuples(st.floats(0.0, 30.0), st.floats(1.0, 20.0), st.floats(1.0, 3.0))


@given(st.floats(1.0, 120.0), packages)
@examples(200)
def test_power_stays_below_the_cap_but_for_single_spans_wherever_it_can(watts, laws):
    package = Package(watts, *laws)
    least_w = laws[0] + laws[1] * (LOWEST / HIGHEST) ** laws[2]

    package.run(400)

    later = package.drawn[WORKERS + 1 :]
    if least_w > watts:
        assert set(later) == {package.power_w()}
    else:
        above = [place for place, drawn_w in enumerate(later) if drawn_w > watts]
        assert all(other - one > 1 for one, other in itertools.pairwise(above))
        assert len(above) <= 10


@given(packages, st.floats(0.3, 1.0))
@examples(200)
def test_a_step_more_would_pass_the_cap_in_the_end(laws, part):
    full_w = laws[0] + laws[1] * WORKERS
    lowest_w = laws[0] + laws[1] * WORKERS * (LOWEST / HIGHEST) ** laws[2]
    watts = lowest_w + part * (full_w - lowest_w)
    package = Package(watts, *laws)

    package.run(10 * TRY_AFTER[0] * len(FREQUENCIES_HZ))

    place = FREQUENCIES_HZ.index(package.limiter.highest_hz)
    above_hz = FREQUENCIES_HZ[min(place + 2, len(FREQUENCIES_HZ) - 1)]
    above_w = laws[0] + laws[1] * WORKERS * (above_hz / HIGHEST) ** laws[2]
    assert above_w >= SPARE * watts or above_hz == HIGHEST


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("exponent", [1.2, 2.0, 3.0])
def test_spans_that_stray_make_it_neither_hunt_nor_pass_the_cap(noise, exponent):
    package, random = Package(28.0, 5.0, 10.0, exponent), np.random.default_rng(1)
    held, drawn = [], []
    for _ in range(2000):
        drawn.append(max(package.power_w() * (1 + noise * random.standard_normal()), 0.1))
        held.append(package.limiter.highest_hz)
        package.joules += drawn[-1] * SPAN_S
        package.now_ns += STEP_NS
        package.limiter.poll(package.now_ns, package.now_ns)

    changes = np.count_nonzero(np.diff(held))
    halves_of_a_second = np.convolve(drawn, np.ones(10) / 10, "valid")
    assert changes <= 200
    assert np.mean(halves_of_a_second > 1.02 * 28.0) <= 0.1
    assert max(halves_of_a_second) <= 1.2 * 28.0


def test_work_that_draws_more_of_a_sudden_is_lowered_at_the_next_look():
    package = Package(40.0)
    package.run(100)
    package.each_w *= 2

    package.run(3)

    assert package.drawn[-3] > 40.0
    assert package.power_w() <= 40.0


def test_spans_in_which_nothing_ran_say_nothing():
    package = Package(40.0)

    package.run(50, busy=False)

    assert package.limiter.highest_hz == LOWEST


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("knows", [False, True])
def test_a_capped_program_draws_no_more_and_uses_what_it_may(shared, knows):
    trial, logged = Trial(MIXES[1], shared=shared, static_w=20.0), []

    found = trial.capped(40.0, logged.append, knows=knows)

    assert found.energy_j / found.time_s <= 40.0
    assert found.time_s < 0.95 * trial.single[LOWEST].time_s
    assert knows or {one["kind"] for one in logged} == {"allowed", "set"}
