"""Metrics of a recording for Prometheus and OpenTelemetry."""

import os
import re
import select
import socket
import subprocess
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_sensor import wait_for
from support.programs import TPROF
from support.properties import examples

import tprof
import tprof.metrics
from tprof.errors import UsageError
from tprof.metrics.server import MOST_CLIENTS
from tprof.metrics.service import service
from tprof.metrics.task_series import TaskSeries
from tprof.trace.metric_names import METRICS, OTHER_TASKS

pytest.importorskip("prometheus_client")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

DEADLINE_S = 60
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
LABELS = ("task", "account", "domain", "quality")


@tprof.task(name="spin")
def spin(cpu_s):
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


def page(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[label] for label in LABELS if label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def page_with(port, name, more, before=None):
    """Return the page once a sample has grown by so much since a page before; tests of a process share the counters."""
    deadline_s = time.monotonic() + DEADLINE_S
    while (found := page(port)).get(name, 0.0) - (before or {}).get(name, 0.0) < more:
        assert time.monotonic() < deadline_s, found
        time.sleep(0.02)
    return found


def names_of_threads():
    """Return the names of this process's threads; other libraries' threads may end meanwhile."""
    names = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            names.append((thread / "comm").read_text().strip())
    return names


def spun_j(reader):
    """Return the joules of the task `spin` that a reader of OpenTelemetry has; 0 before there are any."""
    data = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics if data and data.resource_metrics else ()
    points = [point for metric in metrics if metric.name == "tprof.energy" for point in metric.data.data_points]
    return sum(point.value for point in points if point.attributes["task"] == "spin")


@pytest.fixture
def port():
    yield tprof.metrics.start(0)
    tprof.metrics.stop()


SPUN = ("tprof_instances_total", "spin")


def test_the_page_has_joules_of_tasks_and_accounts_and_watts(port, tmp_path):
    before = page(port)
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none"):
        for _ in range(5):
            spin(0.03)
        page_with(port, SPUN, 5, before)
        found = page_with(port, ("tprof_power_watts", "package-0", "estimated"), 0.1)

    assert found["tprof_energy_joules_total", "spin", "estimated"] > 0
    accounts = {name[1] for name in found if name[0] == "tprof_account_energy_joules_total"}
    assert accounts == {"tasks", "runtime", "other", "idle", "spinning", "unidentified"}
    assert {name[0] for name in found} == {metric.of_sample for metric in METRICS}


def test_joules_of_spans_lead_to_their_latest_trace(port, tmp_path):
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    from tprof.otel import SpanTasks  # noqa: PLC0415 - it needs OpenTelemetry

    provider, ended = trace.TracerProvider(), {}
    provider.add_span_processor(SpanTasks())
    wanted = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": OPENMETRICS})
    deadline_s = time.monotonic() + DEADLINE_S
    found = None
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none"):
        while found is None and time.monotonic() < deadline_s:
            with provider.get_tracer("tests").start_as_current_span("order") as span:
                spin(0.02)
            ended[f"{span.get_span_context().span_id:016x}"] = f"{span.get_span_context().trace_id:032x}"
            with urllib.request.urlopen(wanted, timeout=DEADLINE_S) as answer:  # noqa: S310 - the page above
                families = openmetrics.text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples if sample.exemplar is not None]
            found = next((one.exemplar for one in samples if one.labels["task"] == "order"), None)

    assert found is not None
    assert ended[found.labels["span_id"]] == found.labels["trace_id"]
    assert found.value > 0


def test_counters_go_on_in_the_next_recording(port, tmp_path):
    before = page(port)
    for name, most in (("a", 2), ("b", 4)):
        with tprof.record(tmp_path / f"{name}.tprof", energy="estimate", counters="none"):
            spin(0.03)
            spin(0.03)
            page_with(port, SPUN, most, before)
    ended = page(port)

    assert ended[SPUN] == before.get(SPUN, 0) + 4
    assert not [name for name in ended if name[0] == "tprof_power_watts"]


def test_what_a_recording_left_when_it_ended_counts(port, tmp_path):
    before = page(port)
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none"):
        page(port)
        spin(0.1)

    name = "tprof_energy_joules_total", "spin", "estimated"
    assert page_with(port, SPUN, 1, before)[name] > before.get(name, 0.0)


