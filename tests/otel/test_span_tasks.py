"""Spans of OpenTelemetry are tasks while they are current, and the program stays as it is."""

import contextvars
import logging
import os
import threading

import pytest
from support.recorded import failures, instances, story

import tprof

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import context as context_api
from opentelemetry import trace as trace_api
from opentelemetry.context.context import _RuntimeContext
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from tprof import otel


@pytest.fixture
def tracer():
    provider = TracerProvider()
    provider.add_span_processor(otel.SpanTasks())
    return provider.get_tracer("tests")


@pytest.fixture
def record(tmp_path):
    def record(body):
        with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none", overwrite=True):
            body()
        return tprof.load(tmp_path / "t.tprof")

    return record


def test_a_span_runs_while_it_is_attached(tracer, record):
    def body():
        with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
            pass

    assert story(record(body)) == [
        ("start", "outer"), ("start", "inner"), ("suspend", "outer"), ("suspend", None),
    ]  # fmt: skip


def test_a_span_that_is_never_attached_is_not_recorded(tracer, record):
    assert instances(record(lambda: tracer.start_span("unused").end())) == {}


def test_tasks_and_regions_nest_with_spans(tracer, record):
    @tprof.task(name="task")
    def task():
        with tracer.start_as_current_span("inside"):
            pass

    def body():
        with tracer.start_as_current_span("outside"), tprof.region("region"):
            task()

    assert story(record(body)) == [
        ("start", "outside"), ("start", "region"), ("start", "task"), ("start", "inside"),
        ("suspend", "task"), ("finish", "region"), ("finish", "outside"), ("suspend", None),
    ]  # fmt: skip


def test_a_span_that_ends_while_it_is_attached_runs_no_more(tracer, record):
    def body():
        with tracer.start_as_current_span("outer"):
            inner = tracer.start_span("inner")
            with trace_api.use_span(inner, end_on_exit=False):
                inner.end()

    assert story(record(body))[:3] == [("start", "outer"), ("start", "inner"), ("finish", "outer")]


def test_a_span_goes_on_where_it_is_attached_again(tracer, record):
    def body():
        span = tracer.start_span("span")
        for _ in range(2):
            with trace_api.use_span(span):
                pass

    assert story(record(body)) == [("start", "span"), ("suspend", None), ("resume", "span"), ("suspend", None)]


def test_a_span_that_ends_in_an_exception_has_failed(tracer, record):
    def body():
        with pytest.raises(ValueError, match="as it was"), tracer.start_as_current_span("span"):
            raise ValueError("as it was")

    trace = record(body)

    assert failures(trace) == 1
    assert trace.profile().tasks.failed.tolist() == [True]


def test_a_context_without_a_span_runs_nobody(tracer, record):
    def body():
        with tracer.start_as_current_span("span"):
            token = context_api.attach(context_api.Context())
            context_api.detach(token)

    assert story(record(body)) == [("start", "span"), ("suspend", None), ("resume", "span"), ("suspend", None)]


def test_unsampled_spans_are_not_recorded(record):
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(otel.SpanTasks())

    def body():
        with provider.get_tracer("tests").start_as_current_span("span"):
            pass

    assert instances(record(body)) == {}


def test_only_the_spans_of_a_provider_with_the_processor_are_tasks(tracer, record):
    def body():
        with tracer.start_as_current_span("ours"), TracerProvider().get_tracer("t").start_as_current_span("other"):
            pass

    assert instances(record(body)) == {"ours": 1}


def test_a_processor_added_twice_counts_each_span_once(record):
    provider = TracerProvider()
    provider.add_span_processor(otel.SpanTasks())
    provider.add_span_processor(otel.SpanTasks())

    def body():
        with provider.get_tracer("tests").start_as_current_span("span"):
            pass

    assert instances(record(body)) == {"span": 1}


def test_a_span_with_a_new_name_continues_as_an_instance_of_that(tracer, record):
    def body():
        with tracer.start_as_current_span("GET") as span:
            span.update_name("GET /items/{id}")

    assert story(record(body)) == [("start", "GET"), ("start", "GET /items/{id}"), ("suspend", None)]


def test_a_process_is_labelled_by_its_service(record):
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(otel.SpanTasks())

    def body():
        with provider.get_tracer("tests").start_as_current_span("span"):
            pass

    assert record(body).profile().tasks.label_service.tolist() == ["shop"]


def test_a_context_that_is_not_contextvars_is_refused(monkeypatch):
    class OwnContext(_RuntimeContext):
        def attach(self, context):  # noqa: ARG002 - the interface's
            return object()

        def get_current(self):
            return context_api.Context()

        def detach(self, token):
            pass

    monkeypatch.setattr("opentelemetry.context._RUNTIME_CONTEXT", OwnContext())

    with pytest.raises(tprof.UsageError, match="OwnContext: unset OTEL_PYTHON_CONTEXT"):
        otel.SpanTasks()


def test_more_names_than_fit_are_one_task(tracer, record, monkeypatch):
    monkeypatch.setattr("tprof.otel.spans._numbers", {})
    monkeypatch.setattr("tprof.otel.spans.MOST_NAMES", 1)

    def body():
        for name in ("first", "second", "third"):
            with tracer.start_as_current_span(name):
                pass

    assert instances(record(body)) == {"first": 1, otel.OTHERS: 2}


def test_a_context_carried_to_another_thread_runs_its_span_there(tracer, record):
    def child():
        with tracer.start_as_current_span("child"):
            pass

    def body():
        with tracer.start_as_current_span("span"):
            thread = threading.Thread(target=contextvars.copy_context().run, args=(child,))
            thread.start()
            thread.join()

    trace = record(body)

    assert story(trace, 0) == [("start", "span"), ("suspend", None)]
    assert story(trace, 1)[:4] == [("resume", "span"), ("start", "child"), ("suspend", "span"), ("suspend", None)]


def test_spans_across_a_recordings_begin_and_end_disturb_nothing(tracer, record):
    with tracer.start_as_current_span("before"):
        trace = record(lambda: tracer.start_as_current_span("left open").__enter__())
        with tracer.start_as_current_span("after"):
            pass

    assert instances(trace) == {"left open": 1}


def test_a_token_of_another_context_is_reported_as_without_tprof(tracer, record, caplog):
    def body():
        token = contextvars.copy_context().run(context_api.attach, context_api.Context())
        with tracer.start_as_current_span("span"):
            context_api.detach(token)

    with caplog.at_level(logging.ERROR):
        trace = record(body)

    assert [one.message for one in caplog.records] == ["Failed to detach context"]
    assert instances(trace) == {"span": 1}


def test_a_forked_child_continues_the_spans_of_its_parent(tracer, record):
    def body():
        with tracer.start_as_current_span("parent"):
            child = os.fork()
            if child == 0:
                with tracer.start_as_current_span("child"):
                    os._exit(0)
            os.waitpid(child, 0)

    assert instances(record(body)) == {"parent": 1, "child": 1}
