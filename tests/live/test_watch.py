"""A recording as it is seen from outside while its program runs, and after it ended or was killed."""

import math
import os
import signal
import subprocess
import sys
import time

import pytest
from support import traces
from support.programs import start

import tprof
from tprof.errors import TraceError, UsageError
from tprof.live.snapshot import State
from tprof.live.watch import Watch, WatchedProcess, records_into, running_sessions, session_of

DEADLINE_S = 120
PROGRAM = """
import multiprocessing, sys, threading, time, tprof

@tprof.task
def spin(seconds):
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass

@tprof.task(name="wait")
def wait(event):
    event.wait()

def in_child(pipe):
    pipe.send("runs")
    pipe.recv()

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    event = threading.Event()
    with tprof.record(sys.argv[1], energy="estimate", counters="none"):
        child = multiprocessing.get_context("spawn").Process(target=in_child, args=(theirs,))
        child.start()
        ours.recv()
        waiter = threading.Thread(target=wait, args=(event,), name="waiter")
        waiter.start()
        spin(0.05)
        print(child.pid, flush=True)
        while not sys.stdin.readline():
            pass
        spin(0.05)
        event.set()
        waiter.join()
        ours.send("end")
        child.join()
"""


def begin(folder, name="t.tprof"):
    """Start the program; returns it when its child runs, and that one's number."""
    process = start(folder, PROGRAM, folder / name, stdin=subprocess.PIPE)
    line = process.stdout.readline()
    assert line.strip(), process.communicate()[1]
    return process, int(line)


def read_until(watch, is_there):
    """Read until the snapshot is as wanted."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_there(found := watch.read()):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A program that was watched while it ran; returns what was seen of it, and its session."""
    folder = tmp_path_factory.mktemp("watched")
    path = folder / "t.tprof"
    watch = Watch(path)
    before = watch.read()
    process, child = begin(folder)
    found = {
        "before": before,
        "sessions": [session_of(pid) for pid in (process.pid, child, os.getpid())],
        "all": running_sessions(),
        "maps": records_into(process.pid, path),
        "names": sorted(one.name for one in path.rglob("*")),
        "running": read_until(watch, lambda one: len(one.tasks) == 2 and not math.isnan(one.power_w)),
    }
    found["names after"] = sorted(one.name for one in path.rglob("*"))
    process.communicate("end\n", timeout=DEADLINE_S)
    found["ended"] = read_until(watch, lambda one: one.is_final)
    return found, path


def test_a_session_that_has_not_begun_is_awaited(seen):
    assert seen[0]["before"].state is State.WAITING


def test_tasks_threads_and_accounts_of_a_program_that_runs_are_seen(seen):
    running = seen[0]["running"]

    assert (running.state, running.quality, running.is_final) == (State.RUNNING, "estimated", False)
    assert {one.name: one.instances for one in running.tasks} == {"spin": 1, "wait": 1}
    assert {one.task for one in running.threads if one.name == "waiter"} == {"wait"}
    assert {one.task for one in running.threads if one.name == "MainThread"} == {None}
    assert sum(one.energy_j for one in running.accounts) == pytest.approx(running.energy_j)
    assert [(one.name, one.counted) for one in running.domains] == [("package-0", True)]
    assert running.hosts[0].processes == 2
    assert running.power_w > 0


def test_watching_adds_nothing_to_the_session(seen):
    assert seen[0]["names"] == seen[0]["names after"]


def test_a_session_is_found_by_its_process_a_child_and_an_ancestor(seen):
    found, path = seen

    assert found["sessions"] == [path] * 3
    assert path in found["all"]
    assert found["maps"]


def test_the_final_figures_are_those_of_the_profile_by_cpu_time(seen):
    found, path = seen
    profile = tprof.load(path).profile("cputime")

    ended = found["ended"]

    assert ended.state is State.ENDED
    assert ended.threads == ()
    energies_j = {one.name: one.energy_j for one in ended.tasks}
    assert energies_j == pytest.approx(profile.summary().energy_j.to_dict())
    assert ended.energy_j == pytest.approx(profile.accounts.measured_j.sum())


def test_a_killed_program_leaves_its_final_figures(tmp_path):
    process, child = begin(tmp_path)
    watch = WatchedProcess(process.pid)
    read_until(watch, lambda one: one.tasks)

    for pid in (process.pid, child):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)
    found = read_until(watch, lambda one: one.is_final)

    assert found.state is State.KILLED
    assert {one.name for one in found.tasks} == {"spin", "wait"}


def test_hosts_of_a_job_are_summed_by_task(tmp_path):
    (tmp_path / "job" / "hosts").mkdir(parents=True)
    paths = [traces.write(tmp_path / "job" / "hosts" / name) for name in ("node1", "node2")]
    alone = Watch(paths[0]).read()

    found = Watch(tmp_path / "job").read()

    assert [one.name for one in found.hosts] == ["node1", "node2"]
    assert {one.host for one in found.domains} == {"node1", "node2"}
    assert found.energy_j == pytest.approx(2 * alone.energy_j)
    assert [(one.name, one.energy_j) for one in found.tasks] == [
        (one.name, pytest.approx(2 * one.energy_j)) for one in alone.tasks
    ]
    assert found.is_final


def test_reading_in_short_steps_gives_the_same_joules(tmp_path):
    path = traces.write(tmp_path / "a.tprof")
    stepped = Watch(path)

    found = stepped.read(most_s=0.0)
    while not found.is_final:
        found = stepped.read(most_s=1e-6)

    whole = Watch(path).read()
    assert [one.energy_j for one in found.tasks] == pytest.approx([one.energy_j for one in whole.tasks])


def test_what_is_no_session_is_refused(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "photo.png").touch()

    with pytest.raises(TraceError, match="file is a file: give the directory of a session"):
        Watch(tmp_path / "file").read()
    with pytest.raises(TraceError, match=r"is no session \(it holds 'photo.png'\)"):
        Watch(tmp_path / "folder").read()


def test_a_process_without_a_session_is_refused():
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as idle:
        gone = idle.pid
        idle.communicate(b"\n")

    with pytest.raises(UsageError, match=f"there is no process {gone}"):
        session_of(gone)
