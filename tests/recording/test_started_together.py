"""Processes that are started together and are given one session share it, and the first of them sums up."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support import programs
from support.programs import TPROF
from support.recorded import instances

import tprof
from tprof.session.companions import RANKS, TOGETHER_S, Origin

DEADLINE_S = 200
RANK_PROGRAM = """
import os, sys
def work(n):
    return sum(range(n))
def main():
    rank = int(os.environ.get("PMI_RANK", sys.argv[1] if len(sys.argv) > 1 else 0))
    for _ in range(3):
        work(1000)
    return rank
if __name__ == "__main__":
    sys.stdout.write(f"rank {main()}\\n")
"""
MEETING = """
import sys
from mpi4py import MPI
def work(n):
    return sum(range(n))
total = MPI.COMM_WORLD.allreduce(work(10) + MPI.COMM_WORLD.rank)
sys.stdout.write("%d %d\\n" % (MPI.COMM_WORLD.rank, total))
sys.stdout.flush()
sys.exit(END)
"""
# Waits for the others before it leaves its part: who does so must share the session.
WAITING = """
import os, sys, time
def work(n):
    open(f"began-{sys.argv[1]}", "w").close()
    until = time.monotonic() + 60
    while not all(os.path.exists(f"began-{name}") for name in ("a", "b")):
        assert time.monotonic() < until
        time.sleep(0.01)
work(1)
sys.exit(int(sys.argv[2]))
"""


def mpirun():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: scripts/setup .venv test lint libraries")
    beside = Path(sysconfig.get_path("scripts")) / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun")
    if found is None:
        pytest.skip("there is no mpirun: pip install mpich")
    return found


def run(folder, source, *words):
    (folder / "prog.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


OPTIONS = ["run", "--energy", "estimate", "--task", "__main__:work"]
QUIET = [*OPTIONS, "--no-summary"]


@pytest.mark.parametrize(
    "overwrite",
    [pytest.param([], id="new", marks=pytest.mark.thorough), pytest.param(["--overwrite"], id="overwritten")],
)
def test_ranks_share_a_session_and_a_task(tmp_path, overwrite):
    words = [mpirun(), "-n", "3", TPROF, *OPTIONS, "-o", "x.tprof"]
    if overwrite:
        run(tmp_path, RANK_PROGRAM, TPROF, *QUIET, "-o", "x.tprof", "prog.py")

    done = run(tmp_path, RANK_PROGRAM, *words, *overwrite, "prog.py")

    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["rank 0", "rank 1", "rank 2"]), done.stderr
    assert done.stderr.count("next: tprof report x.tprof") == 1
    trace = tprof.load(tmp_path / "x.tprof")
    own = [entry for entry in trace.tasks if entry.is_own]
    assert (trace.complete, instances(trace), len(own)) == (True, {"work": 9}, 1)


def test_ranks_that_are_given_no_session_share_one(tmp_path):
    (tmp_path / "prog.tprof").mkdir()

    done = run(tmp_path, RANK_PROGRAM, mpirun(), "-n", "2", TPROF, *QUIET, "prog.py")

    assert done.returncode == 0, done.stderr
    assert instances(tprof.load(tmp_path / "prog-2.tprof")) == {"work": 6}
    assert sorted(path.name for path in tmp_path.glob("*.tprof")) == ["prog-2.tprof", "prog.tprof"]


# A rank that finalises MPI waits there for the others to do so, which may do it when they have ended.
FIRST, SECOND = "0 if MPI.COMM_WORLD.rank else MPI.Finalize()", "MPI.Finalize() if MPI.COMM_WORLD.rank else 0"
ENDS = [
    *("MPI.COMM_WORLD.rank * 3", "3 - MPI.COMM_WORLD.rank * 3", FIRST, SECOND),
    *(pytest.param(end, marks=pytest.mark.thorough) for end in ("0", "MPI.Finalize()")),
]


@pytest.mark.parametrize("end", ENDS)
def test_ranks_that_talk_to_each_other_end_as_they_do_by_themselves(tmp_path, end):
    source = MEETING.replace("END", end)
    plain = run(tmp_path, source, mpirun(), "-n", "2", sys.executable, "prog.py")

    done = run(tmp_path, source, mpirun(), "-n", "2", TPROF, *QUIET, "-o", "x.tprof", "prog.py")

    assert (done.returncode, sorted(done.stdout.splitlines())) == (plain.returncode, sorted(plain.stdout.splitlines()))
    if plain.returncode == 0:
        assert instances(tprof.load(tmp_path / "x.tprof")) == {"work": 2}


def begin_two(folder, source, ends=(0, 0)):
    (folder / "prog.py").write_text(source)
    words = [TPROF, *OPTIONS, "-o", "x.tprof", "prog.py"]
    both = [programs.begin(folder, [*words, name, str(end)]) for name, end in zip("ab", ends, strict=True)]
    return [(program.communicate(timeout=DEADLINE_S)[1], program.returncode) for program in both]


def test_programs_that_one_process_starts_at_the_same_time_share_a_session(tmp_path):
    (said_a, status_a), (said_b, status_b) = begin_two(tmp_path, WAITING, ends=(0, 5))

    assert (status_a, status_b) == (0, 5)
    assert (said_a + said_b).count("next: tprof report x.tprof") == 1
    trace = tprof.load(tmp_path / "x.tprof")
    assert (trace.complete, instances(trace)) == (True, {"work": 2})


LAUNCHER = """
import os, subprocess, sys
words = ["sh", "-c", 'wrapped=1 "$@"', "sh", *sys.argv[2:]]
ranks = [subprocess.Popen(words, env={**os.environ, sys.argv[1]: str(rank)}) for rank in range(3)]
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.mark.parametrize(
    "variable", [RANKS[0], *(pytest.param(name, marks=pytest.mark.thorough) for name in RANKS[1:])]
)
def test_ranks_are_known_by_what_their_launcher_tells_them(tmp_path, variable):
    (tmp_path / "launcher.py").write_text(LAUNCHER)

    done = run(
        tmp_path, RANK_PROGRAM, sys.executable, "launcher.py", variable, TPROF, *QUIET, "-o", "x.tprof", "prog.py"
    )

    assert done.returncode == 0, done.stderr
    assert instances(tprof.load(tmp_path / "x.tprof")) == {"work": 9}


