"""The simulation of locks obeys the laws that bound any scheduler."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples

from benchmarks.overhead.scaling_simulation import HANDOVER_NS, Life, Section, simulate

SECTIONS = st.lists(
    st.builds(Section, st.sampled_from(["", "mutex", "other"]), st.floats(1.0, 500.0)), min_size=1, max_size=4
).map(tuple)
LIVES = st.builds(Life, st.just("any"), SECTIONS, st.floats(0.0, 1000.0))


@examples(60)
@given(LIVES, st.sampled_from([1, 2, 7, 32]), st.floats(100.0, 20_000.0))
def test_neither_cores_nor_a_lock_do_more_than_they_can(life, cores, task_ns):
    rate = simulate(life, cores, task_ns)

    alone_ns = task_ns + life.unlocked_ns + sum(section.held_ns for section in life.sections)
    assert rate <= cores * 1e9 / alone_ns * 1.01
    for lock in {section.lock for section in life.sections} - {""}:
        held_ns = sum(section.held_ns for section in life.sections if section.lock == lock)
        assert rate <= 1e9 / held_ns * 1.01


def test_one_core_waits_for_nobody():
    life = Life("any", (Section("mutex", 100.0),), 300.0)

    assert simulate(life, 1, 600.0) == pytest.approx(1e6, rel=0.01)


def test_where_a_lock_is_never_free_its_handovers_bound_the_rate():
    life = Life("any", (Section("mutex", 1000.0),), 0.0)

    assert simulate(life, 64, 100.0) == pytest.approx(1e9 / (1000.0 + HANDOVER_NS), rel=0.02)
