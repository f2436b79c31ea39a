"""Native threads are read window by window with the figures of the whole recording."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.native_truth import MS, Program
from support.properties import examples
from support.streamed_profiles import assert_same, streamed
from tprof.analysis.attribution.windows import cut_windows
from tprof.analysis.export import format_named
from tprof.analysis.profile import build

import tprof

if TYPE_CHECKING:
    from collections.abc import Callable

SLEEPS = {"pool_settings": {"OPENBLAS_THREAD_TIMEOUT": "20"}}


@examples(100, quick=10)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc"]), st.integers(1, 4),
    st.integers(1, 4), st.booleans(),
)  # fmt: skip
def test_windows_of_any_size_give_the_figures_of_the_whole(seed, samples, model, domains, pools, spins) -> None:
    """Pools known by calls, by creators and not at all, which spin on in other windows, and are cut in small parts."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains, pools=pools)
        traces.set_json(path / "manifest.json", **({} if spins else SLEEPS))
        trace = tprof.load(path)
        whole = trace.profile(model)
        patch.setattr("tprof.analysis.attribution.natives.cuts.AT_ONCE", samples)

        assert_same(whole, streamed(trace, model, samples=samples))


@examples(30, quick=5)
@given(st.integers(0, 2**31), st.integers(1, 300), st.integers(1, 4))
def test_instances_of_a_task_whose_line_is_lost_stay_in_the_account(seed, samples, pools) -> None:
    """They use no pool, since nobody knows what they are; a warning counts them."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=1, pools=pools)
        table = path / "tasks" / "00000000.jsonl"
        lines = table.read_text().splitlines(keepends=True)
        table.write_text("".join(line for line in lines if '"outer"' not in line))
        trace = tprof.load(path)
        whole = trace.profile("cputime")

        assert_same(whole, streamed(trace, "cputime", samples=samples))
        assert set(whole.summary().index) == {"inner", "leaf"}
        booked_j = whole.accounts.filter(like="_j").drop(columns="measured_j").sum(axis=1)
        np.testing.assert_allclose(booked_j, whole.accounts["measured_j"], rtol=1e-9)
        assert "in no task's row" in "".join(whole.info["warnings"])


@examples(100, quick=10)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc"]), st.integers(1, 4),
    st.tuples(st.floats(0, 0.25), st.floats(0.001, 0.3)), st.sampled_from([0, 1, 20, 1000]), st.booleans(),
)  # fmt: skip
def test_windows_of_time_are_read_in_parts_too(seed, samples, model, pools, times, around_ms, spins) -> None:
    """Pools are found in some time around the window, of which other instances may use them too."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tprof.analysis.attribution.natives.pools.AROUND_NS", around_ms * MS)
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=3, pools=pools)
        traces.set_json(path / "manifest.json", **({} if spins else SLEEPS))
        trace, window = tprof.load(path), {"start_s": times[0], "end_s": times[0] + times[1]}

        assert_same(trace.profile(model, **window), streamed(trace, model, samples=samples, **window))


