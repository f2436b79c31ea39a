"""Programs of tasks on views that overlap leave what they leave when run one call after the other."""

import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from support.task_programs import Program, steps
from support.views import ROOM_BYTES, spans
from tprof.runtime import Runtime, current

import tprof

PROGRAMS = st.one_of(
    st.lists(steps(), max_size=12), st.lists(steps(spans()), max_size=25), st.lists(steps(spans(), depth=2), max_size=6)
)


@pytest.fixture(autouse=True, scope="module")
def threads_that_take_turns_often():
    """Let the interpreter switch threads wherever it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@examples(250)
@given(PROGRAMS, st.sampled_from([1, 2, 4]), st.sampled_from([None, 1, 3, 100]))
def test_a_program_of_tasks_leaves_what_it_leaves_without_a_runtime(program, workers, max_pending):
    alone = Program().run(program)

    with Runtime(workers=workers, max_pending=max_pending, library_threads=None):
        together = Program().run(program)

    assert together.buffer.tobytes() == alone.buffer.tobytes()
    assert sorted(together.ran) == sorted(alone.ran)


def test_tiles_of_a_matrix_are_apart_and_the_whole_is_all_of_them():
    @tprof.task(updates="tile")
    def add(tile, barrier):
        barrier.wait(30)
        tile += 1

    whole = np.zeros((6, 6))
    tiles = [whole[i : i + 3, j : j + 3] for i in (0, 3) for j in (0, 3)]

    with Runtime(workers=4):
        for part in (tiles, [whole], tiles, [whole.T[::-1]]):
            met = threading.Barrier(len(part))
            for tile in part:
                add(tile, met)

    assert (whole == 4).all()


def test_readers_run_together_and_a_writer_alone():
    met = threading.Barrier(3)
    told = []

    @tprof.task(reads="x")
    def read(x):
        met.wait(30)
        told.append(x[0])

    @tprof.task(writes="x")
    def write(x, value):
        x[:] = value

    x = np.zeros(4)
    with Runtime(workers=3):
        for value in (1, 2, 3):
            write(x, value)
            for _ in range(3):
                read(x)

    assert told == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_task_that_names_one_array_three_times_waits_for_others_and_not_for_itself():
    @tprof.task(reads=("a", "b"), updates="c")
    def multiply(a, b, c):
        c += a * b

    x = np.ones(4)
    with Runtime(workers=2):
        for _ in range(5):
            multiply(x, x[::-1], x)

    y = np.ones(4)
    for _ in range(5):
        multiply(y, y[::-1], y)
    assert (x == y).all()


def test_a_thousand_regions_that_come_and_go_are_found_again():
    """More than a table of regions holds before it grows and forgets those that nobody uses."""
    total = np.zeros(3000, np.int64)

    @tprof.task(updates="x")
    def count(x):
        x += 1

    with Runtime(workers=2, library_threads=None):
        for length in (1, 3, 7, 1000):
            for at in range(0, 3000 - length, 5):
                count(total[at : at + length])

    expected = np.zeros(3000, np.int64)
    for length in (1, 3, 7, 1000):
        for at in range(0, 3000 - length, 5):
            expected[at : at + length] += 1
    assert (total == expected).all()


def test_children_are_ordered_among_each_other_and_their_parent_ends_after_them():
    x = np.zeros(ROOM_BYTES)

    @tprof.task(updates="x")
    def child(x, at):
        assert x[0] == at
        x[0] += 1

    @tprof.task(updates="x")
    def parent(x):
        for at in range(int(x[0]), int(x[0]) + 20):
            child(x, at)

    with Runtime(workers=4):
        for _ in range(10):
            parent(x)

    assert x[0] == 200


def test_wait_for_data_is_a_wait_for_those_that_touch_it():
    gate = threading.Event()
    other, mine = np.zeros(8), np.zeros(8)

    @tprof.task(updates="x")
    def hold(x):
        gate.wait(30)
        x += 1

    @tprof.task(updates="x")
    def add(x):
        x += 1

    @tprof.task(reads="x")
    def look(x):
        return x[0]

    with Runtime(workers=2) as runtime:
        held = hold(other)
        for _ in range(10):
            add(mine[2:5])
        look(mine)
        runtime.wait(mine[::2], "a handle that nobody named")
        seen = mine[4]
        runtime.wait([mine[:1], None])
        waited = held.done()
        gate.set()
        runtime.wait(other, held)
        after = other[0]

    assert seen == 10
    assert not waited
    assert after == 1


def test_wait_inside_a_task_is_for_its_own_children():
    gate = threading.Event()
    order = []

    @tprof.task
    def note(what):
        order.append(what)

    @tprof.task
    def parent():
        for number in range(5):
            note(number)
        current().wait()
        note("after").result()
        gate.set()

    with Runtime(workers=2) as runtime:
        runtime.submit(gate.wait, 30)
        parent()

    assert sorted(order[:5]) == [0, 1, 2, 3, 4]
    assert order[5:] == ["after"]
