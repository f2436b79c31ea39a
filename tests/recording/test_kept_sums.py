"""A recording that keeps sums by task, process and span instead of samples."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import disk_helpers, programs
from support.finished_sessions import figures_of
from support.full_disk import short_files
from support.properties import examples
from support.pthreads import wait_until

import tprof
from tprof.errors import TraceError, UsageError
from tprof.live import Meter
from tprof.live.kept_sums import KeptSums
from tprof.trace import load_session
from tprof.trace.sums import DOMAIN_SUMS, TASK_SUMS, THREAD, Block, SumsFile, SumsReader

MS = 1_000_000
SPAN_S = 0.1
PROGRAM = """
import os, sys, time, tprof

@tprof.task
def step():
    end_s = time.thread_time() + 0.002
    while time.thread_time() < end_s: pass

with tprof.record(sys.argv[1], energy="estimate", counters="none", keep="summary", span_s=0.1):
    while True:
        step()
"""


@tprof.task
def step():
    sum(range(2000))


@tprof.task
def several(count):
    for _ in range(count):
        step()


def keep(path, **options):
    return tprof.record(path, energy="estimate", counters="none", keep="summary", span_s=SPAN_S, **options)


def spans_in(path):
    try:
        return sum(1 for _ in SumsReader(path).blocks())
    except TraceError:
        return 0


def begun_in(path):
    return sum(int(block.tasks["begun"].sum()) for block in SumsReader(path).blocks())


def files_in(path):
    return [one for place in ("threads", "readings", "graph") for one in (path / place).iterdir()]


def work_until(condition, longest_s=60.0):
    begin_s, calls = time.monotonic(), 0
    while not condition():
        assert time.monotonic() < begin_s + longest_s
        several(100)
        calls += 1
    return calls


@pytest.mark.parametrize("spans", [0, 3])
def test_sums_stay_and_samples_go(tmp_path, spans):
    path = tmp_path / "t.tprof"

    with keep(path) as recording:
        calls = 1
        several(100)
        calls += work_until(lambda: spans_in(path) >= spans)
    profile = recording.profile()

    summary, counted = profile.summary(), profile.accounts.iloc[0]
    assert summary["instances"].to_dict() == {"step": 100 * calls, "several": calls}
    assert counted["measured_j"] > 0
    assert counted[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum() == pytest.approx(counted["measured_j"])
    assert summary["energy_j"].sum() == pytest.approx(counted["tasks_j"])
    assert profile.kept.spans["energy_j"].sum() == pytest.approx(counted["tasks_j"])
    assert profile.kept.spans["instances"].sum() == profile.kept.spans["ended"].sum() == 101 * calls
    assert files_in(path) == []
    assert profile.info["complete"]
    assert profile.info["warnings"] == []


def test_sums_by_thread_say_which_thread_took_what(tmp_path):
    """Each has its instances, under its name, also if it ended; processes and threads have the same joules."""
    path = tmp_path / "t.tprof"
    with tprof.record(path, energy="estimate", counters="none", keep="threads", span_s=SPAN_S) as recording:
        for number in (1, 2):
            thread = threading.Thread(target=several, args=(100 * number,), name=f"worker-{number}")
            thread.start()
            thread.join()
        calls = work_until(lambda: spans_in(path) >= 2)
    profile = recording.profile()

    by_thread = profile.by("thread")
    names = {str(key).partition(" (")[0]: row["instances"] for key, row in by_thread.iterrows()}
    assert {name: names[name] for name in ("worker-1", "worker-2")} == {"worker-1": 101, "worker-2": 201}
    assert by_thread["instances"].sum() == 302 + 101 * calls
    assert by_thread["energy_j"].sum() == pytest.approx(profile.accounts["tasks_j"].sum())
    assert profile.by("process")["energy_j"].tolist() == pytest.approx([by_thread["energy_j"].sum()])
    assert set(profile.kept.spans["thread"]) == set(by_thread.index)


def test_sums_by_process_name_the_option_for_threads(tmp_path):
    with keep(tmp_path / "t.tprof") as recording:
        several(1)

    with pytest.raises(UsageError, match='keeps sums by process, got thread: record with keep="threads"'):
        recording.profile().by("thread")


def test_what_needs_instances_says_that_there_are_none(tmp_path):
    with keep(tmp_path / "t.tprof") as recording:
        several(1)
    profile = recording.profile()

    lacking = (
        lambda: profile.tasks, profile.scan_tasks, profile.flame, profile.waits, profile.critical_path,
        lambda: profile.energy_by_domain, lambda: recording.profile("fitted"),
    )  # fmt: skip
    assert not profile.has_instances
    for ask in lacking:
        with pytest.raises(UsageError, match="keeps sums"):
            ask()
    with pytest.raises(TraceError, match="this needs single instances"):
        load_session(recording.path)


def test_the_sums_of_a_recording_that_runs_are_those_of_its_samples(tmp_path):
    path, done = tmp_path / "t.tprof", threading.Event()

    def work():
        while not done.is_set():
            several(20)

    with tprof.record(path, energy="estimate", counters="none", attribute_native=False):
        kept = KeptSums(path, round(SPAN_S * 1e9), frees=False)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        begin_ns = kept.until_ns
        while kept.until_ns < begin_ns + 500 * MS:
            kept.step()
        done.set()
        for thread in threads:
            thread.join()
    kept.finish()

    profile = tprof.load(path).profile("cputime")
    blocks = list(SumsReader(path).blocks())
    tasks = np.concatenate([one.tasks for one in blocks])
    domains = np.concatenate([one.domains for one in blocks])
    expected = profile.accounts.iloc[0]
    assert int(tasks["begun"].sum()) == int(tasks["ended"].sum()) == len(profile.tasks)
    assert tasks["own_s"].sum() == pytest.approx(profile.own_s.sum(), rel=0.01)
    # The last reading may be after the end, and while it runs a thread's clock stands in for its next sample.
    assert domains["measured_j"].sum() == pytest.approx(expected["measured_j"], rel=0.1)
    assert tasks["energy_j"].sum() == pytest.approx(expected["tasks_j"], rel=0.1)


def test_threads_and_processes_that_come_and_go_are_counted_and_leave_no_files(tmp_path):
    path = tmp_path / "t.tprof"

    with keep(path) as recording:
        for _ in range(100):
            thread = threading.Thread(target=several, args=(3,))
            thread.start()
            thread.join()
        child = os.fork()
        if child == 0:
            several(10)
            os._exit(0)
        os.waitpid(child, 0)
        calls = work_until(lambda: len(list((path / "threads").iterdir())) < 10)

    found = recording.profile().summary()["instances"]
    assert found.to_dict() == {"step": 310 + 100 * calls, "several": 101 + calls}


def test_a_killed_program_leaves_its_sums(tmp_path):
    path = tmp_path / "t.tprof"
    program = subprocess.Popen([sys.executable, "-P", "-c", PROGRAM, path])
    try:
        wait_until(lambda: spans_in(path) >= 2 and begun_in(path) > 0)
    finally:
        program.kill()
        program.wait()

    profile = tprof.load(path).profile()

    assert not profile.info["complete"]
    assert any("did not end by itself" in text for text in profile.info["warnings"])
    assert profile.summary().loc["step", "instances"] > 0
    assert profile.accounts["tasks_j"].sum() > 0


HELD = """
import sys, tprof

