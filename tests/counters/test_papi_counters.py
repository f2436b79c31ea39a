"""Counters by PAPI: the path of the data on a library whose counts are known, and what the real one says."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from support import fake_papi

import tprof
from tprof import counters
from tprof.counters import papi
from tprof.errors import SensorError, UsageError
from tprof.trace import Kind

ALL = ("PAPI_TOT_INS", "PAPI_TOT_CYC", "PAPI_L3_TCM", "fake::READS:u=0")
PROGRAM = """
import ctypes, glob, json, multiprocessing, os, sys, threading, time
import pypapi, tprof

@tprof.task
def work():
    pass

def run(how):
    if how == "threads":
        threads = [threading.Thread(target=lambda: [work() for _ in range(10)]) for _ in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    elif how in ("fork", "spawn"):
        child = multiprocessing.get_context(how).Process(target=work)
        child.start()
        child.join()
    for _ in range(10):
        work()

if __name__ == "__main__":
    path, asked, how = sys.argv[1:]
    try:
        with tprof.record(path, energy="estimate", counters=asked):
            run(how)
    except Exception as error:
        print(type(error).__name__, error)
        sys.exit(3)
    library = ctypes.CDLL(glob.glob(os.path.dirname(pypapi.__file__) + "/_papi*.so")[0])
    end_s = time.monotonic() + 60
    while library.fake_open_sets() and time.monotonic() < end_s:  # the kernel may end a thread after its join
        time.sleep(0.01)
    print(json.dumps({"open": library.fake_open_sets()}))
"""


def record(tmp_path, asked, *, how="plain", events=ALL, **fake):
    """Record ten tasks; returns the trace and what the program said, or only that if it failed."""
    environment = fake_papi.make(tmp_path / "packages", events, **fake)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, program, tmp_path / "t.tprof", asked, how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode == 3:
        return None, done.stdout.strip()
    assert (done.returncode, done.stderr) == (0, "")
    return tprof.load(tmp_path / "t.tprof"), json.loads(done.stdout)


def increments(thread, column):
    samples = thread.read()
    return np.diff(samples[samples["kind"] != Kind.JOIN][column].astype(np.int64))


def test_each_sample_reads_papis_counts_into_its_columns(tmp_path):
    trace, said = record(tmp_path, "papi")

    (thread,) = trace.threads
    assert thread.columns == ("energy_uj", "cpu_ns", "instructions", "cycles", "llc_misses")
    for column, step in (("instructions", 1), ("cycles", 2), ("llc_misses", 3)):
        assert set(increments(thread, column)) == {step}
    assert trace.manifest["counters"]["source"] == "papi"
    assert trace.manifest["counters"]["papi"] == list(ALL[:3])
    assert said == {"open": 0}


def test_native_events_are_columns_by_their_own_names_as_identifiers(tmp_path):
    trace, _ = record(tmp_path, "papi:fake::READS:u=0,PAPI_TOT_INS")

    (thread,) = trace.threads
    assert thread.columns == ("energy_uj", "cpu_ns", "fake__READS_u_0", "instructions")
    assert set(increments(thread, "instructions")) == {2}


def test_each_thread_has_an_event_set_of_its_own_and_leaves_none(tmp_path):
    trace, said = record(tmp_path, "papi", how="threads")

    assert len(trace.threads) == 21
    assert all(set(increments(thread, "instructions")) == {1} for thread in trace.threads)
    assert said == {"open": 0}


def test_a_child_that_was_forked_has_no_counters_by_papi(tmp_path):
    trace, _ = record(tmp_path, "papi", how="fork")

    parent, child = sorted(trace.threads, key=lambda thread: thread.process)
    assert "instructions" in parent.columns
    assert child.columns == ("energy_uj", "cpu_ns")
    assert any(note.startswith("1 thread has no counters or not all of them") for note in trace.notes)


def test_a_child_that_begins_anew_counts(tmp_path):
    trace, _ = record(tmp_path, "papi", how="spawn")

    assert {thread.process for thread in trace.threads} == {0, 1}
    assert all("instructions" in thread.columns for thread in trace.threads)


def test_an_event_that_papi_lacks_is_noted_and_the_others_are_read(tmp_path):
    trace, _ = record(tmp_path, "papi", events=ALL[:2])

    assert trace.threads[0].columns == ("energy_uj", "cpu_ns", "instructions", "cycles")
    assert "no llc_misses: PAPI has no PAPI_L3_TCM here: Event does not exist" in trace.manifest["notes"]


@pytest.mark.parametrize(
    ("asked", "fake", "message"),
    [
        ("papi:PAPI_FP_OPS", {}, "PAPI has no PAPI_FP_OPS here: Event does not exist"),
        (
            "papi", {"events": ("other",), "disabled": True},
            "PAPI has no PAPI_TOT_INS here: Event does not exist (perf_event: no counters in this machine)",
        ),
        ("papi", {"version": 0x05000000}, "PAPI cannot be used here: Invalid argument"),
    ],
    ids=["event", "machine", "version"],
)  # fmt: skip
def test_papis_own_sentence_is_passed_on(tmp_path, asked, fake, message):
    assert record(tmp_path, asked, **fake) == (None, f'SensorError {message}; use counters="auto"')


def test_without_the_package_the_extra_that_brings_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypapi", None)

    with pytest.raises(SensorError) as refused:
        counters.choose("papi")

    assert str(refused.value) == papi.INSTALL


def test_more_events_than_fit_a_sample_are_refused():
    with pytest.raises(UsageError, match="counters by PAPI are at most 11 names of at most 127 bytes, got 'papi:e0,"):
        counters.choose("papi:" + ",".join(f"e{number}" for number in range(12)))


def test_the_real_library_counts_or_says_why_not():
    """A machine without a PMU, such as most virtual ones, has only its sentence."""
    pytest.importorskip("pypapi", reason="python_papi is not installed")

    try:
        plan, sentence = counters.choose("papi"), ""
    except SensorError as error:
        plan, sentence = None, str(error)

    if plan is None:
        assert re.fullmatch(r'PAPI has no PAPI_TOT_INS here: .+; use counters="auto"', sentence)
    else:
        assert [counter.column for counter in plan.counters][:2] == ["instructions", "cycles"]
