"""Recordings with marked GPU work have the figures of the whole recording when they are read window by window."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs
from support.properties import examples
from support.streamed_profiles import assert_same, streamed
from tprof.analysis.profile.instances import SummedInstances

import tprof


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc"]), st.integers(0, 3))
def test_windows_of_any_size_give_the_joules_of_the_whole(seed, samples, model, domains) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains, gpu=True)
        trace = tprof.load(path)

        whole = trace.profile(model)
        assert_same(whole, streamed(trace, model, samples=samples))
        assert whole.accounts.loc["gpu-0", "tasks_j"] > 0


@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 300), st.tuples(st.floats(0, 0.25), st.floats(0.01, 0.3)))
def test_a_window_of_time_says_which_joules_are_of_earlier_tasks(seed, samples, window) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), gpu=True)
        trace, times = tprof.load(path), {"start_s": window[0], "end_s": window[0] + window[1]}

        assert_same(trace.profile("cputime", **times), streamed(trace, "cputime", samples=samples, **times))


def test_fitted_powers_have_the_errors_of_the_whole(tmp_path) -> None:
    path = nested_runs.write(
        tmp_path / "x.tprof", np.random.default_rng(0), events=4000, updates_ms=(2, 3), timed=0.01, gpu=True
    )
    trace = tprof.load(path)

    whole = trace.profile("fitted")
    assert whole.info["model"] == "fitted"
    parts = streamed(trace, "fitted", samples=500)
    columns = ["energy_j", "gpu_j", "energy_mean_low_j", "energy_mean_high_j"]
    np.testing.assert_allclose(parts.summary()[columns], whole.summary()[columns], rtol=1e-2)


def test_where_a_used_gpu_has_no_marks_all_that_ran_is_read(tmp_path) -> None:
    path = nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0), gpu=True)
    (path / "gpu/00000000.jsonl").write_text('{"used": ["torch"]}\n')

    profile = tprof.load(path).profile("cputime", tables=False, window_samples=50)

    assert not isinstance(profile.instances, SummedInstances)
    assert profile.accounts.loc["gpu-0", "measured_j"] == pytest.approx(
        profile.accounts.loc["gpu-0"].drop(["quality", "measured_j"]).astype(float).sum()
    )
