"""Sampled stacks of a recording that is read in windows stand for the joules that they do in the whole recording."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import native_pools, nested_runs, stacks, traces
from support.properties import examples
from support.streamed_profiles import streamed
from tprof.analysis.attribution import stack_samples
from tprof.analysis.report.profile_page import page_data

import tprof
from tprof.errors import UsageError
from tprof.trace import kinds, layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tprof.analysis.profile.flame_tree import Flame

MS = nested_runs.MS
LENGTH_NS = nested_runs.LENGTH_MS * MS
FUNCTIONS = [
    *(stacks.function(number, f"f{number}", f"/a.py:{number}") for number in range(4)),
    stacks.call(0, 0), stacks.call(1, 1, 0), stacks.call(2, 2, 1), stacks.call(3, 3, 0), stacks.call(4, 1, 3),
    stacks.function(4, "of a pool", "/b.py:9"), stacks.call(5, 4), stacks.call(6, 2, 5),
]  # fmt: skip


def add_stacks(
    path: Path,
    rng: np.random.Generator,
    count: int,
    *,
    clock: bool = True,
    twice: bool = True,
    also: Iterable[int] = (),
) -> None:
    """Sample the stacks of a recording's threads at random times, at begins of segments and twice at a time too.

    Threads without samples are `also` sampled.
    """
    found, trace = list(FUNCTIONS), tprof.load(path)
    for tid in also:
        t_ns = np.unique(rng.integers(0, LENGTH_NS, count))
        cpu_ns = np.cumsum(rng.integers(0, LENGTH_NS // len(t_ns), len(t_ns)))
        found.append(stacks.samples(t_ns, rng.integers(5, 7, len(t_ns)), tid=tid, cpu_ns=cpu_ns))
    for number in range(3):
        edges_ns = trace.threads[number].read()["t_ns"].astype(np.int64)
        t_ns = np.concatenate((rng.integers(-MS, LENGTH_NS + MS, count), rng.choice(edges_ns, count // 4)))
        t_ns = np.maximum(np.append(t_ns, t_ns[:1]), 0)
        t_ns = np.sort(t_ns) if twice else np.unique(t_ns)
        cpu_ns = np.cumsum(rng.integers(0, LENGTH_NS // len(t_ns), len(t_ns))) + number * MS
        found.append(stacks.samples(t_ns, rng.integers(0, 5, len(t_ns)), tid=7 + number, cpu_ns=cpu_ns * clock))
    stacks.write(path, np.concatenate(found), pid=native_pools.PID)


def assert_same_tree(whole: Flame, parts: Flame, rtol: float = 1e-9) -> None:
    """Compare two trees, whatever the order of their nodes, and their functions."""
    pd.testing.assert_frame_equal(_by_path(parts), _by_path(whole), rtol=rtol, atol=1e-12)
    assert parts.sampled == whole.sampled
    assert parts.effective == pytest.approx(whole.effective, rel=rtol)
    by_name = (one.functions().sort_values(["name", "place"], ignore_index=True) for one in (parts, whole))
    pd.testing.assert_frame_equal(*by_name, rtol=rtol, atol=1e-12)


def _by_path(tree: Flame) -> pd.DataFrame:
    paths = {row: " / ".join(path) for row, path in tree.paths()}
    nodes = tree.nodes.drop(columns="parent").astype({"kind": str})
    nodes.index = pd.Index([(paths.get(row, "all"), nodes["place"][row]) for row in range(len(nodes))])
    return nodes.sort_index()


@examples(60)
@example(seed=1, samples=1, count=40, model="cputime", clock=True)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.integers(1, 120), st.sampled_from(["cputime", "ipc", "auto"]),
    st.booleans(),
)  # fmt: skip
def test_functions_of_windows_of_any_size_are_those_of_the_whole(seed, samples, count, model, clock) -> None:
    """Of instances that nest, wait, move and last for many windows, and of threads outside tasks."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(seed)
        path = nested_runs.write(Path(folder) / "x.tprof", rng, domains=int(rng.integers(1, 4)))
        add_stacks(path, rng, count, clock=clock)
        trace = tprof.load(path)

        assert_same_tree(trace.profile(model).flame(), streamed(trace, model, samples=samples).flame())


@examples(20)
@given(st.integers(0, 2**31), st.integers(10, 300), st.tuples(st.floats(0, 0.25), st.floats(0.02, 0.3)))
def test_functions_of_a_window_of_time_are_those_of_the_whole(seed, samples, window) -> None:
    """Whether its samples are read in parts or not."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(seed)
        path = nested_runs.write(Path(folder) / "x.tprof", rng)
        add_stacks(path, rng, 60)
        trace, times = tprof.load(path), {"start_s": window[0], "end_s": window[0] + window[1]}

        assert_same_tree(trace.profile(**times).flame(), streamed(trace, samples=samples, **times).flame())


@examples(10)
@given(st.integers(0, 2**31), st.integers(20, 300), st.sampled_from([0.0, 0.6]))
def test_functions_by_fitted_powers_are_those_of_the_whole(seed, samples, timed) -> None:
    """With quanta that overlap, whose edges are estimated, too."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(seed)
        # At most 9 ms each, so that every recording has the 30 readings that a fit needs.
        path = nested_runs.write(Path(folder) / "x.tprof", rng, timed=timed, domains=2, updates_ms=(4, 10))
        add_stacks(path, rng, 60)
        trace = tprof.load(path)

        assert_same_tree(trace.profile("fitted").flame(), streamed(trace, "fitted", samples=samples).flame(), 1e-5)


