"""Recordings without a path: kept until the process ends, or under a name."""

import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from support import programs

import tprof

UNNAMED = """
import os, sys, tprof

def work():
    with tprof.record(energy="estimate", counters="none") as recording:
        with tprof.region("sum"):
            sum(range(1000))
    return recording

recording = work()
print(recording.path, len(recording.profile().tasks), flush=True)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Give a folder for temporary files, for this process and its children."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def record():
    with tprof.record(energy="none", counters="none") as recording, tprof.region("block"):
        pass
    return recording


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise ValueError", "os.fork() or sys.exit(); os.wait()"])
def test_a_session_goes_with_its_process(tmp_path, temporary, end):
    check = "\nassert os.path.isdir(recording.path)"
    ended = programs.run(tmp_path, f"{UNNAMED}{end}{check if 'fork' in end else ''}")

    path, count = ended.stdout.split()[:2]
    assert Path(path).is_relative_to(temporary)
    assert count == "1"
    assert "AssertionError" not in ended.stderr
    assert list(temporary.iterdir()) == []


def test_nobody_else_can_read_it(temporary):
    recording = record()

    (place,) = temporary.iterdir()
    assert stat.S_IMODE(place.stat().st_mode) == stat.S_IMODE(recording.path.stat().st_mode) == 0o700


@pytest.mark.usefixtures("temporary")
def test_what_a_killed_process_left_goes_with_the_next_recording(tmp_path):
    killed = programs.start(tmp_path, f"{UNNAMED}sys.stdin.read()", stdin=subprocess.PIPE)
    path = Path(killed.stdout.readline().split()[0])
    record()
    assert path.exists()  # it runs

    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=programs.DEADLINE_S)
    assert path.exists()
    record()

    assert not path.exists()


def test_a_saved_session_is_whole_and_stays(tmp_path, temporary):
    recording = record()
    before, profile = recording.path, recording.profile()

    recording.save(tmp_path / "kept.tprof")

    assert recording.path == tmp_path / "kept.tprof"
    assert {one.name for one in recording.path.iterdir()} == {one.name for one in before.iterdir()}
    assert stat.S_IMODE(recording.path.stat().st_mode) == 0o700
    assert len(recording.profile().tasks) == len(profile.tasks) == 1
    assert len(profile.energy_by_domain) > 0  # read from where the session was
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept.tprof", temporary.name]


def test_saving_replaces_nothing_unless_asked(tmp_path, temporary):
    del temporary
    recording, other = record(), record()
    other.save(tmp_path / "kept.tprof")

    with pytest.raises(tprof.UsageError, match=r"kept\.tprof exists"):
        recording.save(tmp_path / "kept.tprof")
    recording.save(tmp_path / "kept.tprof", overwrite=True)
    with pytest.raises(tprof.TprofError, match=r"cannot .* .*/none/a\.tprof: No such file or directory"):
        recording.save(tmp_path / "none" / "a.tprof")

    assert len(tprof.load(tmp_path / "kept.tprof").threads) == 1


def test_a_running_recording_cannot_be_saved(tmp_path, temporary):
    del temporary
    with (
        tprof.record(energy="none", counters="none") as recording,
        pytest.raises(tprof.UsageError, match="still runs: save it after the with-block"),
    ):
        recording.save(tmp_path / "a.tprof")


@pytest.mark.usefixtures("temporary")
def test_many_of_them_hold_one_descriptor_together():
    record()
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = [record() for _ in range(5)]

    assert len({recording.path for recording in kept}) == 5
    assert len(list(Path("/proc/self/fd").iterdir())) == before
