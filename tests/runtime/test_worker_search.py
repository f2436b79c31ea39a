"""The number of workers, learnt while a program runs: fewer where they cost less, all where they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.operating_points.goals import Edp, Energy, MaxSlowdown
from tprof.runtime.policy.worker_search import SHARE, WorkerSearch

INSTANCE_S = 0.01


class Program:
    """Tasks without end on workers of which only so many get on; each draws power all the same."""

    def __init__(self, goal, most=8, useful=8, static_w=5.0, each_w=10.0) -> None:
        self.useful, self.static_w, self.each_w = useful, static_w, each_w
        self.now_ns, self.joules, self.tried_s = 0, 0.0, 0.0
        self.search = WorkerSearch(most, goal.span_cost, lambda: (self.now_ns, self.joules), 0.03)

    def run(self, seconds):
        end_ns = self.now_ns + round(seconds * 1e9)
        while self.now_ns < end_ns:
            workers = self.search.workers
            step_s = INSTANCE_S / min(workers, self.useful)
            self.now_ns += round(step_s * 1e9)
            self.joules += (self.static_w + self.each_w * workers) * step_s
            self.tried_s += step_s if self.search.is_trying else 0.0
            self.search.on_end(INSTANCE_S)
            self.search.poll(self.now_ns, INSTANCE_S)
        return self.search.workers


def test_workers_that_only_contend_are_given_up():
    assert Program(Energy(), useful=2).run(200) == 2
    assert Program(Edp(), useful=2).run(200) == 2
    assert Program(MaxSlowdown(0.05), useful=2).run(200) == 2


def test_workers_that_get_on_are_kept():
    assert Program(Energy()).run(100) == 8
    assert Program(Edp()).run(100) == 8


def test_a_slowdown_is_kept_though_fewer_workers_would_take_less_energy():
    cheap_alone = {"static_w": 0.0, "useful": 6}

    assert Program(Energy(), **cheap_alone).run(200) == 4
    assert Program(MaxSlowdown(0.05), **cheap_alone).run(200) == 8


@given(st.integers(1, 16), st.integers(1, 16), st.floats(0.0, 50.0), st.floats(0.1, 20.0))
@examples(40)
def test_what_is_kept_is_no_dearer_and_trying_takes_little(most, useful, static_w, each_w):
    program = Program(Energy(), most, useful, static_w, each_w)

    kept = program.run(60)

    def cost_j(workers):
        return (static_w + each_w * workers) / min(workers, useful)

    assert cost_j(min(kept, most)) <= cost_j(most) * 1.001
    assert program.tried_s <= 3 * SHARE * 60


def test_a_short_program_sees_no_try():
    program = Program(Energy(), useful=1)

    assert program.run(4.0) == 8
    assert program.tried_s == 0


def test_a_program_that_changes_its_pace_decides_nothing():
    program = Program(Energy())
    for _ in range(400):
        program.useful = 2 if program.search.workers < 8 else 8
        program.run(0.3)

    assert program.search.workers == 8


@pytest.mark.parametrize("workers", [2, 8])
def test_giving_a_try_up_restores_what_was_kept(workers):
    program = Program(Energy(), most=workers, useful=1)
    while program.search.workers == workers:
        program.run(0.01)

    assert program.search.interrupt()
    assert program.search.workers == workers
    assert not program.search.is_trying
