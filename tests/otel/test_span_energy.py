"""Spans that end carry an estimate of their energy, and its sums are a metric."""

import time

import pytest

import tprof
import tprof.metrics

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tprof.otel import SpanTasks

DEADLINE_S = 60
CARRYING = 15
ALIKE = 3  # looks after which nothing more is expected
WATTS = (1.0, 10.0)  # idle, each busy core


def busy(least_s):
    end_s = time.thread_time() + least_s
    while time.thread_time() < end_s:
        pass


def told(spans, name):
    return [dict(span.attributes) for span in spans if span.name == name and "tprof.energy_j" in span.attributes]


def points_of(reader):
    return {
        (point.attributes["task"], point.attributes["quality"]): point.value
        for point in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    }


def settled(look, deadline_s):
    """Look until nothing is added: each look takes a small share of the time since the last, and reads on so long."""
    found, alike = look(), 0
    while alike < ALIKE and time.monotonic() < deadline_s:
        time.sleep(0.2)
        before, found = found, look()
        alike = alike + 1 if found == before else 0
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Record spans until they carry energy; returns them, the metric's points and the profile."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("tests")
    provider = TracerProvider()
    provider.add_span_processor(SpanTasks(meter=meter))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    full = TracerProvider(span_limits=SpanLimits(max_span_attributes=2))
    full.add_span_processor(SpanTasks())
    full.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, deadline_s = provider.get_tracer("tests"), time.monotonic() + DEADLINE_S
    with tprof.record(tmp_path_factory.mktemp("energy") / "t.tprof", energy="estimate", watts=WATTS) as recording:
        while time.monotonic() < deadline_s:
            with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
                busy(0.02)
            if len(told(exporter.get_finished_spans(), "inner")) >= CARRYING:
                break
        with full.get_tracer("tests").start_as_current_span("full", attributes={"a": 1, "b": 2}):
            busy(0.001)
        points = settled(lambda: points_of(reader), deadline_s)
        live = recording.energy()
    with tracer.start_as_current_span("after"):
        pass
    yield exporter.get_finished_spans(), (points, live), recording.profile()
    tprof.metrics.stop()  # else it follows the recordings of all later tests


def test_a_span_carries_its_own_energy_without_that_of_its_children(service):
    spans, _, profile = service

    (outer,), (inner,) = told(spans, "outer")[-1:], told(spans, "inner")[-1:]

    assert inner["tprof.energy_quality"] == outer["tprof.energy_quality"] == "estimate"
    assert inner["tprof.cpu_s"] == pytest.approx(profile.tasks[profile.tasks.task == "inner"].cpu_s.iloc[-1], rel=0.02)
    assert outer["tprof.cpu_s"] < 0.5 * inner["tprof.cpu_s"]


def test_the_energy_of_spans_is_about_that_of_the_profile(service):
    """Spans take the rate of the second before them, and the machine has other programs to do."""
    spans, _, profile = service

    carried = told(spans, "inner")
    watts = sum(one["tprof.energy_j"] for one in carried) / sum(one["tprof.cpu_s"] for one in carried)

    inner = profile.tasks[profile.tasks.task == "inner"].iloc[-len(carried) :]
    assert watts == pytest.approx(inner.energy_j.sum() / inner.cpu_s.sum(), rel=0.35)


def test_the_metric_has_the_joules_that_the_recording_says_while_it_runs(service):
    _, (points, live), _ = service

    for name in ("inner", "outer"):
        assert points[name, "estimated"] == pytest.approx(live.tasks[name].energy_j, rel=0.15, abs=1e-3)


def test_attributes_of_the_program_are_not_pushed_out(service):
    spans, _, _ = service

    (full,) = [span for span in spans if span.name == "full"]

    assert dict(full.attributes) == {"a": 1, "b": 2}
    assert full.dropped_attributes == 0


def test_without_a_recording_spans_carry_nothing(service):
    spans, _, _ = service

    assert [dict(span.attributes) for span in spans if span.name == "after"] == [{}]
