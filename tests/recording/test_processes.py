"""Child processes join the recording, however they come to be."""

import os

import pytest
from support import programs
from support.recorded import instances

import tprof

POOL = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import tprof

@tprof.task
def square(x):
    return x * x

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    with tprof.record(sys.argv[1], energy="estimate", counters="none"):
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            print(sum(pool.map(square, range(40))))
        square(1)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_process_pools_join(tmp_path, method):
    done = programs.run(tmp_path, POOL, "t.tprof", method)

    assert (done.returncode, done.stdout, done.stderr) == (0, "20540\n", "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert instances(trace) == {"square": 41}
    assert len({thread.pid for thread in trace.threads}) >= 2


FORK_IN_TASK = """
import os, sys
import tprof

@tprof.task
def inner(n):
    return sum(range(n))

@tprof.task
def outer(end):
    inner(10)
    child = os.fork()
    inner(20)
    if child == 0:
        inner(30)
        end()
    os.waitpid(child, 0)

with tprof.record(sys.argv[1], energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    ways = {"exit": sys.exit, "os._exit": lambda: os._exit(0), "exec": lambda: os.execv("/bin/true", ["true"])}
    outer(ways[sys.argv[2]])
"""


@pytest.mark.parametrize("end", ["exit", "os._exit", "exec"])
def test_a_fork_inside_a_task_writes_two_files(tmp_path, end):
    done = programs.run(tmp_path, FORK_IN_TASK, "t.tprof", end)

    assert (done.returncode, done.stderr) == (0, "")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    counts = sorted(
        [trace.tasks[task].name for task in samples["task"][samples["kind"] == 1]]
        for samples in (thread.read() for thread in trace.threads)
    )
    assert counts == [["inner", "inner"], ["outer", "inner", "inner"]]


FORK_WITH_THREADS = """
import os, sys, threading
import tprof

@tprof.task
def spin():
    return sum(range(50))

def loop():
    while not stop:
        spin()

stop = False
with tprof.record(sys.argv[1], energy="estimate", counters="page_faults,context_switches,cpu_migrations"):
    threads = [threading.Thread(target=loop) for _ in range(8)]
    for thread in threads: thread.start()
    for _ in range(int(sys.argv[2])):
        child = os.fork()
        if child == 0:
            spin()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    stop = True
    for thread in threads: thread.join()
print("done")
"""


@pytest.mark.parametrize("forks", [25, pytest.param(100, marks=pytest.mark.thorough)])
def test_forks_while_eight_threads_record_never_hang(tmp_path, forks):
    done = programs.run(tmp_path, FORK_WITH_THREADS, "t.tprof", str(forks))

    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    assert len({thread.pid for thread in trace.threads}) == forks + 1


SUBPROCESS = """
import subprocess, sys
import tprof

with tprof.record("t.tprof", energy="estimate", counters="none"):
    code = "import tprof\\nwith tprof.region('elsewhere'): pass"
    subprocess.run([sys.executable, "-c", code], check=True)
subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_another_python_program_joins_only_while_the_recording_runs(tmp_path):
    done = programs.run(tmp_path, SUBPROCESS)

    assert (done.returncode, done.stderr) == (0, "")
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"elsewhere": 1}


NAMED = """
import tprof
print(tprof.task(len)([1]))
"""


def test_a_stale_name_of_a_session_in_the_environment_is_no_fault(tmp_path):
    done = programs.run(tmp_path, NAMED, env=os.environ | {"TPROF_SESSION": str(tmp_path / "gone")})

    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


CHILD_CPU = """
import os, sys, time
import tprof

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass

with tprof.record("t.tprof", energy="estimate", counters="none"):
    child = os.fork()
    if child == 0:
        burn(0.3)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_the_cpu_time_of_children_is_the_programs(tmp_path):
    programs.run(tmp_path, CHILD_CPU)

    program = tprof.load(tmp_path / "t.tprof").readings["program"]
    used_s = int(program.value[-1] - program.value[0]) * program.unit
    assert 0.25 < used_s < 0.6
