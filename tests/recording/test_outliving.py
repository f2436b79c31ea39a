"""A process that outlives a recording changes nothing of it by what it does later."""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from support import programs, pthreads, traces
from support.streamed_profiles import streamed

import tprof
from tprof.trace import layout
from tprof.trace.compress import compress

PROGRAM = """
import ctypes, subprocess, sys, threading, time
from pathlib import Path
import tprof

def burn(cpu_s):
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        pass

def await_file(path):
    deadline_s = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)

@tprof.task(flops=lambda cpu_s: 1e9 * cpu_s)
def work(cpu_s):
    burn(cpu_s)

@tprof.task
def serve(library):
    pool = ctypes.CDLL(library)
    pool.pool_work.argtypes = [ctypes.c_uint64]
    pool.pool_begin(2)
    pool.pool_work(50_000_000)
    for _ in range(100):
        work(1e-4)
    burn(0.2)  # in a segment that is open at the end of the recording
    Path("ready").touch()
    sys.stdin.readline()
    pool.pool_work(200_000_000)
    burn(0.3)
    for _ in range(100):
        work(1e-3)
    threads = [threading.Thread(target=work, args=(0.01,)) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with tprof.region("later"):
        work(0.01)

if len(sys.argv) > 2:
    serve(sys.argv[1])
else:
    options = {"energy": "estimate", "counters": "none", "OPTIONS": True}
    with tprof.record("t.tprof", **options):
        subprocess.Popen([sys.executable, *sys.argv, "helper"])
        work(0.1)
        await_file(Path("ready"))
"""


@pytest.fixture(scope="module")
def library_path(tmp_path_factory):
    return pthreads.build(tmp_path_factory.mktemp("pool"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, library_path):
    """Return a session as it was at its end, and as it was when the helper had ended."""
    return record(tmp_path_factory.mktemp("outlived"), library_path, "stacks")


def record(folder, library_path, option):
    program = programs.start(folder, PROGRAM.replace("OPTIONS", option), str(library_path), stdin=subprocess.PIPE)
    assert program.wait(programs.DEADLINE_S) == 0
    at_end = traces.copy(folder / "t.tprof", folder / "end.tprof")
    assert program.communicate("go\n", timeout=programs.DEADLINE_S) == ("", "")  # the helper has these pipes, too
    return at_end, folder / "t.tprof"


def assert_same(first, second):
    for common in (True, False):
        pd.testing.assert_frame_equal(first.summary(common=common), second.summary(common=common), check_exact=True)
    pd.testing.assert_frame_equal(first.accounts, second.accounts, check_exact=True)
    pd.testing.assert_frame_equal(first.power, second.power, check_exact=True)
    assert {**first.info, "session": None} == {**second.info, "session": None}


def test_the_helper_recorded_on_after_the_end(recorded):
    ended = json.loads((recorded[1] / "end.json").read_text())

    assert [one["ended_ns"] is None for one in ended["processes"]] == [False, True]
    headers = [np.fromfile(path, layout.HEADER, count=1)[0] for path in sorted((recorded[1] / "threads").iterdir())]
    assert sum(one["start_ns"] > ended["end_ns"] for one in headers) == 3
    assert sum(one["end_ns"] > ended["end_ns"] and one["start_ns"] < ended["end_ns"] for one in headers) == 2


def test_figures_are_those_of_the_end(recorded):
    first, second = (tprof.load(path).profile() for path in recorded)

    assert_same(first, second)
    pd.testing.assert_frame_equal(first.tasks, second.tasks, check_exact=True)
    assert "later" not in [one.name for one in second.trace.tasks]


def test_the_segment_that_was_open_has_the_cpu_time_of_the_end(recorded):
    profile = tprof.load(recorded[1]).profile()

    tasks, accounts = profile.tasks, profile.accounts
    assert tasks["cpu_s"][tasks["task"] == "serve"].item() > 0.199
    shared = accounts["tasks_j"] + accounts["runtime_j"] + accounts["other_j"] + accounts["idle_j"]
    np.testing.assert_allclose(shared, accounts["measured_j"], rtol=1e-9)


def test_figures_in_windows_are_those_of_the_end(recorded):
    without_stacks = [traces.copy(path, path.with_suffix(".plain")) for path in recorded]
    for path in without_stacks:
        shutil.rmtree(path / "stacks")
    first, second = (streamed(tprof.load(path)) for path in without_stacks)

    assert_same(first, second)


def test_figures_of_a_part_are_those_of_the_end(recorded):
    whole = tprof.load(recorded[0])
    since_s = (whole.end_ns - whole.start_ns) * 1e-9 - 0.1

    assert_same(*(tprof.load(path).profile(start_s=since_s) for path in recorded))


def test_stacks_and_native_threads_are_those_of_the_end(recorded):
    first, second = (tprof.load(path) for path in recorded)

    for before, after in zip(first.stacks(), second.stacks(), strict=True):
        assert before.t_ns.tolist() == after.t_ns.tolist()
    for before, after in zip(first.native_threads, second.native_threads, strict=True):
        assert (before.ended_ns, before.t_ns.tolist(), before.cpu_ns.tolist()) == (
            after.ended_ns, after.t_ns.tolist(), after.cpu_ns.tolist(),
        )  # fmt: skip
    assert sum(len(one.t_ns) for one in second.native_threads) > 2


def test_figures_of_compressed_records_are_those_of_the_end(recorded):
    packed = traces.copy(recorded[1], recorded[1].with_suffix(".packed"))
    compress(packed)

    assert_same(tprof.load(recorded[0]).profile(), tprof.load(packed).profile())


def test_figures_of_a_recording_in_segments_are_those_of_the_end(tmp_path, library_path):
    first, second = record(tmp_path, library_path, "compress")

    assert_same(tprof.load(first).profile(), tprof.load(second).profile())
