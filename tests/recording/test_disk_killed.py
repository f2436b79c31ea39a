"""Whatever is killed, the program or what looks after its disk: no committed sample is lost."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support import disk_helpers, programs
from support.segmented import size_of

import tprof
from tprof.session import guarded
from tprof.trace.kinds import Kind

HELPERS = ("guard", "worker", "compressor")
"""Each is the parent of the next."""
LIMIT = 16_000_000
PROGRAM = """
import sys
import tprof

@tprof.task
def work():
    return 1

with tprof.record("t.tprof", energy="estimate", max_size="16MB", compress=True):
    print("ready", flush=True)
    while True:
        work()
"""


def check(session):
    """Check that the samples are those of one call after the other, up to the last one that was committed."""
    trace = tprof.load(session)
    (thread,) = [one for one in trace.threads if one.stream.count > 10]
    samples = thread.stream.read(thread.dtype)
    started = samples["instance"][samples["kind"] == Kind.START].astype(np.int64)

    assert not [note for note in trace.notes if "cut" in note or "left out" in note]
    assert len(samples) == thread.stream.number("committed") - thread.stream.gone
    assert (np.diff(started) == 1).all()
    if trace.gone is not None and trace.gone.samples:
        assert samples["t_ns"][0] <= trace.gone.until_ns


def kill_once(folder, chance, what):
    """Let the program record for a while, and kill it or one of its helpers."""
    session = folder / "t.tprof"
    program = programs.start(folder, PROGRAM)
    try:
        assert program.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.05, 1.5))
        if what != "program":
            helpers = disk_helpers.pids_of(session)
            os.kill(helpers[min(HELPERS.index(what), len(helpers) - 1)], signal.SIGKILL)
            time.sleep(chance.uniform(0.0, 0.1))
    finally:
        program.kill()
        program.communicate()
    disk_helpers.await_end(session)
    check(session)


@pytest.mark.parametrize("what", ["program", *HELPERS])
def test_what_was_committed_stays_if_one_is_killed(tmp_path, what):
    kill_once(tmp_path, random.Random(3), what)  # noqa: S311 - a moment, no secret


@pytest.mark.thorough
def test_what_was_committed_stays_whenever_one_is_killed(tmp_path):
    chance = random.Random(11)  # noqa: S311 - the same moments in each run, as far as the machine lets them be
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        kill_once(folder, chance, ("program", *HELPERS)[number % 4])


@tprof.task
def work():
    return 1


@pytest.mark.parametrize("what", HELPERS)
def test_one_that_is_killed_is_replaced_while_the_recording_runs(tmp_path, what):
    """Its limit holds afterwards, no sample is lost, and one sentence says it unless only the compressor was killed."""
    session = tmp_path / "t.tprof"
    with tprof.record(session, energy="estimate", max_size=LIMIT, compress=True) as recording:
        work()
        disk_helpers.kill_one(session, HELPERS.index(what), of=3)
        for _ in range(400_000):
            work()

    trace = tprof.load(session)
    notes = [note for note in trace.notes if "was killed once, and another" in note]
    assert len(notes) == (what != "compressor")
    assert set(notes) <= set(recording.notes)
    assert size_of(session) < LIMIT
    check(session)


def test_if_all_are_killed_at_once_the_recording_goes_on_without_and_says_so(tmp_path):
    session = tmp_path / "t.tprof"
    with tprof.record(session, energy="estimate", max_size=LIMIT):
        work()
        disk_helpers.kill_all(session)
        for _ in range(200_000):
            work()

    trace = tprof.load(session)
    assert [note for note in trace.notes if "was killed" in note]
    assert sum(thread.stream.count for thread in trace.threads) >= 400_002
    check(session)


def test_a_worker_that_is_always_killed_is_given_up_at_last(tmp_path):
    lines = tmp_path / "lines"
    program = f"""
import os, signal
from tprof.session import guarded

def work(is_guarded):
    os.write(lines, b"begun\\n")
    os.kill(os.getpid(), signal.SIGKILL)

lines = os.open({os.fspath(lines)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
guarded.serve(os.open({os.fspath(tmp_path / "lock")!r}, os.O_RDWR | os.O_CREAT), work)
"""
    subprocess.run([sys.executable, "-P", "-c", program], check=True)

    assert lines.read_text().count("begun") == guarded.MOST_RESTARTS + 1
    assert (tmp_path / "lock").read_text().split() == [str(guarded.MOST_RESTARTS), "0"]
