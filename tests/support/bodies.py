"""Generators and coroutines that follow a list of steps, and consumers that make a list of moves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Generator


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


# What a consumer may do.
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
