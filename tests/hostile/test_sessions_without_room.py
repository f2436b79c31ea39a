"""Where there is no room for a session, it is said before the program runs, or counted while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import programs
from support.recorded import instances

import tprof

if TYPE_CHECKING:
    from collections.abc import Iterator


# As root permissions do not apply, unless the program gives up the right to override them.
WITHOUT_CAPABILITIES = """
import ctypes
header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert ctypes.CDLL(None).capset(header, nothing) == 0
"""


@contextlib.contextmanager
def small(place: Path, size: str) -> Iterator[Path]:
    """Mount a file system of this size there; skips the test where that is not allowed."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


RUN = (
    WITHOUT_CAPABILITIES
    + """
import runpy, sys
sys.argv[0] = COMMAND
runpy.run_path(COMMAND, run_name="__main__")
"""
)
COMMAND = str(Path(sysconfig.get_path("scripts")) / "tprof")


def run(tmp_path, session, *options):
    (tmp_path / "prog.py").write_text("print('the program ran')\n")
    words = ["run", "--energy", "estimate", *options, "-o", str(session), str(tmp_path / "prog.py")]
    return programs.run(tmp_path, f"COMMAND = {COMMAND!r}\n{RUN}", *words)


def places(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    (tmp_path / "file").write_text("")
    return {
        "closed": (closed / "t.tprof", "Permission denied"),
        "missing": (tmp_path / "missing" / "t.tprof", "No such file or directory"),
        "file": (tmp_path / "file" / "t.tprof", "Not a directory"),
        "long": (tmp_path / ("t" * 300), "File name too long"),
    }


@pytest.mark.parametrize("where", ["closed", "missing", "file", "long"])
def test_a_session_that_cannot_be_made_is_one_sentence_before_the_program_runs(tmp_path, where):
    session, why = places(tmp_path)[where]

    done = run(tmp_path, session)

    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"cannot make the session {session}: {why}; choose another place with -o SESSION" in done.stderr


def test_with_best_effort_a_session_that_cannot_be_made_lets_the_program_run(tmp_path):
    session, why = places(tmp_path)["closed"]

    done = run(tmp_path, session, "--best-effort")

    assert (done.returncode, done.stdout) == (0, "the program ran\n")
    assert why in done.stderr


@pytest.mark.parametrize("size", ["4k", "16k", "32k"])
def test_a_disk_too_small_for_a_session_is_refused_and_nothing_stays_behind(tmp_path, size):
    with small(tmp_path / "disk", size) as disk:
        done = run(tmp_path, disk / "t.tprof")

        assert (done.returncode, done.stdout) == (1, "")
        assert len(done.stderr.splitlines()) == 1
        assert "No space left on device; choose another place with -o SESSION" in done.stderr
        assert os.listdir(disk) == []  # noqa: PTH208 - names only


FULL = """
import os, threading
import tprof

@tprof.task
def work(n):
    return n * n

def fill(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(fd, bytes(4096)): pass
    except OSError:
        pass
    os.close(fd)

with tprof.record("disk/t.tprof", energy="estimate", counters="none"):
    total = work(1)
    fill("disk/ballast")
    for number in range(50):
        with tprof.region(f"while full {number}"):
            total += work(number)
    thread = threading.Thread(target=work, args=(1,))
    thread.start()
    thread.join()
    os.unlink("disk/ballast")
    for number in range(5):
        with tprof.region(f"after {number}"):
            total += work(number)
print(total)
"""


def test_a_disk_that_is_full_for_a_while_loses_what_came_then_and_says_so(tmp_path):
    with small(tmp_path / "disk", "1m"):
        done = programs.run(tmp_path, FULL)

        assert (done.returncode, done.stdout) == (0, f"{1 + sum(n * n for n in range(50)) + 30}\n"), done.stderr
        trace = tprof.load(tmp_path / "disk" / "t.tprof")
        assert trace.complete
        ended = json.loads((tmp_path / "disk" / "t.tprof" / "end.json").read_text())
        assert ended["lost_threads"] == 1
        assert ended["dropped"]["enospc"] > 0
        assert ended["lost_definitions"] > 0
        assert any("1 thread is not recorded" in note for note in trace.notes), trace.notes
        counts = instances(trace)
        assert counts["work"] == 1 + 50 + 5, "the window of a file that exists needs no room"
        assert all(counts[f"after {number}"] == 1 for number in range(5))
        assert sum(name.startswith("<lost name #") for name in counts) == ended["lost_definitions"]


KEPT = """
import os, sys
import tprof
from pathlib import Path

@tprof.task
def work():
    sum(range(50_000))  # its samples leave room until sums are kept

def fill(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(fd, bytes(4096)): pass
    except OSError:
        pass
    os.close(fd)

def written():
    return Path("disk/t.tprof/sums").stat().st_size if Path("disk/t.tprof/sums").exists() else 0

with tprof.record("disk/t.tprof", energy="estimate", counters="none", keep="summary", span_s=0.1) as recording:
    count = 100
    # Until the last page of the sums has no room for a block, and the samples' window, which grows no more, has room
    # for all that follow.
    while sys.argv[1] == "late" and (count < 1700 or written() % 4096 < 3900 or (count - 100) % 1536 > 1400):
        work()
        count += 1
    fill("disk/ballast")
    for _ in range(100):
        work()
print(count)
print(*recording.notes)
"""


@pytest.mark.parametrize("when", ["early", "late"])
def test_sums_for_which_a_disk_has_no_room_stay_as_samples_and_are_added_later(tmp_path, when):
    with small(tmp_path / "disk", "1m") as disk:
        done = programs.run(tmp_path, KEPT, when)
        (disk / "ballast").unlink()

        count, notes = done.stdout.splitlines()
        assert (done.returncode, done.stderr) == (0, "")
        assert "No space left on device" in notes
        assert f"{disk / 't.tprof'}" in notes
        summary = tprof.load(disk / "t.tprof").profile().summary()
        assert summary["instances"].to_dict() == {"work": int(count)}


FILLS = """
import os
ballast = os.open("disk/ballast", os.O_WRONLY | os.O_CREAT)
try:
    while os.write(ballast, bytes(4096)): pass
except OSError:
    print("full")
"""


@pytest.mark.parametrize("options", [[], ["--keep", "summary", "--span", "0.1"]], ids=["samples", "sums"])
def test_tprof_run_says_at_the_end_what_a_full_disk_had_no_room_for(tmp_path, options):
    (tmp_path / "prog.py").write_text(FILLS)
    with small(tmp_path / "disk", "1m"):
        command = [COMMAND, "run", "--energy", "estimate", "--no-summary", *options, "-o", "disk/t.tprof", "prog.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)

        notes = tprof.load(tmp_path / "disk" / "t.tprof").notes

    assert (done.returncode, done.stdout) == (0, "full\n")
    assert "tprof: the end of" in done.stderr
    assert "could not be written (No space left on device): it reads as incomplete" in done.stderr
    assert any(text.startswith("incomplete: ") for text in notes)