@pytest.mark.parametrize("seed", [0, 4, 7, 10])
def test_functions_beside_native_threads_are_those_of_the_whole(tmp_path, seed) -> None:
    """Whose pools share the joules with the pieces of segments as with these, and one of which runs Python."""
    rng = np.random.default_rng(seed)
    path = nested_runs.write(tmp_path / "x.tprof", rng, pools=4)
    python = [one.tid for one in tprof.load(path).native_threads if "python" in one.library]
    add_stacks(path, rng, 60, also=python)
    trace = tprof.load(path)
    whole = trace.profile("ipc").flame()

    assert "of a pool" in set(whole.nodes["name"])
    assert_same_tree(whole, streamed(trace, "ipc", samples=90).flame())


@pytest.mark.parametrize("by", [("process", "thread"), ("host",)])
def test_levels_above_the_tasks_are_those_of_the_whole(tmp_path, monkeypatch, by) -> None:
    """Of time outside tasks too, and where few records are read at a time."""
    rng = np.random.default_rng(5)
    path = nested_runs.write(tmp_path / "x.tprof", rng)
    add_stacks(path, rng, 100)
    trace = tprof.load(path)
    whole = trace.profile().flame(*by)
    monkeypatch.setattr(stack_samples, "BLOCK", 7)

    assert_same_tree(whole, streamed(trace, samples=60).flame(*by))


def test_a_wait_of_many_windows_has_the_stacks_of_all_of_them(tmp_path) -> None:
    """One thread waits in a segment throughout, and is sampled in each window; another one computes in short tasks."""
    t_ns = np.arange(301) * MS
    busy = {
        "t_ns": t_ns, "instance": [*range(2, 302), 0], "task": [*([1] * 300), -1], "cpu_ns": t_ns, "tid": 8,
    }  # fmt: skip
    waits = {"t_ns": [0, LENGTH_NS], "instance": [1, 0], "task": [0, -1], "cpu_ns": [0, 30 * MS], "tid": 7}
    energy = {"package-0": (np.arange(31) * 10 * MS, np.cumsum(np.linspace(1, 2, 31)))}
    path = traces.write(tmp_path / "x.tprof", tasks=("main", "leaf"), threads=[waits, busy], energy=energy)
    when = np.arange(1, 300) * MS
    sampled = stacks.samples(when, [1 + at % 4 for at in range(299)], tid=7, cpu_ns=np.arange(1, 300) * MS // 10)
    stacks.write(path, np.concatenate([*FUNCTIONS, sampled]))
    trace = tprof.load(path)

    whole, parts = trace.profile("cputime"), streamed(trace, "cputime", samples=20)

    assert len(parts.instances.begins_ns) > 10
    assert_same_tree(whole.flame(), parts.flame())


def test_samples_that_no_order_has_are_put_in_order(tmp_path) -> None:
    """A file whose records were shuffled gives the same tree."""
    rng = np.random.default_rng(2)
    path = nested_runs.write(tmp_path / "x.tprof", rng)
    add_stacks(path, rng, 100, twice=False)
    ordered = tprof.load(path).profile().flame()
    records = tprof.load(path).stack_files[0].stream.read(layout.STACK)
    is_sample = records["kind"] == kinds.StackKind.SAMPLE
    stacks.write(path, np.concatenate([records[~is_sample], rng.permutation(records[is_sample])]))
    trace = tprof.load(path)

    assert_same_tree(ordered, trace.profile().flame())
    assert_same_tree(trace.profile().flame(), streamed(trace).flame())


def test_stacks_and_a_report_of_windows_need_no_pyarrow(tmp_path, monkeypatch) -> None:
    """The process that sums up after a program hides it, and many have none."""
    path = nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0))
    add_stacks(path, np.random.default_rng(0), 60)
    trace = tprof.load(path)
    whole = trace.profile()
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    parts = streamed(trace)

    assert_same_tree(whole.flame(), parts.flame())
    ours, theirs = page_data(parts), page_data(whole)
    assert ours["longest"].keys() == theirs["longest"].keys()
    for task, rows in theirs["longest"].items():
        assert ours["longest"][task]["energy_j"] == pytest.approx(rows["energy_j"])
        assert ours["longest"][task]["own_s"] == pytest.approx(rows["own_s"])
    with pytest.raises(UsageError, match=r"scan_tasks needs pyarrow: run pip install 'tprof-energy\[parquet\]'"):
        parts.scan_tasks()
