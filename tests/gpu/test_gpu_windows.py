"""Recordings with GPUs have the figures of the whole recording when they are read window by window."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.properties import examples
from support.streamed_profiles import assert_same, streamed

import tprof


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc"]), st.integers(0, 3))
def test_windows_of_any_size_give_the_joules_of_the_whole(seed, samples, model, domains) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains, gpus=1)
        trace = tprof.load(path)

        whole = trace.profile(model)
        assert_same(whole, streamed(trace, model, samples=samples))
        assert whole.accounts.loc["gpu-0", "tasks_j"] > 0


def used_without_marks(path: Path, seed: int, **options: int) -> tprof.Trace:
    """Write a recording whose program marks nothing; where it has two processes, the second one used no GPU."""
    is_beside = options.pop("processes", 1) > 1
    nested_runs.write(path, np.random.default_rng(seed), marks=False, **options)
    if is_beside:
        samples = max((path / "threads").glob("*.samples"))
        traces.set_header(samples, process=1, pid=8)
        shutil.copy(path / "tasks/00000000.jsonl", path / "tasks/00000001.jsonl")
    return tprof.load(path)


@examples(60)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc"]),
    st.fixed_dictionaries({
        "domains": st.integers(0, 3), "gpus": st.integers(1, 2), "events": st.sampled_from([10, 60, 400]),
        "tasks": st.sampled_from([1, 4]), "threads": st.integers(1, 3), "processes": st.integers(1, 2),
        "pools": st.sampled_from([0, 0, 2]),
    }),
)  # fmt: skip
def test_without_marks_windows_of_any_size_give_the_joules_of_the_whole(seed, samples, model, options) -> None:
    """Of several GPUs and processes, of instances that last for many windows, and of quanta as long as some windows."""
    with tempfile.TemporaryDirectory() as folder:
        trace = used_without_marks(Path(folder) / "x.tprof", seed, **options)

        assert_same(trace.profile(model), streamed(trace, model, samples=samples))


@examples(30)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.tuples(st.floats(0, 0.25), st.floats(0.01, 0.3)),
    st.sampled_from([10, 60, 400]), st.sampled_from([1, 4]),
)  # fmt: skip
def test_without_marks_a_window_of_time_has_the_joules_of_the_whole(seed, samples, window, events, tasks) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = used_without_marks(Path(folder) / "x.tprof", seed, gpus=2, events=events, threads=2, tasks=tasks)
        times = {"start_s": window[0], "end_s": window[0] + window[1]}

        assert_same(trace.profile("cputime", **times), streamed(trace, "cputime", samples=samples, **times))


@pytest.mark.parametrize("samples", [1, 20, 200])
def test_one_gpu_may_be_marked_and_another_one_not(tmp_path, samples) -> None:
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(5), gpus=2, tasks=1, domains=2))

    whole = trace.profile("cputime")

    assert (whole.accounts.loc[["gpu-0", "gpu-1"], "tasks_j"] > 0).all()
    assert_same(whole, streamed(trace, "cputime", samples=samples))


def test_without_marks_quanta_of_many_samples_go_to_the_only_task(tmp_path) -> None:
    """By hand: each task runs alone for five quanta of the GPU; the first may have kernels of the task before."""
    t_ns = np.arange(1001) * 2 * nested_runs.MS
    task, instance = np.arange(1001) // 250 % 2, np.arange(1001) + 1
    task[-1], instance[-1] = -1, 0
    thread = {"t_ns": t_ns, "instance": instance, "task": task, "pid": 7}
    gpu = (np.arange(21) * 100 * nested_runs.MS, np.arange(21) * 10.0)
    path = traces.write(tmp_path / "x.tprof", threads=[thread], energy={"gpu-0": gpu}, static_power_w={"gpu-0": 20.0})
    (path / "gpu").mkdir(mode=0o700)
    (path / "gpu/00000000.jsonl").write_text('{"used": ["torch"]}\n')

    parts = streamed(tprof.load(path), "cputime", samples=1)

    assert parts.accounts.loc["gpu-0", ["tasks_j", "runtime_j", "idle_j"]].tolist() == pytest.approx([136, 24, 40])
    assert parts.summary().loc[["load", "blur"], "gpu_j"].tolist() == pytest.approx([72, 64])
    assert len(parts.instances.begins_ns) == 19
    assert_same(tprof.load(path).profile("cputime"), parts)


@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 300), st.tuples(st.floats(0, 0.25), st.floats(0.01, 0.3)))
def test_a_window_of_time_says_which_joules_are_of_earlier_tasks(seed, samples, window) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), gpus=1)
        trace, times = tprof.load(path), {"start_s": window[0], "end_s": window[0] + window[1]}

        assert_same(trace.profile("cputime", **times), streamed(trace, "cputime", samples=samples, **times))


@pytest.mark.parametrize("marks", [True, False])
def test_fitted_powers_have_the_errors_of_the_whole(tmp_path, marks) -> None:
    path = nested_runs.write(
        tmp_path / "x.tprof", np.random.default_rng(0), events=4000, updates_ms=(2, 3), timed=0.01, gpus=1, marks=marks
    )
    trace = tprof.load(path)

    whole = trace.profile("fitted")
    assert whole.info["model"] == "fitted"
    parts = streamed(trace, "fitted", samples=500)
    columns = ["energy_j", "gpu_j", "energy_mean_low_j", "energy_mean_high_j"]
    np.testing.assert_allclose(parts.summary()[columns], whole.summary()[columns], rtol=1e-2)
