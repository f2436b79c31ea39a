"""A program: prints what generators and coroutines show of themselves, with the functions as they are or decorated.

Argument: `plain`, `decorated` or `recorded`. All ways print the same.
"""

import asyncio
import contextlib
import gc
import inspect
import re
import sys
import traceback
import types
import warnings
import weakref

import tprof

WAY = sys.argv[1]
task = (lambda function: function) if WAY == "plain" else tprof.task


class Block:
    """Data whose life is watched."""


@task
def stage(block):
    total = id(block) and 1
    del block
    yield total
    yield 2


@task
def echo(first, *, key=0):
    said = yield first
    return said, key


@task
async def fetch(value):
    await asyncio.sleep(0)
    return value


@task
async def outer(value):
    return await fetch(value)


@task
async def count(limit):
    try:
        for value in range(limit):
            await asyncio.sleep(0)
            yield value
    finally:
        await asyncio.sleep(0)
        show("count ends")


@task
@types.coroutine
def below(value):
    return (yield from outer(value))


@types.coroutine
@task
def above(value):
    return (yield from outer(value))


@task
async def fail():
    await asyncio.sleep(0)
    raise KeyError("why")


def show(*things):
    """Write without addresses."""
    sys.stdout.write(re.sub(r"0x[0-9a-f]+", "0x", " ".join(map(str, things))) + "\n")


def attempt(function):
    """Show what a call gives or raises."""
    try:
        show("gave", function())
    except BaseException as error:  # noqa: BLE001 - whatever comes
        show(type(error).__name__, error, [frame.name for frame in traceback.extract_tb(error.__traceback__)])


def chain_of(body, attribute):
    """Show who waits for whom."""
    while body is not None:
        show(attribute, body)
        body = getattr(body, attribute, None)


def arguments():
    """An argument lives as long as the function keeps it; a wrong one raises at the call."""
    block = Block()
    seen = weakref.ref(block)
    steps = stage(block)
    next(steps)
    del block
    show("alive:", seen() is not None, list(steps))
    for function in (stage, fetch, count, below, above):
        attempt(function)
    attempt(lambda: echo(1, other=2))


def generators():
    """Attributes, states and methods of a generator."""
    steps = echo(3, key=4)
    show(repr(steps), inspect.isgenerator(steps), inspect.isawaitable(steps), inspect.getgeneratorstate(steps))
    show(next(steps), inspect.getgeneratorstate(steps), steps.gi_code, steps.gi_frame.f_lineno, steps.gi_yieldfrom)
    attempt(lambda: steps.send("said"))
    show(inspect.getgeneratorstate(steps), steps.gi_frame, [name for name in dir(steps) if not name.startswith("__")])
    steps.__name__, steps.__qualname__ = "renamed", "also.renamed"
    show(repr(steps), steps.__name__, weakref.ref(steps)() is steps, isinstance(steps, types.GeneratorType))
    unstarted = echo(1)
    attempt(lambda: unstarted.send(2))
    attempt(lambda: list(unstarted))
    attempt(lambda: echo(1).throw(KeyError("thrown")))
    echo.__name__ = "another"
    show(echo(1).__name__, echo.__name__)
    reentered = []

    @task
    def enters():
        yield next(reentered[0])

    reentered.append(enters())
    attempt(lambda: next(reentered[0]))


def coroutines():
    """Attributes, states and what refuses a coroutine."""
    body = outer(1)
    show(repr(body), inspect.iscoroutine(body), inspect.isawaitable(body), inspect.getcoroutinestate(body))
    show(body.send(None), inspect.getcoroutinestate(body), body.cr_code, body.cr_frame.f_lineno, body.cr_running)
    chain_of(body, "cr_await")
    attempt(lambda: drive(body))
    attempt(lambda: drive(body))
    attempt(lambda: iter(fetch(1)))
    attempt(lambda: drive(awaits(echo(1))))
    attempt(lambda: next(from_generator(fetch(1))))
    awaited = fetch(1)
    waiting = awaits(awaited)
    waiting.send(None)
    attempt(lambda: drive(awaits(awaited)))
    iterator = fetch(5).__await__()
    show(iterator, hasattr(iterator, "__next__"), hasattr(fetch(5), "__next__"), list(iterator))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fetch(1)
        gc.collect()
    show([str(one.message) for one in caught])


async def awaits(body):
    return await body


def from_generator(body):
    yield from body


def drive(body):
    """Run a coroutine that waits for nothing to its end."""
    while True:
        try:
            body.send(None)
        except StopIteration as stop:
            return stop.value


async def tasks():
    """What asyncio shows of a task."""
    running = asyncio.create_task(outer(7), name="running")
    show(repr(running), [frame.f_code.co_name for frame in running.get_stack()])
    await asyncio.sleep(0)
    show(repr(running), [frame.f_code.co_name for frame in running.get_stack()])
    show(await running, await below(1), await above(2), inspect.iscoroutinefunction(fetch), asyncio.iscoroutine(fetch))
    failing = asyncio.create_task(fail(), name="failing")
    try:
        await failing
    except KeyError as error:
        show([frame.name for frame in traceback.extract_tb(error.__traceback__)])
    cancelled = asyncio.create_task(outer(7), name="cancelled")
    await asyncio.sleep(0)
    cancelled.cancel()
    show(await asyncio.gather(cancelled, return_exceptions=True))


async def asynchronous_generators():
    """Attributes, hooks and steps of an asynchronous generator."""
    made = count(3)
    show(repr(made), inspect.isasyncgen(made), made.ag_code, made.ag_frame.f_lineno, made.ag_running, made.ag_await)
    show([value async for value in made], await anext(made, "default"))
    begun = count(3)
    first = begun.asend(None)
    first.send(None)
    attempt(lambda: begun.asend(None).send(None))
    attempt(lambda: drive(first))
    await begun.aclose()
    refused = count(1)
    attempt(lambda: refused.asend(1).send(None))
    show([value async for value in refused])
    unstarted = count(1)
    await unstarted.aclose()
    show([value async for value in unstarted])
    async for _ in count(5):
        break
    await asyncio.sleep(0)
    left = count(5)
    known = asyncio.get_running_loop()._asyncgens  # noqa: SLF001 - what the loop was told of
    await anext(left)
    show(left in known)


def main():
    arguments()
    generators()
    coroutines()
    asyncio.run(tasks())
    asyncio.run(asynchronous_generators())


if __name__ == "__main__":
    recording = tprof.record(energy="estimate", counters="none") if WAY == "recorded" else contextlib.nullcontext()
    with recording:
        main()