def test_a_taken_port_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot serve metrics on 127.0.0.1:{number}: address already in use"):
            tprof.metrics.start(number)

    assert tprof.metrics.start(number) == number
    tprof.metrics.stop()


def test_what_is_no_port_and_a_second_start_are_refused(port):
    with pytest.raises(UsageError, match="serves metrics already"):
        tprof.metrics.start(port)
    with pytest.raises(UsageError, match="a port is a number from 0 to 65535, got '80'"):
        tprof.metrics.start("80")


def test_a_forked_child_holds_neither_the_port_nor_the_thread(port):
    (answer, answering), (awaits, ends) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(answering, "\n".join(names_of_threads()).encode())
            os.close(ends)
            os.read(awaits, 1)
        finally:
            os._exit(0)
    os.close(answering)
    threads = os.read(answer, 1000).decode()

    answered = page(port)
    tprof.metrics.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=60)
    os.close(ends)
    os.waitpid(child, 0)

    assert threads
    assert "tprof-metrics" not in threads.split("\n")
    assert isinstance(answered, dict)


def test_many_clients_that_never_finish_delay_nobody_and_few_of_them_stay_connected(port):
    """If each held the page for a second, the answer would come too late for this test."""
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), DEADLINE_S)) for _ in range(150)]
        for client in silent:
            with suppress(ConnectionError):
                client.sendall(b"G")
        threads = names_of_threads()

        assert isinstance(page(port), dict)
        assert threads.count("tprof-metrics") == 1
        wait_for(
            lambda: len(select.select(silent, [], [], 0)[0]) >= len(silent) - MOST_CLIENTS, "the oldest to be let go"
        )


def test_a_client_that_does_not_read_its_answer_delays_nobody(port):
    with ExitStack() as stack:
        for _ in range(20):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            deaf.connect(("127.0.0.1", port))
            deaf.sendall(get())

        assert isinstance(page(port), dict)


