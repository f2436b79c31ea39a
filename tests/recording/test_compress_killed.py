"""A compression that is killed at any moment leaves a session with the same records."""

import random
import subprocess
import sys

import numpy as np
import pytest

import tprof
from tprof.trace import packed
from tprof.trace.compress import compress

THREADS, SAMPLES, ROUNDS = 8, 40_000, 20
PROGRAM = """
import sys
from tprof.trace.compress import compress
print("ready", flush=True)
compress(sys.argv[1])
print("done", flush=True)
"""


def write(path):
    t_ns = np.arange(SAMPLES, dtype=np.int64) * 1000
    instance = np.where(np.arange(SAMPLES) % 2, 0, np.arange(SAMPLES) // 2 + 1)
    task = np.where(instance == 0, -1, 0)
    draw = np.random.default_rng(1)
    threads = [
        {"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": np.cumsum(draw.integers(0, 900, SAMPLES))}
        for _ in range(THREADS)
    ]
    energy = {"package-0": (t_ns[::700], np.linspace(0.0, 5.0, len(t_ns[::700])))}
    tprof.write_trace(path, tasks=["a"], threads=threads, energy=energy)


def records(path):
    trace = tprof.load(path)
    assert not trace.notes
    return [thread.read().tobytes() for thread in trace.threads]


@pytest.mark.thorough
def test_records_stay_whenever_it_is_killed(tmp_path):
    """The killed ones go on where the last one was, until one has nothing left to do; then with a new session."""
    chance = random.Random(7)  # noqa: S311 - the same moments in each run, as far as the machine lets them be
    session, cut, number = None, 0, 0
    for _ in range(ROUNDS):
        if session is None:
            number += 1
            session = tmp_path / f"{number}.tprof"
            write(session)
            before = records(session)
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, session], stdout=subprocess.PIPE, text=True)
        with process:
            assert process.stdout.readline() == "ready\n"
            try:
                process.wait(chance.uniform(0.0, 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                cut += 1
        assert records(session) == before
        files = list((session / "threads").glob(f"0*{packed.ENDING}"))
        session = None if len(files) == THREADS else session

    assert cut, "none was killed before it had ended"
    write(tmp_path / "last.tprof")
    before = records(tmp_path / "last.tprof")
    compress(tmp_path / "last.tprof")
    assert records(tmp_path / "last.tprof") == before
