"""A recording of a task runtime that is read window by window has the waits, chains and workers of the whole."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import task_graphs, trace_processor
from support.properties import examples
from support.random_graphs import assert_same_chains, assert_same_runtime, flat, keyed, nested
from support.streamed_profiles import assert_same, in_order, streamed
from support.task_graphs import Lane
from tprof.analysis.export import format_named
from tprof.runtime import Runtime, current

import tprof
from tprof.trace import EventKind, Kind


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 60), st.sampled_from([flat, nested]))
def test_windows_of_any_size_give_what_the_runtime_did_in_the_whole(seed, samples, write) -> None:
    """Waits of instances, times of workers, dependences and chains, with instances longer than many windows."""
    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder) / "x.tprof", np.random.default_rng(seed))
        whole, parts = trace.profile("cputime"), streamed(trace, "cputime", samples=samples)

        assert_same(whole, parts)
        assert_same_runtime(whole, parts)


@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 60), st.tuples(st.floats(0, 0.1), st.floats(0.05, 0.3)))
def test_windows_of_time_have_the_same_runtime_in_parts(seed, samples, window) -> None:
    """Instances that ran before a window, and what was ready then, are known in parts too."""
    with tempfile.TemporaryDirectory() as folder:
        trace = flat(Path(folder) / "x.tprof", np.random.default_rng(seed))
        times = {"start_s": window[0], "end_s": window[0] + window[1]}
        whole, parts = trace.profile("cputime", **times), streamed(trace, "cputime", samples=samples, **times)

        assert_same(whole, parts)
        assert_same_runtime(whole, parts)


@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 60), st.sampled_from([{}, {"start_s": 0.05, "end_s": 0.2}]))
def test_windows_have_the_keys_and_chains_of_the_whole(seed, samples, times) -> None:
    """Of an engine's tasks, where keys alone say what these needed."""
    with tempfile.TemporaryDirectory() as folder:
        trace = keyed(Path(folder) / "x.tprof", np.random.default_rng(seed))
        whole, parts = trace.profile("cputime", **times), streamed(trace, "cputime", samples=samples, **times)

        assert_same(whole, parts)
        assert_same_chains(whole, parts)
        assert "1 line of keys is damaged" in " ".join(parts.info["warnings"])


EVENT = st.tuples(
    st.integers(0, 40), st.sampled_from(EventKind), st.integers(0, 6), st.integers(0, 6), st.integers(-1, 2)
)
SAMPLE = st.tuples(st.integers(0, 40), st.integers(0, 5), st.sampled_from(Kind))


@given(lanes=st.lists(st.tuples(st.lists(SAMPLE, max_size=6), st.lists(EVENT, max_size=12)), min_size=1, max_size=3))
@examples(60)
def test_whatever_events_say_windows_say_the_same(lanes) -> None:
    """Events of instances that never ran, twice, before or after these, in circles."""
    with tempfile.TemporaryDirectory() as folder:
        trace = task_graphs.write(Path(folder) / "x.tprof", [Lane(samples, events) for samples, events in lanes], 8)
        whole, parts = (trace.profile("cputime", tables=tables, window_samples=2) for tables in (True, False))

        if len(whole.events):
            assert_same_runtime(whole, parts)


@tprof.task(updates="data")
def change(data) -> None:
    data += sum(range(2_000))


@tprof.task
def parent(count) -> None:
    data = np.zeros(4)
    for _ in range(count):
        change(data)
        change(data[:2])
    current().wait()


def test_a_recorded_program_streams(tmp_path) -> None:
    """What the runtime itself wrote, with tasks that spawn others, wait for them and steal."""
    options = {"energy": "estimate", "counters": "none", "watts": (4, 6)}
    with tprof.record(tmp_path / "x.tprof", **options), Runtime(workers=3):
        for _ in range(60):
            parent(10)
    trace = tprof.load(tmp_path / "x.tprof")
    whole = trace.profile("cputime", attribute_native=False)
    parts = streamed(trace, "cputime", samples=200, attribute_native=False)

    assert len(whole.dependences)
    assert len(whole.starvation) > 1
    assert_same(whole, parts)
    assert_same_runtime(whole, parts)


def test_files_of_a_runtime_hold_the_same_if_it_is_read_in_windows(tmp_path) -> None:
    """All tables, and the arrows between slices."""
    pytest.importorskip("perfetto")
    trace = flat(tmp_path / "x.tprof", np.random.default_rng(5))
    profiles = {"whole": trace.profile("cputime"), "parts": streamed(trace, "cputime", samples=20)}
    for name, profile in profiles.items():
        format_named("csv").write(profile, tmp_path / name)
        format_named("perfetto").write(profile, tmp_path / f"{name}.pftrace")

    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert {"waits.csv", "workers.csv", "dependences.csv", "critical_path.csv", "runtime.json"} <= set(names)
    assert names == sorted(path.name for path in (tmp_path / "parts").iterdir())
    for name in (name for name in names if name.endswith(".csv")):
        whole, parts = (pd.read_csv(tmp_path / folder / name) for folder in profiles)
        if name == "tasks.csv":
            whole, parts = in_order(whole), in_order(parts)
        pd.testing.assert_frame_equal(parts, whole, rtol=1e-9)
    whole, parts = (trace_processor.arrows(tmp_path / f"{name}.pftrace") for name in profiles)
    assert whole
    assert parts == whole


def test_a_timeline_of_keyed_tasks_has_keys_and_arrows_in_windows(tmp_path) -> None:
    """Slices of instances that go on in another window too."""
    pytest.importorskip("perfetto")
    trace = keyed(tmp_path / "x.tprof", np.random.default_rng(5))
    format_named("perfetto").write(trace.profile("cputime"), tmp_path / "whole.pftrace")
    format_named("perfetto").write(streamed(trace, "cputime", samples=20), tmp_path / "parts.pftrace")

    whole, parts = (tmp_path / f"{name}.pftrace" for name in ("whole", "parts"))
    arrows, keys = trace_processor.arrows(whole), trace_processor.keys(whole)
    assert arrows
    assert trace_processor.arrows(parts) == arrows
    assert keys
    assert trace_processor.keys(parts) == keys


@examples(10)
@given(st.integers(0, 2**31), st.integers(1, 60))
def test_trees_of_spawned_tasks_are_those_of_the_whole(seed, samples) -> None:
    """A spawned instance nests in its spawner, which may have ended many windows before."""
    with tempfile.TemporaryDirectory() as folder:
        trace = nested(Path(folder) / "x.tprof", np.random.default_rng(seed))
        trees = [one.flame() for one in (trace.profile("cputime"), streamed(trace, "cputime", samples=samples))]

        whole, parts = ({tuple(path): tree.nodes.loc[row, "energy_j"] for row, path in tree.paths()} for tree in trees)

        assert parts == pytest.approx(whole, rel=1e-9, abs=1e-12)