@examples(20, quick=3)
@given(st.integers(0, 2**31), st.integers(1, 100))
def test_a_calibrated_model_takes_idle_watts_beside_native_threads(seed, samples) -> None:
    """A quantum in which a pool works is not idle."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(seed)
        path = nested_runs.write(Path(folder) / "x.tprof", rng, events=60, domains=1, pools=2)
        trace, given_w = tprof.load(path), {"a": 1.0, "b": 0, "c": 0, "C1": 5.0, "C2": 2.0}

        for window in ({}, {"start_s": 0.07, "end_s": 0.23}):
            whole = trace.profile("linear", coefficients=given_w, **window)

            assert_same(whole, streamed(trace, "linear", coefficients=given_w, samples=samples, **window))


def callers(seed: int, *, noted: bool, spin_ms: int) -> Program:
    """Let one thread call a pool, with pauses, beside another that computes on its own."""
    program = Program(["multiply", "parse"], threads=2, seed=seed)
    pool = program.pool(threads=2, noted=noted)
    while program.now_ns[0] < 3_000 * MS:
        program.rest(int(program.random.integers(1, 90)) * MS)
        program.call("multiply", pool, int(program.random.integers(5, 60)) * MS, spin_ns=spin_ms * MS)
    while program.now_ns[1] < 3_000 * MS:
        program.run("parse", int(program.random.integers(1, 20)) * MS, thread=1)
        program.rest(int(program.random.integers(1, 5)) * MS, thread=1)
    return program


def two_users(seed: int) -> Program:
    """Let two threads call one pool, so that it is not known whom it serves while both run."""
    program = Program(["one", "two"], threads=2, seed=seed)
    pool = program.pool()
    for thread, task in enumerate(program.tasks):
        while program.now_ns[thread] < 2_000 * MS:
            program.rest(int(program.random.integers(1, 60)) * MS, thread=thread)
            program.call(task, pool, int(program.random.integers(5, 40)) * MS, thread=thread)
    return program


@pytest.mark.parametrize("samples", [10, 100])
@pytest.mark.parametrize(
    ("program", "known_by"),
    [
        (lambda: callers(0, noted=False, spin_ms=0), "onsets"),
        (lambda: callers(1, noted=True, spin_ms=0), "calls"),
        (lambda: callers(2, noted=True, spin_ms=60), "calls"),
        (lambda: callers(3, noted=False, spin_ms=60), None),
        (lambda: two_users(4), None),
    ],
)
def test_users_are_known_from_all_windows(
    tmp_path: Path, program: Callable[[], Program], known_by: str | None, samples: int
) -> None:
    """By onsets, which are pooled over the recording, and by calls; after a call a pool spins for many windows."""
    trace = program().write(tmp_path / "x.tprof", passive=known_by == "onsets")
    whole = trace.profile("cputime")

    assert_same(whole, streamed(trace, "cputime", samples=samples))
    if known_by is not None:
        assert whole.info["native"]["pools"][0]["known_by"] == known_by


@pytest.mark.parametrize(("noted", "spin_ms"), [(False, 0), (True, 60)])
def test_users_are_known_in_a_window_of_time(tmp_path: Path, *, noted: bool, spin_ms: int) -> None:
    """A window of which too few onsets are known, and one that a pool still spins in after a call before it."""
    trace = callers(2, noted=noted, spin_ms=spin_ms).write(tmp_path / "x.tprof", passive=not spin_ms)

    for window in ({"start_s": 0.3, "end_s": 0.437}, {"start_s": 1.437}):
        assert_same(trace.profile("cputime", **window), streamed(trace, "cputime", samples=50, **window))


def test_counters_of_native_threads_weigh_their_power_in_all_windows(tmp_path: Path) -> None:
    """A pool executes three instructions a cycle for one task, and one for another."""
    program = Program(["dense", "sparse"], counted=True)
    pool = program.pool(threads=2, counted=1, noted=True, ipc={"dense": 3.0, "sparse": 1.0})
    for _ in range(30):
        for task in program.tasks:
            program.call(task, pool, int(program.random.integers(10, 40)) * MS)
            program.rest(20 * MS)
    trace = program.write(tmp_path / "x.tprof")

    for window in ({}, {"start_s": 0.321, "end_s": 1.2}):
        assert_same(trace.profile("ipc", **window), streamed(trace, "ipc", samples=7, **window))


def test_a_timeline_is_written(tmp_path: Path) -> None:
    """Of windows whose instances have native joules."""
    pytest.importorskip("perfetto")
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(5), pools=2))

    format_named("perfetto").write(streamed(trace, samples=40), tmp_path / "parts")

    assert (tmp_path / "parts").stat().st_size


def test_an_instance_after_which_a_pool_spins_stays_open(tmp_path: Path) -> None:
    """Its spinning is in windows after that in which it ended."""
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool(noted=True)
    for _ in range(8):
        program.call("multiply", pool, 40 * MS, spin_ns=90 * MS)
        program.rest(200 * MS)
    while program.now_ns[1] < program.now_ns[0]:
        program.run("parse", 1 * MS, thread=1)
    trace = program.write(tmp_path / "x.tprof", passive=False)

    parts = streamed(trace, "cputime", samples=40)

    assert_same(trace.profile("cputime"), parts)
    assert (parts.tasks.loc[parts.tasks["task"] == "multiply", "spin_j"] > 0.1).all()


@pytest.mark.parametrize("noted", [True, False])
def test_windows_have_few_records_of_native_threads(tmp_path, monkeypatch, noted) -> None:
    """A pool that works in a part of the recording makes windows smaller, which changes no figure."""
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool(threads=3, noted=noted)
    for _ in range(30):
        program.call("multiply", pool, 30 * MS)
        program.rest(30 * MS)
    while program.now_ns[1] < 20_000 * MS:
        program.run("parse", 8 * MS, thread=1)
        program.rest(12 * MS, thread=1)
    trace = program.write(tmp_path / "x.tprof")
    cut: list[int] = []

    def counted(*given: object) -> object:
        windows = cut_windows(*given)
        cut.append(len(windows))
        return windows

    monkeypatch.setattr(build, "WINDOW_SAMPLES", 2_000)
    monkeypatch.setattr(build, "cut_windows", counted)
    whole = trace.profile("cputime", window_samples=10**9)
    trace.profile("cputime", attribute_native=False)
    assert_same(whole, streamed(trace, "cputime", samples=None))

    assert cut[2] > 1.5 * cut[1] > 1.5 * cut[0]