def answer_to(port, request):
    """Return status and content of the answer to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        client.sendall(request)
        head, _, content = client.makefile("rb").read().partition(b"\r\n\r\n")
    return int(head.split()[1]), content


def get(*lines, path="/metrics", method="GET"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("Host: localhost:9464"), 200),
        (get("Host: 127.0.0.1"), 200),
        (get("Host: [::1]:9464"), 200),
        (get(f"Host: {socket.gethostname()}:9464"), 200),
        (get("Host: 127.0.0.1.shop.example:9464"), 403),
        (get("Host: shop.example"), 403),
        (get(), 200),
        (get(path="/metrics?name[]=x"), 200),
        (get(path="/"), 404),
        (get(path="/metrics/../etc/passwd"), 404),
        (get(method="HEAD"), 200),
        (get(method="POST"), 405),
        (get("Accept: application/openmetrics-text;version=latest"), 200),
        (get("Accept: text/plain;version=1.x, */*;q=y"), 200),
        (get("Accept: ;;;,=,;version=,"), 200),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\xff\r\n\r\n", 400),
        (b"x" * (1 << 14), 400),
    ],
)
def test_any_request_is_answered_and_nothing_is_printed(port, capfd, request_, status):
    found, content = answer_to(port, request_)

    assert found == status
    assert (b"# HELP tprof_energy" in content) == (status == 200 and not request_.startswith(b"HEAD"))
    assert capfd.readouterr() == ("", "")


def test_a_client_that_drips_bytes_is_let_go(port):
    with socket.create_connection(("127.0.0.1", port)) as client:
        deadline_s = time.monotonic() + DEADLINE_S
        with suppress(ConnectionError):
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            while not select.select([client], [], [], 0.02)[0]:
                assert time.monotonic() < deadline_s, "it holds the page"
                client.sendall(b"x")
            assert client.recv(1) == b""

        assert isinstance(page(port), dict)


def test_instruments_of_opentelemetry_have_the_same_names_and_sums(tmp_path):
    reader = InMemoryMetricReader()
    tprof.metrics.observe(MeterProvider(metric_readers=[reader]).get_meter("tests"))
    try:
        with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording:
            before_j = spun_j(reader)  # tests of a process share the counters
            spin(0.1)
            # Both know what the sensors have read so far, and on a busy machine that is late.
            wait_for(lambda: spun_j(reader) - before_j > 0.9 * recording.energy().tasks["spin"].energy_j > 0, "joules")
            metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
            live = recording.energy()
    finally:
        tprof.metrics.stop()

    points = {metric.name: list(metric.data.data_points) for metric in metrics}
    assert set(points) <= {metric.name for metric in METRICS}
    (spun,) = [one for one in points["tprof.energy"] if one.attributes["task"] == "spin"]
    assert spun.value - before_j == pytest.approx(live.tasks["spin"].energy_j, rel=0.3)
    assert {one.attributes["account"] for one in points["tprof.account.energy"]} >= {"tasks", "other"}


def test_joules_that_a_budget_had_read_before_count_in_the_metric(tmp_path):
    """Everything in a process reads one meter, so who asks later finds what others have read."""
    reader = InMemoryMetricReader()
    service.figures.poll()
    spun_before_j = service.figures.values.own_tasks_j.get("spin", 0.0)
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording:
        spin(0.1)
        deadline_s = time.monotonic() + DEADLINE_S
        while "spin" not in recording.energy().tasks or not recording.energy().tasks["spin"].energy_j:
            assert time.monotonic() < deadline_s
        before_j = recording.energy().tasks["spin"].energy_j
        tprof.metrics.observe(MeterProvider(metric_readers=[reader]).get_meter("tests"))
        try:
            spun_now_j = spun_j(reader)
        finally:
            tprof.metrics.stop()

    assert spun_now_j - spun_before_j >= 0.99 * before_j


def test_names_are_those_that_exporters_make():
    assert [metric.of_sample for metric in METRICS] == [
        "tprof_energy_joules_total",
        "tprof_instances_total",
        "tprof_account_energy_joules_total",
        "tprof_power_watts",
    ]


NAMES = st.sampled_from([f"task-{number}" for number in range(12)])
STEPS = st.lists(st.dictionaries(NAMES, st.tuples(st.integers(0, 100), st.integers(0, 9)), max_size=12), max_size=8)


@examples(50)
@given(steps=STEPS, most=st.integers(1, 8))
def test_series_are_bounded_and_never_fall_and_sum_to_all_tasks(steps, most):
    series, tasks, shown = TaskSeries(most), {}, {}
    for step in steps:
        last, tasks = tasks, dict(tasks)
        for name, (energy_j, instances) in step.items():
            before_j, before = tasks.get(name, (0.0, 0))
            tasks[name] = before_j + energy_j, before + instances
        before, shown = shown, series.of(tasks, last)

        assert len(shown.keys() - {OTHER_TASKS}) <= most
        assert shown.keys() >= before.keys()
        for name, counts in before.items():
            assert shown[name] >= counts
            assert shown[name][1] >= counts[1]
        assert sum(one[0] for one in shown.values()) == sum(one[0] for one in tasks.values())
        assert sum(one[1] for one in shown.values()) == sum(one[1] for one in tasks.values())


def test_the_documentation_names_every_metric_and_label():
    text = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")

    for metric in METRICS:
        assert re.search(rf"`{metric.of_sample}` \| {', '.join(f'`{one}`' for one in metric.labels)} \|", text)
        assert f"`{metric.name}` | {metric.unit} | `{metric.of_sample}`" in text


def test_metrics_are_served_beside_a_program_with_a_module_named_as_a_standard_one(tmp_path):
    (tmp_path / "http.py").write_text("OWN = True\n")
    (tmp_path / "prog.py").write_text(
        "import socket, http\nfrom tprof.metrics.service import service\n"
        "with socket.create_connection(('127.0.0.1', service._server.server_port)) as page:\n"
        "    page.sendall(b'GET /metrics HTTP/1.0\\r\\n\\r\\n')\n"
        "    print(http.OWN, page.makefile('rb').readline().split()[1])\n"
    )
    # Users' programs import from their own folder; only this suite forbids that to its children.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    words = [TPROF, "run", "--energy", "estimate", "--no-summary", "--metrics", "0", "prog.py"]

    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.stdout == "True b'200'\n", done.stderr
    assert "metrics are at http://127.0.0.1:" in done.stderr