@pytest.mark.parametrize("variable", RANKS)
def test_processes_with_unlike_values_of_a_launchers_variable_are_ranks_of_it(variable):
    ranks = [
        subprocess.Popen(
            ["sh", "-c", "echo begun; read line; true"],
            env={**os.environ, variable: str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]

    try:
        for rank in ranks:
            rank.stdout.readline()  # /proc shows no variables of a process that still begins its program
        one, two = (Origin.of(rank.pid) for rank in ranks)
    finally:
        for rank in ranks:
            rank.communicate()

    assert one.rank == (variable, "0")
    assert one.launcher[0] == os.getpid()
    assert one.is_together_with(two)


def test_who_was_started_by_others_or_long_before_is_refused():
    one = Origin((7, 100), None, 5000)
    ticks = round(TOGETHER_S * os.sysconf("SC_CLK_TCK"))

    assert one.is_together_with(Origin((7, 100), None, 5000 + ticks))
    assert not one.is_together_with(Origin((7, 100), None, 5001 + ticks))
    assert not one.is_together_with(Origin((7, 101), None, 5000))
    assert not one.is_together_with(Origin((7, 100), ("PMI_RANK", "1"), 5000))


def test_a_rank_is_together_with_other_ranks_of_its_job_only():
    one = Origin((7, 100), ("PMI_RANK", "1"), 5000)

    assert one.is_together_with(Origin((7, 100), ("PMI_RANK", "0"), 10**9))
    assert not one.is_together_with(Origin((7, 100), ("PMI_RANK", "1"), 5000))
    assert not one.is_together_with(Origin((8, 100), ("PMI_RANK", "0"), 5000))
    assert Origin.from_json(one.as_json()) == one


@pytest.mark.parametrize("said", [None, [], {}, {"launcher": 1}, {"launcher": [1, "x"], "rank": None}])
def test_a_manifest_that_says_nothing_of_its_origin_is_nobodys(said):
    assert Origin.from_json(said) is None
