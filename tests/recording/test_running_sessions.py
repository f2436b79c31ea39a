"""A session in which a recording runs is neither overwritten nor called killed."""

import os
import warnings

import pytest
from support import programs

import tprof
from tprof.trace.running import Lock, is_running

ENDLESS = """
import sys, time
import tprof

@tprof.task
def work():
    return 1

with tprof.record("t.tprof", energy="estimate", counters="none"):
    work()
    print("running", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def running(tmp_path):
    program = programs.start(tmp_path, ENDLESS)
    assert program.stdout.readline() == "running\n"
    yield tmp_path / "t.tprof"
    program.kill()
    program.communicate()


def test_a_running_session_is_not_overwritten(running):
    with pytest.raises(tprof.UsageError, match=r"a recording runs in .*t.tprof: end it first"):  # noqa: SIM117
        with tprof.record(running, energy="estimate", overwrite=True):
            pass

    assert (running / "manifest.json").exists()


def test_a_running_session_says_so_and_a_killed_one_that_it_did_not_end(tmp_path):
    program = programs.start(tmp_path, ENDLESS)
    program.stdout.readline()
    while_running = tprof.load(tmp_path / "t.tprof").notes
    program.kill()
    program.communicate()

    assert any("the recording still runs" in note for note in while_running)
    assert any("did not end by itself" in note for note in tprof.load(tmp_path / "t.tprof").notes)


def test_a_recorded_program_does_not_get_numpy_unless_it_asks(tmp_path):
    source = (
        "import sys, tprof\n"
        "with tprof.record('t.tprof', energy='estimate'):\n"
        "    pass\n"
        "print([name for name in ('numpy', 'pandas', 'rich') if name in sys.modules])\n"
    )

    assert programs.run(tmp_path, source).stdout == "[]\n"


def test_a_released_lock_is_released_in_forked_children_too(tmp_path):
    (tmp_path / "live").write_bytes(b"")
    lock = Lock(tmp_path)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
        child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    assert is_running(tmp_path)

    lock.release()

    assert not is_running(tmp_path)
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)
