"""`tprof run --spans`: programs of OpenTelemetry run as without tprof, and their spans are tasks."""

import socket
import subprocess
import sys
import time

import pytest
from support.launched import compare, execute
from support.programs import TPROF
from support.recorded import instances

import tprof

pytest.importorskip("opentelemetry.sdk")

DEADLINE_S = 60

PROGRAM = """
import subprocess, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("program")
with tracer.start_as_current_span("job") as span:
    try:
        with tracer.start_as_current_span("fails"):
            raise ValueError("as it was")
    except ValueError as error:
        print(error)
    span.update_name("renamed job")
    if "child" not in sys.argv:
        subprocess.run([sys.executable, "prog.py", "child"], check=True)
provider.shutdown()
for span in exporter.get_finished_spans():
    print(span.name, dict(span.attributes), span.status.status_code, [event.name for event in span.events])
"""

SERVICE = """
import asyncio
from fastapi import FastAPI
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace import TracerProvider

app = FastAPI()

@app.get("/waits/{number}")
async def waits(number: int):
    await asyncio.sleep(0.01)
    return number

@app.get("/in-thread")
def in_thread():
    return sum(range(1000))

FastAPIInstrumentor.instrument_app(app, tracer_provider=TracerProvider(), exclude_spans=["send", "receive"])
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Run the program plain and with --spans; returns what its instances are and its folder."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "prog.py").write_text(PROGRAM)
    options = ("--spans", "--energy", "estimate", "--no-summary", "-o", "t.tprof")
    plain = execute(folder, sys.executable, "prog.py")
    run = execute(folder, TPROF, "run", *options, "prog.py")
    return plain, run, tprof.load(folder / "t.tprof")


def test_a_program_and_what_it_exports_are_as_without_tprof(recorded):
    plain, run, _ = recorded

    assert (run.returncode, run.stdout, run.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_spans_of_a_program_and_its_children_are_tasks(recorded):
    _, _, trace = recorded

    counts = instances(trace)

    assert {name: counts[name] for name in ("job", "fails", "renamed job")} == {"job": 2, "fails": 2, "renamed job": 2}


def test_without_the_option_spans_are_no_tasks(tmp_path):
    assert not {"job", "fails"} & set(compare(tmp_path, PROGRAM))


def test_the_option_without_opentelemetry_says_what_to_install(tmp_path):
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry/__init__.py").write_text("")

    run = execute(tmp_path, TPROF, "run", "--spans", "-c", "pass", PYTHONPATH=str(tmp_path))

    assert (run.returncode, run.stderr) == (
        2, "tprof: --spans needs OpenTelemetry's SDK: pip install opentelemetry-sdk\n",
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_requests_of_a_service_are_tasks(loop, tmp_path):
    for needed in ("opentelemetry.instrumentation.fastapi", "httpx", "uvicorn", loop):
        pytest.importorskip(needed)
    import httpx  # noqa: PLC0415 - not there without the dependency group libraries

    (tmp_path / "service.py").write_text(SERVICE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--spans", "--energy", "estimate", "--no-summary", "-o", "t.tprof"]
    words = ["-m", "uvicorn", "service:app", "--port", str(port), "--loop", loop, "--log-level", "error"]
    server = subprocess.Popen([TPROF, "run", *options, *words], cwd=tmp_path)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=DEADLINE_S) as client:
            deadline_s = time.monotonic() + DEADLINE_S
            while True:
                try:
                    client.get("/waits/0").raise_for_status()
                    break
                except httpx.ConnectError:
                    assert time.monotonic() < deadline_s
                    time.sleep(0.05)
            for number in range(1, 5):
                assert client.get(f"/waits/{number}").json() == number
                client.get("/in-thread").raise_for_status()
    finally:
        server.terminate()
        server.wait(DEADLINE_S)

    tasks = tprof.load(tmp_path / "t.tprof").profile().tasks

    assert tasks.task.astype(str).value_counts().to_dict() == {"GET /waits/{number}": 5, "GET /in-thread": 4}
    assert (tasks.cpu_s > 0).all()
