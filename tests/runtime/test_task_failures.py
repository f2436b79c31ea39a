"""A task that fails cancels those that need what it was to write, and no others, however fast it was."""

import concurrent.futures as cf
import dataclasses
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from support.task_programs import OursError, Program, Step
from support.views import View, spans
from tprof.runtime import Runtime, TaskCancelledError, current

import tprof

MOST = 12
FEW = st.lists(spans(longest=5, room=12), max_size=2, unique=True).map(tuple)
STEPS = st.builds(
    Step,
    reads=FEW,
    writes=FEW,
    updates=FEW,
    fails=st.sampled_from([False, False, True]),
    needs=st.lists(st.integers(0, MOST - 1), max_size=1).map(tuple),
    settled=st.booleans(),
)
PROGRAMS = st.lists(STEPS, max_size=MOST).map(
    lambda steps: [
        dataclasses.replace(step, needs=tuple(at for at in step.needs if at < number))
        for number, step in enumerate(steps)
    ]
)


def expect(steps):
    """Return how each ends: it does not run if a failure left unwritten what it reads or changes.

    Only a task that overwrites the same view clears what was left unwritten.
    """
    poisoned: set[View] = set()
    ends: list[str] = []
    for step in steps:
        lacks = any((one.bytes() & other.bytes()).any() for one in poisoned for other in (*step.reads, *step.updates))
        if lacks or any(ends[at] != "finished" for at in step.needs):
            ends.append("cancelled")
        else:
            ends.append("failed" if step.fails else "finished")
        if ends[-1] == "finished":
            poisoned -= set(step.writes)
        else:
            poisoned |= {*step.writes, *step.updates}
    return ends


@examples(400)
@given(PROGRAMS, st.sampled_from([1, 2, 4]))
def test_exactly_those_that_need_what_a_failure_left_unwritten_are_cancelled(steps, workers):
    ends = expect(steps)
    raised = None

    with Runtime(workers=workers, library_threads=None) as runtime:
        program = Program()
        for number, step in enumerate(steps):
            program.futures.append(program.spawn(step, number))
            if step.settled:
                # The program does not ask how it ended: a handled failure cancels no task that needs the data.
                cf.wait(program.futures[-1:])
        try:
            runtime.wait()
        except OursError as error:
            raised = error

    assert [future.state for future in program.futures] == ends
    assert sorted(program.ran) == [number for number, end in enumerate(ends) if end != "cancelled"]
    assert (raised is not None) == ("failed" in ends)
    if raised is not None:
        assert raised is program.futures[raised.args[0]].error
        assert f"raised in task run_step (#{raised.args[0] + 1})" in raised.__notes__
    assert program.buffer.tobytes() == what_the_finished_leave(steps, ends)


def what_the_finished_leave(steps, ends):
    program = Program(futures=[None] * MOST)
    for number, step in enumerate(steps):
        if ends[number] == "finished":
            program.spawn(step, number)
    return program.buffer.tobytes()


@tprof.task(reads="source", writes="target")
def copy(source, target):
    target[:] = source


@tprof.task(updates="data")
def fail(data, gate=None):
    if gate is not None:
        gate.wait(30)
    raise OursError("of ours")


@tprof.task(reads="data")
def look(data):
    return data[0]


@pytest.mark.parametrize("early", [True, False])
def test_who_only_overwrites_what_a_failed_task_had_goes_on(early):
    x, y, gate = np.zeros(4), np.ones(4), threading.Event()

    with pytest.raises(OursError), Runtime(workers=2):
        failing = fail(x, gate)
        if not early:
            gate.set()
            cf.wait([failing])
        before = look(x)
        over = copy(y, x)
        after = look(x)
        gate.set()

    assert (before.state, over.state, after.state) == ("cancelled", "finished", "finished")
    assert after.result() == 1


@pytest.mark.parametrize("early", [True, False])
def test_who_waits_for_a_reader_that_fails_goes_on(early):
    x, gate = np.zeros(4), threading.Event()

    @tprof.task(reads="data")
    def read(data):
        gate.wait(30)
        raise OursError(data[0])

    with pytest.raises(OursError), Runtime(workers=2) as runtime:
        failing = read(x)
        if not early:
            gate.set()
            cf.wait([failing])
        over = copy(x, x)
        change = runtime.submit(x.fill, 3)
        gate.set()

    assert (over.state, change.state) == ("finished", "finished")


def test_a_task_that_reads_what_it_overwrites_needs_what_was_there():
    x = np.zeros(4)

    with pytest.raises(OursError), Runtime(workers=1):
        cf.wait([fail(x)])
        onto_itself = copy(x, x)
        shifted = copy(x[:3], x[1:])

    assert (onto_itself.state, shifted.state) == ("cancelled", "cancelled")


