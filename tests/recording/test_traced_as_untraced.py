"""A task does what its function does, for any function, any consumer and any order of events."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.bodies import (
    BODIES,
    MOVES,
    RAISED,
    OursError,
    async_generator,
    coroutine,
    generator,
    play,
    play_async,
)
from support.properties import examples
from support.recorded import record, story

import tprof

KINDS = [(generator, play), (coroutine, play), (async_generator, play_async)]


@pytest.fixture(scope="module", params=["recorded", "not recorded"])
def recording(request, tmp_path_factory):
    if request.param == "not recorded":
        yield
        return
    with tprof.record(tmp_path_factory.mktemp("property") / "t.tprof", energy="estimate", counters="none"):
        yield


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize(("function", "player"), KINDS, ids=[function.__name__ for function, _ in KINDS])
@examples(120)
@given(steps=BODIES, moves=MOVES)
@example(steps=[("catch",), ("raise", "CancelledError")], moves=[("next",), ("throw", "KeyError")])
def test_any_consumer_of_any_body_sees_what_it_would_see_without_the_task(function, player, steps, moves):
    plain_log, traced_log = [], []
    traced = tprof.task(function)

    expected = player(function(steps, plain_log), moves)
    told = player(traced(steps, traced_log), moves)

    assert told == expected
    assert traced_log == plain_log


@pytest.mark.usefixtures("recording")
@examples(100)
@given(st.sampled_from(sorted(RAISED)), st.booleans())
def test_an_exception_leaves_a_task_as_the_same_object(kind, chained):
    error = RAISED[kind]("from the body")
    if chained:
        error.__cause__ = OursError("cause")
    notes = (error.__cause__, error.__context__, error.args)

    @tprof.task
    def fail():
        raise error

    with pytest.raises(type(error)) as caught:
        fail()

    assert caught.value is error
    assert (error.__cause__, error.__context__, error.args) == notes


@examples(20)
@given(data=st.data())
def test_whatever_happens_in_tasks_everybody_has_left_them_at_the_end(tmp_path_factory, data):
    bodies = data.draw(st.lists(st.tuples(st.sampled_from([0, 1]), BODIES, MOVES), max_size=4))

    def body():
        for index, steps, moves in bodies:
            function, player = KINDS[index]
            with tprof.region("around"):
                player(tprof.task(function)(steps, []), moves)

    told = story(record(tmp_path_factory.mktemp("left") / "t.tprof", body))

    assert sum(kind == "start" and name == "around" for kind, name in told) == len(bodies)
    assert not told or told[-1] == ("finish", None)
