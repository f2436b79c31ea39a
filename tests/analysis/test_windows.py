"""A window of a recording has the joules of its part, and reads only that."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import command_line, traces
from support.properties import examples

import tprof
from tprof.errors import UsageError
from tprof.trace import write_trace

MS = 1_000_000
COUNT = 400


def recording(path: Path, seed: int = 0) -> Path:
    """Write two threads with instances back to back, and quanta of 10 ms from 0 to the end."""
    rng = np.random.default_rng(seed)
    threads = []
    for number in range(2):
        t_ns = np.concatenate(([0], np.sort(rng.integers(0, COUNT * MS, COUNT - 2)), [COUNT * MS]))
        instance = np.arange(COUNT, dtype=np.uint64) + number * 2 * COUNT + 1
        task = rng.integers(0, 2, COUNT)
        instance[-1], task[-1] = 0, -1
        used = np.concatenate(([0], np.cumsum(np.diff(t_ns) * rng.random(COUNT - 1)))).astype(np.int64)
        threads.append({"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": used, "cycles": used * 3})
    edges_ns = np.arange(0, COUNT * MS + 1, 10 * MS)
    energy = {"package-0": (edges_ns, np.cumsum(rng.random(len(edges_ns))))}
    write_trace(path, tasks=["load", "blur"], threads=threads, energy=energy)
    return path


@examples(40)
@given(st.integers(0, 9), st.sets(st.integers(1, 39), max_size=4))
def test_windows_between_readings_sum_to_the_whole_task_by_task(seed, cuts) -> None:
    """Windows that tile a recording at its readings have together the joules and CPU time of each task."""
    with tempfile.TemporaryDirectory() as folder:
        trace = tprof.load(recording(Path(folder) / "x.tprof", seed))
        edges_s = [0.0, *(cut * 0.01 for cut in sorted(cuts)), COUNT * 1e-3]
        parts = [trace.profile("cputime", start_s=begin, end_s=end) for begin, end in itertools.pairwise(edges_s)]
        whole = trace.profile("cputime")

        for column in ("energy_j", "cpu_s", "duration_s", "cycles"):
            summed = sum(part.tasks.groupby("task", observed=False)[column].sum() for part in parts)
            expected = whole.tasks.groupby("task", observed=False)[column].sum()
            np.testing.assert_allclose(summed, expected, rtol=1e-9)
        for column in ("measured_j", "tasks_j", "runtime_j", "idle_j"):
            got = sum(part.accounts[column].iloc[0] for part in parts)
            assert got == pytest.approx(whole.accounts[column].iloc[0], rel=1e-9, abs=1e-12)


@examples(40)
@given(st.integers(0, 9), st.sets(st.floats(0.001, 0.399), max_size=4))
def test_windows_conserve_the_measured_joules_wherever_they_are_cut(seed, cuts) -> None:
    """A reading that a window cuts gives each side its part by time, and each window's accounts sum to its joules."""
    with tempfile.TemporaryDirectory() as folder:
        trace = tprof.load(recording(Path(folder) / "x.tprof", seed))
        edges_s = [0.0, *sorted(cuts), COUNT * 1e-3]
        accounts = [
            trace.profile("cputime", start_s=begin, end_s=end).accounts.iloc[0]
            for begin, end in itertools.pairwise(edges_s)
        ]

        whole_j = trace.profile("cputime").measured_j
        assert sum(one["measured_j"] for one in accounts) == pytest.approx(whole_j, rel=1e-9)
        for one in accounts:
            shared_j = one["tasks_j"] + one["runtime_j"] + one["other_j"] + one["idle_j"]
            assert shared_j == pytest.approx(one["measured_j"], rel=1e-9)


def test_a_window_of_everything_is_the_whole(tmp_path) -> None:
    """A window from the begin to the end has the tables of the whole recording."""
    trace = tprof.load(recording(tmp_path / "x.tprof"))

    got = trace.profile(start_s=0, end_s=1e6).tasks

    assert got.equals(trace.profile().tasks)


def test_only_the_samples_of_the_window_are_read(tmp_path) -> None:
    """A thread of a window reads its own samples and one before them."""
    trace = tprof.load(recording(tmp_path / "x.tprof"))

    window = trace.between(0.1, 0.2)

    for thread, part in zip(trace.threads, window.threads, strict=True):
        t_ns = thread.read()["t_ns"]
        inside = int(((t_ns >= 100 * MS) & (t_ns < 200 * MS)).sum())
        assert inside <= len(part.read()) <= inside + 1 < thread.count


@pytest.mark.parametrize(
    ("start_s", "end_s", "message"),
    [(-1, None, "begin at 0"), (9, None, "begin at 0"), (1.5, 1, "end after"), (float("nan"), None, "begin at 0")],
)
def test_what_is_no_window_is_refused(tmp_path, start_s, end_s, message) -> None:
    """A window outside the recording, or one that ends before it begins, is an error that says so."""
    trace = tprof.load(traces.write(tmp_path / "x.tprof"))

    with pytest.raises(UsageError, match=message):
        trace.profile(start_s=start_s, end_s=end_s)


def test_commands_take_a_window(tmp_path) -> None:
    """`--between` gives the figures of the window and says which it is; what is no window is one sentence."""
    recording(tmp_path / "x.tprof")

    told = command_line.tprof("summary", "x.tprof", "--between", "0.1,0.2", cwd=tmp_path)
    wrong = command_line.tprof("summary", "x.tprof", "--between", "soon", cwd=tmp_path)
    exported = command_line.tprof("export", "x.tprof", "csv", "-o", "tables", "--between", ",0.2", cwd=tmp_path)

    assert "of the recording only 0.1 to 0.2 s" in told.stdout
    assert (wrong.returncode, "--between must be seconds" in wrong.stderr) == (2, True)
    assert exported.returncode == 0