@tprof.task
def step():
    sum(range(2000))

with tprof.record("t.tprof", energy="estimate", counters="none", keep="summary", span_s=60):
    for _ in range(500):
        step()
    print("ready", flush=True)
    sys.stdin.readline()
print("done")
"""


def test_what_no_keeper_kept_is_added_when_it_is_read(tmp_path):
    """The program and all that keep its sums are killed before the first span ends."""
    program = programs.start(tmp_path, HELD, stdin=-1)
    assert program.stdout.readline() == "ready\n"
    wait_until((tmp_path / "t.tprof/sums").exists)
    disk_helpers.kill_all(tmp_path / "t.tprof")
    program.kill()
    program.communicate()

    profiles = [tprof.load(tmp_path / "t.tprof").profile() for _ in range(2)]

    assert [one.summary()["instances"].to_dict() for one in profiles] == [{"step": 500}] * 2
    assert all("did not end by itself" in text for text in profiles[0].info["warnings"])
    assert files_in(tmp_path / "t.tprof") == []


def test_a_session_that_is_removed_meanwhile_does_not_disturb_the_program(tmp_path):
    program = programs.start(tmp_path, HELD, stdin=-1)
    assert program.stdout.readline() == "ready\n"
    shutil.rmtree(tmp_path / "t.tprof")

    said, error = program.communicate("\n", timeout=programs.DEADLINE_S)

    assert (program.returncode, said, error) == (0, "done\n", "")


@pytest.mark.parametrize("place", [0, 1])
def test_a_killed_keeper_is_replaced_while_the_recording_runs(tmp_path, place):
    """The guard and the worker are killed in turn: sums go on, nothing is lost, and one sentence says it."""
    path = tmp_path / "t.tprof"

    with keep(path) as recording:
        calls = work_until(lambda: spans_in(path) >= 2)
        disk_helpers.kill_one(path, place, of=2)
        before = spans_in(path)
        calls += work_until(lambda: spans_in(path) >= before + 2)
    profile = recording.profile()

    assert profile.summary()["instances"].to_dict() == {"step": 100 * calls, "several": calls}
    assert [text for text in profile.info["warnings"] if "was killed once" in text] == profile.info["warnings"]
    assert len(profile.info["warnings"]) == 1
    assert files_in(path) == []


def test_keepers_that_are_killed_at_once_are_replaced_at_the_end(tmp_path):
    path = tmp_path / "t.tprof"

    with keep(path) as recording:
        calls = work_until(lambda: spans_in(path) >= 2)
        disk_helpers.kill_all(path)
        for _ in range(20):
            several(100)
        calls += 20
    profile = recording.profile()

    assert profile.summary()["instances"].to_dict() == {"step": 100 * calls, "several": calls}
    assert len(profile.info["warnings"]) == 1
    assert files_in(path) == []


def test_the_live_figures_go_on_from_the_sums(tmp_path):
    path = tmp_path / "t.tprof"

    with keep(path) as recording:
        work_until(lambda: spans_in(path) >= 3 and begun_in(path))
        now = recording.energy()
        assert sum(task.instances for task in now.tasks.values()) >= begun_in(path) > 0
    ended = Meter(path).energy()

    profile = recording.profile()
    assert ended.tasks_j == pytest.approx(profile.accounts["tasks_j"].sum())
    assert ended.tasks["step"].instances == profile.summary().loc["step", "instances"]
    assert 0 < now.until_s <= ended.until_s


def blocks_of(count):
    rng = np.random.default_rng(count)
    found = []
    for number in range(count):
        tasks, domains = np.zeros(number % 3, TASK_SUMS), np.zeros(1, DOMAIN_SUMS)
        tasks["energy_j"], domains["measured_j"] = rng.random(len(tasks)), rng.random()
        found.append(Block(number, number + 1, tasks, domains, np.zeros(number % 2, THREAD)))
    return found


def written(session, count):
    file = SumsFile(session, 0, 1)
    for block in blocks_of(count):
        file.append(block)
    file.close()
    return file.path


def joules(blocks):
    return [block.domains["measured_j"].tolist() for block in blocks]


@examples(60)
@given(st.integers(1, 6), st.floats(0, 1), st.booleans())
def test_a_cut_or_damaged_file_has_the_other_blocks(tmp_path_factory, count, place, cut):
    session = tmp_path_factory.mktemp("sums")
    path = written(session, count)
    content = bytearray(path.read_bytes())
    at = 32 + int(place * (len(content) - 33))

    if cut:
        del content[at:]
    else:
        content[at] ^= 0xFF
    path.write_bytes(bytes(content))

    reader = SumsReader(session)
    found, whole = joules(reader.blocks()), joules(blocks_of(count))
    lost = [number for number, one in enumerate(whole) if one not in found]
    assert found == [one for one in whole if one in found]
    assert lost == list(range(len(found), count)) if cut else len(lost) == 1
    assert bool(reader.lost_ns) == (not cut and lost != [count - 1])
    file = SumsFile(session, 0, 1)
    file.append(Block(7, 8, np.zeros(0, TASK_SUMS), np.ones(1, DOMAIN_SUMS)))
    assert joules(SumsReader(session).blocks()) == [*found, [1.0]]


def test_damage_anywhere_in_the_sums_is_said_or_changes_no_figure(tmp_path):
    with keep(tmp_path / "t.tprof") as recording:
        work_until(lambda: spans_in(recording.path) >= 3)
    path, (right, before) = recording.path / "sums", figures_of(recording.path)
    content = path.read_bytes()
    damaged = [content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :] for at in range(0, len(content), 13)]

    for one in [*damaged, *(content[:at] for at in range(0, len(content), 41))]:
        path.write_bytes(one)

        found, said = figures_of(recording.path)

        assert found == right or said != before


def test_sums_of_tasks_whose_table_is_missing_are_said(tmp_path):
    with keep(tmp_path / "t.tprof") as recording:
        several(3)
    (recording.path / "tasks" / "00000000.jsonl").unlink()

    assert any("the table of tasks of process 0 is missing" in one for one in recording.profile().info["warnings"])


def test_a_full_disk_delays_blocks_and_loses_none(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none", attribute_native=False):
        kept = KeptSums(tmp_path / "t.tprof", 20 * MS)
        begin_ns = kept.until_ns
        with short_files((tmp_path / "t.tprof" / "sums").stat().st_size):
            while kept.problem is None:
                time.sleep(0.01)
                kept.step()
        assert kept.until_ns == begin_ns
        several(100)
    kept.finish()

    tasks = np.concatenate([one.tasks for one in SumsReader(tmp_path / "t.tprof").blocks()])
    assert kept.problem is None
    assert int(tasks["begun"].sum()) == 101


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": "some"}, "keep must be"),
        ({"keep": "summary", "span_s": 0}, "span_s must be from"),
        ({"keep": "summary", "stacks": True}, "stacks are of single moments"),
    ],
)
def test_options_that_cannot_be_met_are_refused(tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        tprof.record(tmp_path / "t.tprof", **options)


def test_the_commands_show_the_sums(tmp_path):
    path = tmp_path / "t.tprof"
    with keep(path):
        several(50)

    def run(*words):
        return subprocess.run(
            [sys.executable, "-P", "-m", "tprof", *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    plain = json.loads(run("summary", "t.tprof", "--json").stdout)
    assert {row["task"]: row["instances"] for row in plain["tasks"]} == {"step": 50, "several": 1}
    assert "only sums were kept" in run("summary", "t.tprof").stdout
    assert run("export", "t.tprof", "csv", "-o", "tables").returncode == 0
    assert {one.name for one in (tmp_path / "tables").iterdir()} == {
        "spans.csv", "summary.csv", "accounts.csv", "power.csv", "info.json",
    }  # fmt: skip
    assert run("report", "t.tprof", "-o", "t.html", "--plotly", "folder").returncode == 0
    assert "tasks-over-time" in (tmp_path / "t.html").read_text()
    for refused in (("export", "t.tprof", "perfetto"), ("compare", "t.tprof", "t.tprof")):
        done = run(*refused)
        assert done.returncode in (1, 2)
        assert done.stderr.count("\n") == 1
