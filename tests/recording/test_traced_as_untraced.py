"""A task does what its function does, for any function, any consumer and any order of events."""

import asyncio
from collections.abc import Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recorded import record, story

import tprof


class OursError(Exception):
    """An exception of the program."""


RAISED = {
    kind.__name__: kind
    for kind in (OursError, KeyError, StopIteration, GeneratorExit, asyncio.CancelledError, SystemExit)
}
# What a body does at each of its steps: yield or wait, return, raise, catch what is thrown and go on, or refuse it.
STEPS = st.one_of(
    st.just(("yield",)),
    st.just(("catch",)),
    st.tuples(st.just("finally"), st.sampled_from(["pass", "raise"])),
    st.tuples(st.just("raise"), st.sampled_from(sorted(RAISED))),
    st.just(("return",)),
)
BODIES = st.lists(STEPS, max_size=5)
# What a consumer does with it.
MOVES = st.lists(
    st.one_of(
        st.just(("next",)),
        st.tuples(st.just("send"), st.integers(0, 3)),
        st.tuples(st.just("throw"), st.sampled_from(sorted(RAISED))),
        st.just(("close",)),
    ),
    max_size=6,
)


def act(step, log):
    """Do what a step does besides yielding. Returns whether the body is to return."""
    log.append(step)
    if step[0] == "raise":
        raise RAISED[step[1]]("from the body")
    return step[0] == "return"


def generator(steps, log):
    for number, step in enumerate(steps):
        if step[0] == "yield":
            log.append((yield number))
        elif step[0] == "catch":
            try:
                log.append((yield number))
            except Exception as error:  # noqa: BLE001 - the point
                log.append(repr(error))
        elif step[0] == "finally":
            try:
                yield number
            finally:
                log.append("finally")
                if step[1] == "raise":
                    raise OursError("finally")
        elif act(step, log):
            return "returned"
    return "ended"


class Pause:
    """What a coroutine awaits; it hands on what it is resumed with."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __await__(self) -> Generator[int, object, object]:
        return (yield self.number)


async def coroutine(steps, log):
    for number, step in enumerate(steps):
        if step[0] == "yield":
            log.append(await Pause(number))
        elif step[0] == "catch":
            try:
                log.append(await Pause(number))
            except Exception as error:  # noqa: BLE001 - the point
                log.append(repr(error))
        elif step[0] == "finally":
            try:
                await Pause(number)
            finally:
                log.append("finally")
                if step[1] == "raise":
                    raise OursError("finally")
        elif act(step, log):
            return "returned"
    return "ended"


async def async_generator(steps, log):
    for number, step in enumerate(steps):
        if step[0] == "yield":
            log.append((yield number))
        elif step[0] == "catch":
            try:
                log.append((yield number))
            except Exception as error:  # noqa: BLE001 - the point
                log.append(repr(error))
        elif step[0] == "finally":
            try:
                yield number
            finally:
                await asyncio.sleep(0)
                log.append("finally")
                if step[1] == "raise":
                    raise OursError("finally")
        elif act(step, log):
            return


def outcome(move):
    """Say what a move gave or raised, and from what that came."""
    try:
        return ("gave", move())
    except BaseException as error:  # noqa: BLE001 - whatever comes out is to be the same
        return ("raised", *chain(error))


def chain(error):
    """Tell an exception with its cause and context."""
    told = []
    while error is not None:
        told.append((type(error).__name__, str(error), error.__suppress_context__))
        error = error.__cause__ or error.__context__
    return told


def play(body, moves):
    """Make the moves on a generator or coroutine and tell what came of each."""
    methods = {"next": lambda: body.send(None), "close": body.close}
    told = []
    for name, *words in moves:
        if name == "send":
            told.append(outcome(lambda value=words[0]: body.send(value)))
        elif name == "throw":
            told.append(outcome(lambda kind=words[0]: body.throw(RAISED[kind]("thrown"))))
        else:
            told.append(outcome(methods[name]))
    told.append(outcome(body.close))
    return told


def play_async(body, moves):
    """Do the same with an asynchronous generator, each move run to its end."""
    methods = {"next": lambda: body.asend(None), "close": body.aclose}

    def finish(awaitable):
        async def run():
            return await awaitable

        running = run()
        try:
            while True:
                running.send(None)
        except StopIteration as stop:
            return stop.value

    told = []
    for name, *words in [*moves, ("close",)]:
        if name == "send":
            told.append(outcome(lambda value=words[0]: finish(body.asend(value))))
        elif name == "throw":
            told.append(outcome(lambda kind=words[0]: finish(body.athrow(RAISED[kind]("thrown")))))
        else:
            told.append(outcome(lambda method=methods[name]: finish(method())))
    return told


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
@settings(max_examples=120, deadline=None)
@given(steps=BODIES, moves=MOVES)
def test_any_consumer_of_any_body_sees_what_it_would_see_without_the_task(function, player, steps, moves):
    plain_log, traced_log = [], []
    traced = tprof.task(function)

    expected = player(function(steps, plain_log), moves)
    told = player(traced(steps, traced_log), moves)

    assert told == expected
    assert traced_log == plain_log


@pytest.mark.usefixtures("recording")
@settings(max_examples=100, deadline=None)
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


@settings(max_examples=20, deadline=None)
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
