"""A process that outlives a recording changes nothing of it by what it does later."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import programs, pthreads, traces
from support.streamed_profiles import streamed

import tprof
from tprof.live import Meter
from tprof.live.threads import OUTSIDE
from tprof.session.ending import COMMITTED, LENGTHS
from tprof.trace import EventKind, layout
from tprof.trace.compress import compress
from tprof.trace.keys import read_keys
from tprof.trace.kinds import StreamKind
from tprof.trace.stream import open_stream

PROGRAM = """
import ctypes, subprocess, sys, threading, time
from pathlib import Path
import pytest
import tprof
from tprof import _core
from tprof.cuda import marks
from tprof.session.process_state import this_process
sys.path.insert(0, "TESTS")
from support.fake_cuda import FakeDevice, FakeTorch

marks.FLUSH_NS = 0  # segments are written with the next mark after they are known

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
def note(torch, key, needs, **labels):
    this_process.membership.note_key(_core.running()[0], key, needs)
    tprof.label(**labels)
    with tprof.gpu():
        torch.launch(0.002)

@tprof.task
def serve(library):
    torch = FakeTorch(FakeDevice(), pytest.MonkeyPatch())
    for key in "ab":
        note(torch, key, [], role="helper")
        burn(0.01)
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
    note(torch, "later", ["a"], role="later", more="later")
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
    body = PROGRAM.replace("OPTIONS", option).replace("TESTS", str(Path(__file__).parents[1]))
    program = programs.start(folder, body, str(library_path), stdin=subprocess.PIPE)
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
    parts = ["tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]
    np.testing.assert_allclose(accounts[parts].sum(axis=1), accounts["measured_j"], rtol=1e-9)


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


def test_records_of_native_threads_that_were_written_after_the_end_are_left_out(recorded):
    first, second = ({one.process: one.count for one in tprof.load(path).native} for path in recorded)
    there = {int(path.stem): open_stream(path, StreamKind.NATIVE).count for path in (recorded[1] / "native").iterdir()}

    assert second == first
    assert second[0] == there[0]
    assert second[1] < there[1]
    assert layout.HEADER.fields["committed"][1] == COMMITTED.start


def lines_of(session, folder):
    return (session / folder / "00000001.jsonl").read_text().splitlines()


def test_labels_keys_and_work_on_gpus_that_were_written_after_the_end_are_left_out(recorded):
    first, second = (tprof.load(path) for path in recorded)

    for folder in ("labels", "keys", "gpu"):
        assert 0 < len(lines_of(recorded[0], folder)) < len(lines_of(recorded[1], folder))
    assert first.labels == second.labels == {1: {"role": "helper"}}
    assert [key for _, key, _ in read_keys(second.key_files, [])] == ["a", "b"]
    for before, after in zip(first.gpu.segments, second.gpu.segments, strict=True):
        assert before.begin_ns.tolist() == after.begin_ns.tolist()
    written = [one["segments"] for one in map(json.loads, lines_of(recorded[1], "gpu")) if "segments" in one]
    began_ns = [segment[0] for segments in written for segment in segments]
    assert sum(begin_ns <= second.end_ns for begin_ns in began_ns) > len(second.gpu.segments[0].begin_ns)


def test_files_that_a_process_made_after_the_end_are_left_out(recorded):
    path = traces.copy(recorded[1], recorded[1].with_suffix(".none"))
    end = json.loads((path / "end.json").read_text())
    none = {name: 0 for name in LENGTHS.values() if name != "table_bytes"}
    traces.set_json(path / "end.json", processes=[{**one, **none} for one in end["processes"]])

    trace = tprof.load(path)

    assert (trace.labels, trace.key_files, trace.gpu.segments) == ({}, (), ())
    assert "key" not in trace.profile().tasks


def test_an_end_of_an_earlier_version_leaves_out_what_has_a_later_time(recorded):
    path = traces.copy(recorded[1], recorded[1].with_suffix(".earlier"))
    end = json.loads((path / "end.json").read_text())
    kept = ("process", "pid", "cpu_ns", "ended_ns", "table_bytes", "native_records")
    processes = [{name: one[name] for name in kept if name in one} for one in end["processes"]]
    traces.set_json(path / "end.json", processes=processes)

    trace = tprof.load(path)

    assert trace.labels == {1: {"role": "later", "more": "later"}}
    assert max(trace.gpu.segments[0].begin_ns) <= trace.end_ns


def test_followed_figures_are_those_of_the_profile(recorded):
    energies = [Meter(path, process=OUTSIDE).energy() for path in recorded]
    known = tprof.load(recorded[0]).profile().summary()

    assert energies[0] == energies[1]
    assert {name: (one.instances, one.energy_j) for name, one in energies[1].tasks.items()} == {
        name: (row["instances"], pytest.approx(row["energy_j"])) for name, row in known.iterrows()
    }


def test_figures_of_compressed_records_are_those_of_the_end(recorded):
    packed = traces.copy(recorded[1], recorded[1].with_suffix(".packed"))
    compress(packed)

    assert_same(tprof.load(recorded[0]).profile(), tprof.load(packed).profile())


def test_figures_of_a_recording_in_segments_are_those_of_the_end(tmp_path, library_path):
    first, second = record(tmp_path, library_path, "compress")

    assert_same(tprof.load(first).profile(), tprof.load(second).profile())


@pytest.fixture
def written(tmp_path):
    """Return a trace of a process that recorded on, whose end is in the middle of what it wrote."""
    events = {
        "t_ns": [1, traces.SECOND_NS + 1], "kind": [EventKind.BEGIN, EventKind.END], "instance": [0, 0],
        "other": [0, 0], "task": [-1, -1], "worker": [0, 0],
    }  # fmt: skip
    threads = [dict(traces.THREADS[0], events=events), traces.THREADS[1]]
    path = traces.write(tmp_path / "t.tprof", threads=threads)
    (path / "decisions").mkdir()
    lines = [{"t_ns": t_ns, "kind": "workers", "policy": "test", "workers": 1} for t_ns in (1, traces.SECOND_NS + 1)]
    (path / "decisions" / "00000000.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    running = [{"process": 0, "pid": 1, "cpu_ns": 1, "ended_ns": None}]
    traces.set_json(path / "end.json", end_ns=traces.SECOND_NS, processes=running)
    return path


def test_samples_events_and_decisions_after_the_end_are_left_out(written):
    trace = tprof.load(written)

    assert [(one.count, one.end_ns, one.end_columns) for one in trace.threads] == [(3, None, {}), (1, None, {})]
    assert [one.count for one in trace.events] == [1]
    assert [one.t_ns for one in trace.decisions] == [1]


def test_what_could_not_be_written_after_the_end_is_no_loss(written):
    traces.set_header(traces.samples_of(written), dropped_enospc=3, first_drop_ns=traces.SECOND_NS + 1)
    assert not any("could not be written" in note for note in tprof.load(written).notes)

    traces.set_header(traces.samples_of(written), dropped_enospc=3, first_drop_ns=traces.SECOND_NS)
    assert any("3 samples could not be written" in note for note in tprof.load(written).notes)


def test_all_of_a_process_that_had_left_is_kept(written):
    left = [{"process": 0, "pid": 1, "cpu_ns": 1, "ended_ns": 2 * traces.SECOND_NS}]
    traces.set_json(written / "end.json", processes=left)
    trace = tprof.load(written)

    assert [one.count for one in trace.threads] == [4, 2]
    assert [one.count for one in trace.events] == [2]
    assert len(trace.decisions) == 2
