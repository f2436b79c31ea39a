"""A program may close every descriptor, as daemons do: what then gets their numbers is its own."""

import pytest
from support import programs
from support.recorded import instances

import tprof

DAEMON = """
import os, sys, threading
import tprof

@tprof.task
def work():
    return 1

def close_and_open():
    os.closerange(3, 1024)
    files = [open(f"{os.getpid()}-{number}.log", "w+b", buffering=0) for number in range(60)]
    for file in files:
        file.write(bytes(range(256)))
        file.seek(0)
    return files

def record_more():
    for number in range(20):
        with tprof.region(f"late {number}"):
            work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

def check(files):
    for file in files:
        assert os.fstat(file.fileno()).st_size == 256, "something was written to it"
        assert file.tell() == 0, "something was read from it"
        assert os.pread(file.fileno(), 256, 0) == bytes(range(256))

def run():
    work()
    files = close_and_open()
    record_more()
    check(files)
    child = os.fork()
    if child == 0:
        check(files)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check(files)
    return files

with tprof.record("t.tprof", energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    work()
    child = os.fork() if sys.argv[1] == "child" else 0
    files = run() if child == 0 else None
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == 0, status
check(files or [])
print("whole")
"""


@pytest.mark.parametrize("who", ["child", "parent"])
def test_a_program_that_closes_all_descriptors_keeps_its_own_files(tmp_path, who):
    done = programs.run(tmp_path, DAEMON, who)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "whole"
    trace = tprof.load(tmp_path / "t.tprof")
    counts = instances(trace)
    assert {name: count for name, count in counts.items() if name != "work"} == {f"late {n}": 1 for n in range(20)}
    assert counts["work"] == 23


EXHAUSTED = """
import os, threading
import tprof

@tprof.task
def work():
    return 1

def exhaust():
    taken = []
    try:
        while True: taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return taken

import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with tprof.record("t.tprof", energy="estimate", counters="none"):
    work()
    taken = exhaust()
    with tprof.region("without descriptors"):
        work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    for _ in range(2000):
        work()
for fd in taken: os.close(fd)
"""


def test_a_program_that_uses_up_all_descriptors_runs_on_and_what_is_lost_is_said(tmp_path):
    done = programs.run(tmp_path, EXHAUSTED)

    assert done.returncode == 0, done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert instances(trace)["without descriptors"] == 1
    assert any("1 thread is not recorded: no file descriptor was left" in note for note in trace.notes), trace.notes
    assert any("samples could not be written" in note for note in trace.notes), trace.notes
