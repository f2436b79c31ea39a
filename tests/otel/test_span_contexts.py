"""Spans stay with the coroutines and contexts that they are current in, whatever switches between these."""

import asyncio
import contextvars
import sys
import time

import pytest
from support.recorded import failures, instances, story

import tprof

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace as trace_api
from opentelemetry.sdk.trace import TracerProvider

from tprof import otel

BEGUN_AT_ONCE = sys.version_info >= (3, 12)


@pytest.fixture
def tracer():
    provider = TracerProvider()
    provider.add_span_processor(otel.SpanTasks())
    return provider.get_tracer("tests")


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Return what runs a coroutine in an event loop."""
    return asyncio.run if request.param == "asyncio" else pytest.importorskip("uvloop").run


@pytest.fixture
def record(tmp_path):
    def record(body):
        with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none", overwrite=True):
            body()
        return tprof.load(tmp_path / "t.tprof")

    return record


def test_spans_of_interleaved_coroutines_run_in_their_own_steps(tracer, run, record):
    async def one(name):
        with tracer.start_as_current_span(name):
            await asyncio.sleep(0)

    async def both():
        await asyncio.gather(one("a"), one("b"))

    assert story(record(lambda: run(both()))) == [
        ("start", "a"), ("suspend", None), ("start", "b"), ("suspend", None),
        ("resume", "a"), ("suspend", None), ("resume", "b"), ("suspend", None),
    ]  # fmt: skip


def test_a_span_inside_a_coroutine_that_is_a_task_leaves_the_task_running(tracer, run, record):
    @tprof.task(name="task")
    async def task():
        with tracer.start_as_current_span("span"):
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def main():
        await task()
        await asyncio.sleep(0)

    trace = record(lambda: run(main()))

    assert [name for _, name in story(trace)] == [
        "task", "span", None,  # suspended together
        "span", "span", "task", None,  # resumed by the context and by the task; then the task alone
        "task", None,
    ]  # fmt: skip


def test_a_task_of_the_loop_inherits_the_span_that_began_it(tracer, run, record):
    async def child():
        with tracer.start_as_current_span("child"):
            pass

    async def main():
        with tracer.start_as_current_span("parent"):
            await asyncio.create_task(child())

    trace = record(lambda: run(main()))

    tasks = trace.profile().tasks
    (parent,) = tasks.instance[tasks.task == "parent"]
    assert tasks.parent[tasks.task == "child"].tolist() == [parent]


def test_what_outlives_its_span_runs_for_nobody(tracer, run, record):
    async def later(ended):
        await ended.wait()

    async def main():
        ended = asyncio.Event()
        with tracer.start_as_current_span("request"):
            left = asyncio.create_task(later(ended))
            await asyncio.sleep(0)
        ended.set()
        await left

    last = story(record(lambda: run(main())))[-1]

    assert last == ("suspend", None)


def test_a_function_in_a_thread_of_the_loop_runs_for_the_span_that_called_it(tracer, run, record):
    async def main():
        with tracer.start_as_current_span("request"):
            await asyncio.to_thread(lambda: None)

    trace = record(lambda: run(main()))

    assert story(trace, 1)[:2] == [("resume", "request"), ("suspend", None)]


@pytest.mark.skipif(not BEGUN_AT_ONCE, reason="Python 3.12 brought tasks that begin at once")
def test_a_coroutine_that_begins_at_once_takes_no_span_along(tracer, record):
    async def child():
        with tracer.start_as_current_span("child"):
            await asyncio.sleep(0)

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        with tracer.start_as_current_span("parent"):
            begun = asyncio.create_task(child())
            with tprof.region("after"):
                pass
            await begun

    told = story(record(lambda: asyncio.run(main())))

    assert told[:5] == [
        ("start", "parent"), ("start", "child"), ("suspend", "parent"), ("start", "after"), ("finish", "parent"),
    ]  # fmt: skip


def test_exceptions_and_results_come_out_of_a_context_as_without_tprof(tracer, record):
    def fail():
        with tracer.start_as_current_span("fails"):
            raise ValueError("as it was")

    def body():
        context = contextvars.copy_context()
        assert context.run(int, "ff", base=16) == 255
        with pytest.raises(ValueError, match="as it was"):
            context.run(fail)
        with pytest.raises(RuntimeError, match="already entered"):
            context.run(context.run, fail)
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            context.run()

    assert failures(record(body)) == 1


def test_a_generator_keeps_its_span_current_as_opentelemetry_does(tracer, record):
    def values():
        with tracer.start_as_current_span("generator"):
            yield 1

    def body():
        for _ in values():
            assert trace_api.get_current_span().name == "generator"

    assert story(record(body)) == [("start", "generator"), ("suspend", None)]


@pytest.mark.thorough
def test_cpu_time_of_interleaved_requests_is_that_counted_by_hand(tracer, run, record):
    counted = {}

    def busy(name, least_s):
        begin_s = time.thread_time()
        while (took_s := time.thread_time() - begin_s) < least_s:
            pass
        counted[name] = counted.get(name, 0) + took_s

    async def request(name, least_s):
        with tracer.start_as_current_span(name):
            busy(name, least_s)
            await asyncio.sleep(0.001)
            with tracer.start_as_current_span(f"{name} query"):
                busy(f"{name} query", least_s)
                await asyncio.sleep(0.001)
            busy(name, least_s)

    async def main():
        await asyncio.gather(*(request(name, s) for name, s in (("a", 0.01), ("b", 0.02), ("c", 0.03)) * 10))

    trace = record(lambda: run(main()))

    seen_s = trace.profile().tasks.groupby("task").cpu_s.sum().to_dict()
    assert seen_s == pytest.approx(counted, rel=0.05)
    assert instances(trace) == dict.fromkeys(counted, 10)
