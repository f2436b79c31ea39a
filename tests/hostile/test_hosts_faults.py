"""What goes wrong on one host of a job leaves the other hosts whole, and is named."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from support import traces
from support.hosts import fake_hosts
from support.pthreads import wait_until
from test_sessions_without_room import small

import tprof
from tprof.session import hosts
from tprof.trace.archive import Unpacker, pack
from tprof.trace.cluster import HostPart, load_job, write_hosts
from tprof.trace.merge import merge
from tprof.trace.running import is_running

WORKER = """
import sys, time
import tprof
from tprof.session import hosts

@tprof.task
def quick():
    pass

@tprof.task
def endless():
    print("in the task", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass

part = hosts.ensure(sys.argv[1], hosts.RecordingOptions(counters="none", idle_s=0, linger_s=0, members=2))
hosts.join(part, {"role": sys.argv[2]})
if sys.argv[2] == "endless":
    endless()
count = 0
print("begins", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        quick()
        count += 1
    print(count, flush=True)
hosts.leave()
"""


def worker(job, role, start=subprocess.Popen):
    words = () if start is not subprocess.Popen else ([sys.executable, "-c", WORKER, str(job), role],)
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    if not words:
        del options["text"]
        return start(WORKER, str(job), role, **options)
    return start(*words, **options)


def told(process, line):
    """Give a worker a number of tasks, and wait until it has run them."""
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline()


def ended(process):
    process.stdin.close()
    return process.wait(60)


def test_a_worker_that_is_killed_in_a_task_leaves_its_time_and_the_others_whole(tmp_path):
    job = tmp_path / "job.tprof"
    with fake_hosts(tmp_path, {"node1": 40.0}) as found:
        victim = worker(job, "endless", found["node1"].python)
        other = worker(job, "other", found["node1"].python)
        assert victim.stdout.readline() == "in the task\n"
        assert other.stdout.readline() == "begins\n"
        victim.kill()
        victim.wait(60)
        assert told(other, 1000) == "1000\n"
        # So long that a counter that is some milliseconds late does not matter.
        counter = found["node1"].tree.energy_of("intel-rapl:0")
        enough_uj = int(counter.read_text()) + 40_000_000
        wait_until(lambda: int(counter.read_text()) >= enough_uj)
        assert ended(other) == 0
        wait_until(lambda: not is_running(job / "hosts/node1"))

    profile = tprof.load(job).profile()
    counts = profile.tasks.groupby("label_role", observed=True)["task"].agg(lambda names: names.iloc[0]).to_dict()
    assert counts == {"endless": "endless", "other": "quick"}
    assert len(profile.tasks) == 1001
    assert load_job(job).hosts[0].load().complete
    assert profile.hosts.loc["node1", "power_w"] == pytest.approx(40.0, rel=0.02)


def test_a_worker_and_its_recorder_that_are_ended_together_leave_the_part_whole(tmp_path):
    """As a job manager ends a job: by a signal to each process of it."""
    job = tmp_path / "job.tprof"
    with fake_hosts(tmp_path, {"node1": 40.0}) as found:
        victim = worker(job, "endless", found["node1"].python)
        assert victim.stdout.readline() == "in the task\n"
        counter = found["node1"].tree.energy_of("intel-rapl:0")
        enough_uj = int(counter.read_text()) + 20_000_000
        wait_until(lambda: int(counter.read_text()) >= enough_uj)
        os.kill(json.loads((job / "hosts/node1/manifest.json").read_text())["pid"], signal.SIGTERM)
        victim.terminate()
        victim.wait(60)
        wait_until(lambda: not is_running(job / "hosts/node1"))

    profile = tprof.load(job).profile()
    assert profile.summary()["instances"].to_dict() == {"endless": 1}
    assert profile.hosts.loc["node1", "power_w"] == pytest.approx(40.0, rel=0.05)
    assert profile.hosts.loc["node1", "energy_j"] > 18


def test_an_end_before_what_was_recorded_is_not_believed(tmp_path):
    path = traces.write(tmp_path / "a.tprof")
    traces.set_json(path / "manifest.json", clock={"name": "CLOCK_MONOTONIC", "start_ns": 1})
    right = tprof.load(path).profile().measured_j

    traces.set_json(path / "end.json", end_ns=0)

    trace = tprof.load(path)
    assert trace.notes == ("end.json: 'end_ns' is before what was recorded, and left out: the last record is the end",)
    assert trace.profile().measured_j == right


def test_a_full_disk_on_one_host_stops_its_part_and_nothing_else(tmp_path):
    with small(tmp_path / "disk", "900k") as disk:
        full = worker(disk / "job.tprof", "full")
        assert full.stdout.readline() == "begins\n"
        other = worker(disk / "job.tprof", "other")
        assert other.stdout.readline() == "begins\n"
        assert told(full, 30_000) == "30000\n"
        assert ended(full) == ended(other) == 0
        part = hosts.part_of(disk / "job.tprof")
        wait_until(lambda: not is_running(part))
        shutil.copytree(part, tmp_path / "full.tprof")
    whole = traces.write(tmp_path / "whole.tprof", host={"hostname": "whole"})
    merge([tmp_path / "full.tprof", whole], tmp_path / "all.tprof")

    profile = tprof.load(tmp_path / "all.tprof").profile()
    assert any(f"{part.name}: " in text and "disk full" in text for text in profile.info["warnings"])
    assert profile.hosts.loc["whole", "energy_j"] == pytest.approx(25.0)
    assert profile.hosts.loc["whole", "missing"] is None


def test_a_full_disk_keeps_a_recorder_from_beginning_with_its_reason(tmp_path):
    with small(tmp_path / "disk", "30k") as disk, pytest.raises(tprof.TprofError, match="No space left"):
        hosts.ensure(disk / "job.tprof", hosts.RecordingOptions(energy="estimate"))


def test_an_archive_that_meets_a_full_disk_leaves_nothing(tmp_path):
    session = traces.write(tmp_path / "a.tprof")
    (session / "threads/00000000.samples").write_bytes(os.urandom(1 << 20))
    with small(tmp_path / "disk", "500k") as disk:
        with Unpacker(disk / "b.tprof") as unpacker, pytest.raises(tprof.TprofError, match="No space left"):
            unpacker.feed(b"".join(pack(session)))
        assert list(disk.iterdir()) == []


@pytest.fixture
def two(tmp_path):
    """A job of two written sessions with clocks."""
    for name in ("node1", "node2"):
        path = traces.write(tmp_path / f"{name}.tprof", host={"hostname": name})
        manifest = path / "manifest.json"
        clock = {"start_ns": 0, "wall_start_ns": 10**18, "boottime_start_ns": 5 * 10**9}
        traces.set_json(manifest, clock=json.loads(manifest.read_text())["clock"] | clock)
        end = path / "end.json"
        traces.set_json(end, clock={"wall_end_ns": 10**18 + 2 * 10**9, "boottime_end_ns": 7 * 10**9})
    merge([tmp_path / "node1.tprof", tmp_path / "node2.tprof"], tmp_path / "all.tprof")
    return tmp_path / "all.tprof"


def test_a_wall_clock_that_jumps_is_named_and_changes_no_joules(two):
    end = two / "hosts/node2/end.json"
    traces.set_json(end, clock={"wall_end_ns": 10**18 - 3598 * 10**9, "boottime_end_ns": 7 * 10**9})

    profile = tprof.load(two).profile()
    (warning,) = [text for text in profile.info["warnings"] if "wall clock" in text]
    assert warning.startswith("node2: the host's wall clock was set by -3.6e+03 s during the recording")
    assert warning.endswith("joules do not depend on it")
    assert profile.hosts["energy_j"].tolist() == pytest.approx([25.0, 25.0])


def test_a_machine_that_slept_has_not_set_its_clock(two):
    end = two / "hosts/node2/end.json"
    traces.set_json(end, clock={"wall_end_ns": 10**18 + 3602 * 10**9, "boottime_end_ns": 3607 * 10**9})

    assert not any("wall clock" in text for text in tprof.load(two).profile().info["warnings"])


def test_a_part_that_never_comes_home_is_named_and_the_rest_is_whole(two):
    found = load_job(two).hosts
    lost = HostPart("node3", None, None, "its node went down")
    write_hosts(two, [*found, lost], engine="ray", expected=["node1", "node2", "node3", "node4"])

    profile = tprof.load(two).profile()
    assert profile.info["missing"] == {
        "node3": "its node went down",
        "node4": "it was expected, and nothing came of it",
    }
    assert profile.hosts["energy_j"].dropna().tolist() == pytest.approx([25.0, 25.0])
    assert [text for text in profile.info["warnings"] if text.startswith("node")] == [
        "node3: its node went down", "node4: it was expected, and nothing came of it",
    ]  # fmt: skip


def test_a_part_that_came_home_in_part_is_read_and_named(two):
    content = b"".join(pack(two / "hosts/node2", chunk_bytes=256))
    with Unpacker(two / "hosts/node2-2") as unpacker:
        unpacker.feed(content[: len(content) * 9 // 10])
        missing = unpacker.close(keep_partial=True)
    shutil.rmtree(two / "hosts/node2")
    (two / "hosts/node2-2").rename(two / "hosts/node2")
    write_hosts(two, [HostPart("node2", two / "hosts/node2", None, missing)], engine="dask", expected=None)

    profile = tprof.load(two).profile()
    assert "the rest is missing" in profile.hosts.loc["node2", "missing"]
    assert profile.hosts.loc["node1", "energy_j"] == pytest.approx(25.0)


def test_of_a_recorder_that_was_killed_the_time_without_readings_is_named(tmp_path):
    path = traces.write(tmp_path / "a.tprof", energy={"package-0": ([0, 10**9], [0.0, 5.0])})
    (path / "end.json").unlink()

    trace = tprof.trace.load_session(path)
    assert "the sensors were read until 1 s before the last sample: what tasks drew after that is not resolved" in (
        trace.notes
    )
    assert trace.profile().tasks["energy_j"].isna().any()


def test_a_recorder_of_another_host_is_not_signalled(tmp_path):
    part = hosts.ensure(tmp_path / "job.tprof", hosts.RecordingOptions(energy="estimate", linger_s=0))
    manifest = json.loads((part / "manifest.json").read_text())
    traces.set_json(part / "manifest.json", boot_id="another machine")
    try:
        with pytest.raises(tprof.TprofError, match="is recorded on another host"):
            hosts.stop(part)
        assert is_running(part)
    finally:
        os.kill(manifest["pid"], signal.SIGTERM)
        wait_until(lambda: not is_running(part))


@pytest.mark.thorough
def test_more_processes_than_the_page_lists_are_awaited(tmp_path):
    program = """
import os, sys, time
import tprof
from tprof.session import hosts

part = hosts.ensure(sys.argv[1], hosts.RecordingOptions(energy="estimate", counters="none", linger_s=0))
hosts.join(part)
for _ in range(1100):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
last = os.fork()
if not last:
    hosts_left = sys.stdin.readline()
    with tprof.region("late"):
        pass
    os._exit(0)
hosts.leave()
print(part, flush=True)
os._exit(0)
"""
    started = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "job.tprof")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    part = hosts.Path(started.stdout.readline().strip())
    assert started.wait(60) == 0
    assert is_running(part)
    started.stdin.write("\n")
    started.stdin.close()
    wait_until(lambda: not is_running(part))
    assert tprof.trace.load_session(part).complete
