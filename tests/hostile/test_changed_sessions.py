"""What others do to a session while it is recorded harms neither the program nor anybody's files."""

import signal

import numpy as np
import pytest
from support import programs
from support.recorded import instances

import tprof
from tprof.trace import layout

PROGRAM = """
import os, shutil, sys, threading
import tprof

@tprof.task
def work():
    return 1

def wait_for_a_word():
    print("ready", flush=True)
    assert sys.stdin.readline() == "go\\n"

def thread():
    one = threading.Thread(target=work)
    one.start()
    one.join()

with tprof.record("place/t.tprof", energy="estimate", counters="none") as recording:
    for _ in range(2000):
        work()
    thread()
    wait_for_a_word()
    for _ in range(2000):
        work()
    thread()
    with tprof.region("late"):
        work()
print("done", [note for note in recording.notes if "ESTIMATE" not in note])
"""


def play(tmp_path, change):
    """Run the program; in its middle, change its session. Returns what it says at its end."""
    (tmp_path / "place").mkdir(mode=0o777)
    program = programs.start(tmp_path, PROGRAM, stdin=-1)
    assert program.stdout.readline() == "ready\n"
    change(tmp_path / "place" / "t.tprof")
    said, error = program.communicate("go\n", timeout=programs.DEADLINE_S)
    return program.returncode, said, error


def assert_runs_on(outcome):
    status, said, error = outcome
    assert (status, error) == (0, "")
    assert said.startswith("done")
    return said


def test_a_body_that_is_cut_costs_only_what_was_cut(tmp_path):
    def cut(session):
        for path in (session / "threads").iterdir():
            (header,) = np.fromfile(path, layout.HEADER, 1)
            with path.open("r+b") as file:
                file.truncate(layout.HEADER_BYTES + int(header["window_bytes"]))

    assert_runs_on(play(tmp_path, cut))

    trace = tprof.load(tmp_path / "place" / "t.tprof")
    assert trace.complete
    assert instances(trace)["late"] == 1


def test_a_mapped_part_that_is_cut_ends_the_program_at_worst_by_the_documented_signal(tmp_path):
    def cut(session):
        for path in (session / "threads").iterdir():
            with path.open("r+b") as file:
                file.truncate(0)

    status, _, _ = play(tmp_path, cut)

    assert status in (0, -signal.SIGBUS)
    assert not tprof.load(tmp_path / "place" / "t.tprof").complete


@pytest.mark.parametrize("part", ["threads", "tasks", "readings", "manifest.json", "live", "."])
def test_a_part_of_the_session_that_is_moved_away_does_not_disturb_the_program(tmp_path, part):
    def move(session):
        (session / part).resolve().rename(tmp_path / "moved")

    said = assert_runs_on(play(tmp_path, move))

    if part == ".":
        assert "is no longer the session that was begun there: its end is not written" in said
        trace = tprof.load(tmp_path / "moved")
        assert not trace.complete
        main = trace.threads[0]
        assert main.count + main.dropped["io"] == 1 + 2 * 4002, "what is not there was counted"


@pytest.mark.parametrize("way", ["directory", "link"])
def test_a_directory_put_in_the_place_of_the_session_gets_nothing(tmp_path, way):
    other = tmp_path / "other"

    def swap(session):
        session.rename(tmp_path / "moved")
        for name in ("threads", "tasks", "readings"):
            (other / name).mkdir(parents=True)
        (other / "live").write_text("somebody's")
        if way == "link":
            session.symlink_to(other)
        else:
            other.rename(session)

    said = assert_runs_on(play(tmp_path, swap))

    swapped = tmp_path / "place" / "t.tprof"
    assert "is no longer the session" in said
    assert sorted(path.name for path in swapped.rglob("*")) == ["live", "readings", "tasks", "threads"]
    assert (swapped / "live").read_text() == "somebody's"


def test_directories_swapped_for_links_get_nothing(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def swap(session):
        for name in ("threads", "tasks", "readings"):
            (session / name).rename(tmp_path / name)
            (session / name).symlink_to(elsewhere)

    assert_runs_on(play(tmp_path, swap))

    assert list(elsewhere.iterdir()) == []


def test_files_swapped_for_links_to_others_get_nothing(tmp_path):
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep")

    def swap(session):
        for number, path in enumerate(sorted((session / "threads").iterdir())):
            path.unlink()
            if number % 2:
                path.symlink_to(precious)
            else:
                path.hardlink_to(precious)
        (session / "threads" / "00000002.samples").symlink_to(precious)
        (session / "end.tmp").symlink_to(precious)
        (session / "end.json").symlink_to(precious)

    assert_runs_on(play(tmp_path, swap))

    assert precious.read_bytes() == b"keep"


@pytest.mark.parametrize("plant", ["symlink_to", "hardlink_to"])
def test_links_planted_in_a_session_that_is_overwritten_are_removed_not_followed(tmp_path, plant):
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep")
    with tprof.record(tmp_path / "t.tprof", energy="estimate"):
        pass
    planted = tmp_path / "t.tprof" / "threads" / "00000007.samples"
    getattr(planted, plant)(precious)

    with tprof.record(tmp_path / "t.tprof", energy="estimate", overwrite=True):
        pass

    assert precious.read_bytes() == b"keep"
    assert not planted.exists()
