"""One page for all workers of a service, served by the process that began the recording or by the first that asks."""

import json
import re
import signal
import socket
import sys
import time
import urllib.request
from contextlib import suppress

import pytest
from support.programs import TPROF, begin

pytest.importorskip("prometheus_client")
pytest.importorskip("gunicorn")

DEADLINE_S = 120
APP = """
import os, socket, tprof

@tprof.task(name="answer")
def answer():
    return sum(range(100_000))

def app(environment, start):
    answer()
    start("200 OK", [])
    return [str(os.getpid()).encode()]
"""
CALLING = """
import json, multiprocessing, time, tprof, tprof.metrics, urllib.request

@tprof.task(name="work")
def work():
    return sum(range(100_000))

def worker(port, results, over):
    results.put(tprof.metrics.start(port))
    work()
    over.wait()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    results, over, port = context.Queue(), context.Event(), int(__import__("sys").argv[1])
    with tprof.record("t.tprof", energy="estimate", counters="none"):
        workers = [context.Process(target=worker, args=(port, results, over)) for _ in range(3)]
        for one in workers:
            one.start()
        served = [results.get() for _ in workers]
        until_s = time.monotonic() + 60
        while True:
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
            if 'tprof_instances_total{task="work"} 3.0' in page or time.monotonic() > until_s:
                break
            time.sleep(0.1)
        over.set()
        for one in workers:
            one.join()
    print(json.dumps([served, page]))
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:  # noqa: S310 - on this machine
        return answer.read().decode()


@pytest.mark.thorough
def test_the_page_of_gunicorn_counts_the_tasks_of_all_its_workers(tmp_path):
    (tmp_path / "service.py").write_text(APP)
    port = free_port()
    words = ["-m", "gunicorn", "-w", "2", "-b", f"127.0.0.1:{port}", "service:app"]
    started = begin(tmp_path, [TPROF, "run", "--metrics", "0", "--energy", "estimate", "--no-summary", *words])
    try:
        place = re.search(r"http://\S+/metrics", started.stderr.readline()).group()
        workers, asked, deadline_s = set(), 0, time.monotonic() + DEADLINE_S
        while len(workers) < 2 and time.monotonic() < deadline_s:
            with suppress(OSError):
                workers.add(get(f"http://127.0.0.1:{port}/"))
                asked += 1
        while f'tprof_instances_total{{task="answer"}} {asked}.0' not in (page := get(place)):
            assert time.monotonic() < deadline_s, page
            time.sleep(0.1)
    finally:
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=DEADLINE_S)

    assert len(workers) == 2
    assert started.returncode == 0


@pytest.mark.thorough
def test_the_first_worker_that_asks_serves_all(tmp_path):
    (tmp_path / "program.py").write_text(CALLING)
    port = free_port()
    started = begin(tmp_path, [sys.executable, "program.py", str(port)])

    out, err = started.communicate(timeout=DEADLINE_S)
    served, page = json.loads(out)

    assert sorted(served, key=str) == [port, None, None], err
    assert 'tprof_instances_total{task="work"} 3.0' in page