def test_the_first_exception_is_raised_with_notes_on_the_task_and_the_others():
    gate = threading.Event()

    def later():
        gate.wait(30)
        raise KeyError("later")

    with Runtime(workers=4) as runtime:
        others = [runtime.submit(later) for _ in range(2)]
        first = fail("anything")
        cf.wait([first])
        gate.set()
        with pytest.raises(OursError) as caught:
            runtime.wait()
        runtime.wait()

    assert caught.value is first.error
    assert caught.value.__notes__[0] == f"raised in task fail (#{first.number})"
    assert caught.value.__notes__[1].startswith("2 other tasks failed too: <Task ")
    assert "later #1 failed>" in caught.value.__notes__[1]
    assert all(isinstance(other.error, KeyError) for other in others)


def test_the_end_of_the_block_raises_it_and_an_exception_of_the_block_goes_before():
    with pytest.raises(OursError, match="of ours"), Runtime(workers=1):
        fail(1)

    with pytest.raises(ZeroDivisionError) as caught, Runtime(workers=1) as runtime:
        failing = fail(1)
        cf.wait([failing])
        runtime.counts()["none of this name"] = 1 / 0

    assert caught.value.__notes__ == [f"meanwhile {failing!r} raised OursError('of ours')"]


def test_a_failure_that_somebody_asked_about_is_dealt_with():
    x = np.zeros(4)

    with Runtime(workers=2) as runtime:
        failing = fail(x)
        with pytest.raises(OursError):
            failing.result()
        runtime.wait()
        assert look(x).result() == 0
        other = fail(x)
        assert isinstance(other.exception(), OursError)
        seen = look(x)

    assert seen.result() == 0


def test_what_was_cancelled_says_why():
    x, gate = np.zeros(4), threading.Event()

    with Runtime(workers=2) as runtime:
        failing = fail(x, gate)
        needs = runtime.submit(lambda value: value, look(x))
        gate.set()
        with pytest.raises(TaskCancelledError) as caught:
            needs.result()
        with pytest.raises(TaskCancelledError):
            needs.exception()
        with pytest.raises(OursError):
            runtime.wait()
        late = look(x)

    assert str(caught.value).endswith("did not run, since it needs what task fail failed: OursError('of ours')")
    assert caught.value.__cause__ is failing.error
    assert isinstance(caught.value, cf.CancelledError)
    assert needs.cancelled()
    assert late.result() == 0


def test_data_can_be_used_again_after_the_wait_that_raised():
    x = np.zeros(4)

    with Runtime(workers=2) as runtime:
        for _ in range(20):
            fail(x)
            cancelled = look(x)
            with pytest.raises(OursError):
                runtime.wait()
            assert cancelled.cancelled()
            assert look(x).result() == 0


def test_a_childs_failure_is_its_parents_and_cancels_who_needs_the_parent():
    x = np.zeros(4)

    @tprof.task(updates="data")
    def parent(data):
        fail(data)
        return "unheard"

    @tprof.task(updates="data")
    def grandparent(data):
        parent(data)

    with pytest.raises(OursError) as caught, Runtime(workers=2):
        oldest = grandparent(x)
        needs = look(x)

    assert oldest.state == "failed"
    assert caught.value is oldest.error
    assert needs.state == "cancelled"
    assert caught.value.__notes__[0].startswith("raised in task fail")


def test_a_parent_may_deal_with_a_childs_failure():
    @tprof.task
    def asks():
        with pytest.raises(OursError):
            fail(1).result()
        return 1

    @tprof.task
    def waits():
        fail(1)
        with pytest.raises(OursError):
            current().wait()
        return 2

    with Runtime(workers=2):
        futures = [asks(), waits()]

    assert [future.result() for future in futures] == [1, 2]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, MemoryError])
def test_exceptions_of_any_kind_are_kept_for_who_waits(kind):
    def body():
        raise kind("any")

    with Runtime(workers=1) as runtime:
        task = runtime.submit(body)
        with pytest.raises(kind):
            runtime.wait()

    assert isinstance(task.exception(), kind)


def test_wait_for_data_raises_what_left_it_unwritten():
    x, y, gate = np.zeros(4), np.zeros(4), threading.Event()

    with Runtime(workers=2) as runtime:
        fail(x[:2], gate)
        copy(x, y)
        gate.set()
        with pytest.raises(OursError):
            runtime.wait(y)
        runtime.wait(x)
        cf.wait([fail(x)])
        with pytest.raises(OursError):
            runtime.wait(x[3:])
        fail("else")
        runtime.wait(x)
        with pytest.raises(OursError):
            runtime.wait()
