"""Calls of MPI are tasks of their own if that was asked for, and nothing about them changes."""

import json
import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from support import fake_mpi
from support.programs import TPROF
from support.recorded import instances, story

import tprof

DEADLINE_S = 200

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="calls are noted on x86-64 and arm64 only"
)

# In a process of its own, since MPI is followed for good.
PROGRAM = """
import ctypes, json, sys
import tprof, tprof.mpi
from support import fake_mpi
kind, path, out = sys.argv[1:]
before = kind == "before"
if before:
    tprof.mpi.follow()
library = fake_mpi.open_caller(path)
tprof.mpi.follow()
results = []
inner = tprof.task(name="inner")(lambda: library.send(1))
called = ctypes.CFUNCTYPE(None)(inner)
@tprof.task
def outer():
    results.extend([library.send(1), library.ask(7), library.longest(), library.wait_for(20_000)])
    library.reduce(called)
    results.append(library.jump_out(20))
    library.send(1)
results.append(library.send(1))
with tprof.record(out, energy="estimate", counters="none", attribute_native=before):
    outer()
    results.append(library.send_in_new_thread())
results.append(library.send(1))
print(json.dumps(results))
"""


@pytest.fixture(scope="module", params=["before", "after"])
def recorded(request, tmp_path_factory):
    """Return the results of the calls, and the trace; MPI is followed before it is loaded, or after."""
    place = tmp_path_factory.mktemp("mpi")
    path = fake_mpi.build(place, "-Wl,-z,now")
    (place / "prog.py").write_text(PROGRAM)
    words = [sys.executable, "prog.py", request.param, path, "t.tprof"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        words, cwd=place, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), tprof.load(place / "t.tprof")


def test_arguments_and_results_pass_through(recorded):
    assert recorded[0] == [2, 2, 7, fake_mpi.LONGEST, 0, 20, 42, 2]


def test_each_call_is_an_instance_inside_the_task_that_calls(recorded):
    told, in_thread = (story(recorded[1], number) for number in range(2))

    send = [("start", "MPI_Send"), ("finish", "outer")]
    reduce = [
        ("start", "MPI_Allreduce"),
        ("start", "inner"),
        ("start", "MPI_Send"),
        ("finish", "inner"),
        ("finish", "MPI_Allreduce"),
        ("finish", "outer"),
    ]
    assert told[0] == ("start", "outer")
    assert told[1:3] == send
    assert told[3:5] == [("start", "MPI_Rget_accumulate"), ("finish", "outer")]
    assert told[5:7] == [("start", "MPI_Wait"), ("finish", "outer")]
    assert told[7:19] == 2 * reduce
    assert told[-3:] == [*send, ("finish", None)]
    assert in_thread[:2] == [("start", "MPI_Send"), ("finish", None)]


def test_a_call_that_is_left_by_a_jump_ends_with_the_next_one(recorded):
    told = story(recorded[1])

    assert told.count(("start", "MPI_Barrier")) == 20
    assert told[19] == ("start", "MPI_Barrier")
    assert set(told[20:-3]) == {("finish", "outer"), ("start", "MPI_Barrier")}


def test_functions_that_only_ask_are_no_tasks_and_the_program_s_own_stay_its_own(recorded):
    trace = recorded[1]
    names = {entry.name for entry in trace.tasks}

    assert "MPI_Allreduce" in names
    assert names.isdisjoint({"MPI_Comm_rank", "MPI_Wtime", "MPI_Allreduce_c"})
    assert {entry.name for entry in trace.tasks if entry.is_own} == {"outer", "inner"}
    assert {entry.library for entry in trace.tasks if not entry.is_own} == {"MPI"}


MEETING = """
import os, time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
def work(number):
    if world.rank == 0:
        open(f"ready-{number}", "w").close()
        return np.ones(3)
    until = time.monotonic() + 60
    while not os.path.exists(f"ready-{number}") and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.3)
    return np.ones(3)
for number in range(2):
    total = np.zeros(3)
    world.Allreduce(work(number), total)
assert total.tolist() == [2, 2, 2]
"""


@pytest.mark.parametrize("options", [["--task", "__main__:work"], []], ids=["a task", "none"])
def test_a_rank_that_waits_waits_in_mpi(tmp_path, options):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: scripts/setup .venv test lint libraries")
    mpirun = Path(sysconfig.get_path("scripts")) / "mpirun"
    if not mpirun.exists():
        pytest.skip("there is no mpirun: pip install mpich")
    (tmp_path / "prog.py").write_text(MEETING)
    words = [mpirun, "-n", "2", TPROF, "run", "--mpi", "--energy", "estimate", "-o", "x.tprof", *options, "prog.py"]

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    assert done.returncode == 0, done.stderr
    trace = tprof.load(tmp_path / "x.tprof")
    counted = instances(trace)
    assert counted["MPI_Allreduce"] == 4
    assert counted["MPI_Init_thread"] == 2, (counted, trace.notes, done.stderr)
    assert counted.get("work", 4) == 4
    table = trace.profile().tasks
    own_s = table[table["task"] == "MPI_Allreduce"].groupby("pid")["duration_s"].sum()
    assert own_s.max() > 0.2
    assert ("prog.py" in set(table["task"])) == (options == [])
    assert ("The tasks above are the whole program" in done.stderr) == (options == [])
    assert not np.isnan(table["energy_j"]).any()
