"""Multisort sorts, in whatever order its tasks run; its merges find their parts, and its check notices errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import orders
from support.properties import examples
from tprof.benchmarks import PROGRAMS
from tprof.benchmarks.programs import multisort
from tprof.benchmarks.programs.adjoining import join
from tprof.benchmarks.programs.outcome import WrongResultError

TASKS = {"sort": ((), (0,)), "merge": ((0, 1), (2,))}
# Few values, so that most numbers have equals in both runs.
runs = st.lists(st.integers(-5, 5), max_size=30).map(lambda values: np.array(sorted(values), np.int32))


def draw(count, values, seed=0):
    return np.random.default_rng(seed).integers(-values, values, count, dtype=np.int32)


@examples()
@given(length=st.integers(1, 9), values=st.sampled_from([1, 10, 2**31 - 1]), seed=st.integers(0, 99))
def test_it_sorts_chunks_of_any_length_with_many_equal_numbers_or_none(length, values, seed):
    numbers = draw(64 * length, values, seed)
    right = np.sort(numbers)

    result = multisort.multisort(numbers, np.zeros_like(numbers))

    assert result.tolist() == right.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_every_order_that_the_shared_runs_allow_sorts(seed, monkeypatch):
    numbers = draw(64 * 16, 2**31 - 1)
    right = np.sort(numbers)
    calls = orders.collect(monkeypatch, multisort, TASKS)

    result = multisort.multisort(numbers, np.zeros_like(numbers))
    orders.run_in_some_order(calls, seed)

    assert len(calls) == 256
    assert result.tolist() == right.tolist()


@examples()
@given(left=runs, right=runs, data=st.data())
def test_the_cut_takes_the_smallest_and_of_equal_ones_those_on_the_left(left, right, data):
    smallest = data.draw(st.integers(0, len(left) + len(right)))
    tagged = [(int(number), 0) for number in left] + [(int(number), 1) for number in right]
    taken = sum(side == 0 for _number, side in sorted(tagged)[:smallest])

    assert multisort.count_from_left(left, right, smallest) == taken


@examples()
@given(left=runs, right=runs, data=st.data())
def test_parts_of_any_length_together_are_the_merge(left, right, data):
    both = np.full(len(left) + len(right), 99, np.int32)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(both)), max_size=5)))

    for begin, end in zip([0, *cuts], [*cuts, len(both)], strict=True):
        multisort.merge(left, right, both[begin:end], begin)

    assert both.tolist() == sorted([*left.tolist(), *right.tolist()])


@pytest.mark.parametrize("size", ["small", "paper"])
def test_each_size_has_256_instances_of_two_tasks(size):
    assert PROGRAMS["multisort"].instances(size) == {"sort": 64, "merge": 192}


def test_each_level_merges_parts_of_equal_length_that_cover_the_result_once(monkeypatch):
    calls = orders.collect(monkeypatch, multisort, TASKS)

    multisort.multisort(draw(64 * 16, 10), np.zeros(64 * 16, np.int32))

    merges = [[join(chunks) for chunks in call.arguments[:3]] for call in calls[64:]]
    assert {len(part) for _left, _right, part in merges} == {32}
    for level, length in enumerate([16, 32, 64, 128, 256, 512]):
        of_level = merges[32 * level : 32 * level + 32]
        assert {len(run) for left, right, _part in of_level for run in (left, right)} == {length}
        assert len({part.ctypes.data for _left, _right, part in of_level}) == 32


def test_the_check_accepts_what_is_sorted_and_says_what_it_compared():
    numbers = draw(100, 10)

    assert multisort.check(np.sort(numbers), numbers)[0] == "100 numbers in order"


def test_the_check_notices_numbers_out_of_order():
    numbers = np.arange(100, dtype=np.int32)
    result = numbers.copy()
    result[[7, 8]] = 8, 7

    with pytest.raises(WrongResultError, match="multisort left 8 at 7 before 7: 1 place is out of order"):
        multisort.check(result, numbers)


def test_the_check_notices_a_number_that_was_lost():
    numbers = np.arange(100, dtype=np.int32)
    result = numbers.copy()
    result[7] = 8

    with pytest.raises(WrongResultError, match="multisort changed numbers: 8 is at 7 where 7 belongs"):
        multisort.check(result, numbers)


@pytest.mark.parametrize("lost", [0, 63, 64, 95, 96, 160, 224, 255])
def test_a_merge_or_the_check_notices_whichever_task_is_lost(lost, monkeypatch):
    numbers = draw(64 * 16, 2**31 - 1)
    before = numbers.copy()
    calls = orders.collect(monkeypatch, multisort, TASKS)

    result = multisort.multisort(numbers, np.zeros_like(numbers))
    del calls[lost]

    with pytest.raises(WrongResultError, match="multisort"):
        run_and_check(calls, result, before)


def run_and_check(calls, result, numbers):
    orders.run_in_some_order(calls, 0)
    multisort.check(result, numbers)
