"""Threads that are computed together have the figures of threads that are computed one by one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution import short_threads
from tprof.analysis.attribution.segment_energy import LocatedSegments, Rate, gather, locate, spread
from tprof.analysis.attribution.short_threads import Joints, join_arrays, join_segments, together

import tprof
from tprof.trace import Flag, Kind, write_trace

MS = 1_000_000
LENGTH_MS = 200


@st.composite
def threads_of(draw):
    """Draw threads that overlap, share instances, lose counters and go back in time."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    threads = []
    for number in range(draw(st.integers(2, 6))):
        count = int(rng.integers(1, 12))
        begin = int(rng.integers(0, LENGTH_MS * MS // 2))
        t_ns = begin + np.cumsum(rng.integers(0, 20 * MS, count))
        if count > 3 and rng.random() < 0.2:
            t_ns[[1, 2]] = t_ns[[2, 1]]
        instance = rng.integers(0, 4, count).astype(np.uint64) + (0 if rng.random() < 0.5 else 10 * number)
        task = np.where(instance > 0, instance.astype(np.int64) % 3, -1)
        used = np.cumsum(rng.integers(0, 5 * MS, count))
        thread = {"t_ns": np.maximum.accumulate(t_ns), "instance": instance, "task": task, "cpu_ns": used}
        if rng.random() < 0.8:
            thread |= {"instructions": used * 3, "cycles": np.maximum(used - MS, 0) * 2}
        thread["package"] = rng.integers(0, 2, count)
        threads.append(thread)
    return threads


def tables(path: Path, threads, model: str, *, window=None):
    edges_ns = np.arange(0, LENGTH_MS * MS + 1, 7 * MS)
    grows = np.cumsum(np.linspace(0.1, 1.0, len(edges_ns)))
    energy = {"package-0": (edges_ns, grows), "package-1": (edges_ns[::3], grows[::3] * 2)}
    write_trace(path, tasks=["a", "b", "c"], threads=threads, energy=energy)
    trace = tprof.load(path)
    profile = trace.profile(model, **({} if window is None else {"start_s": window[0], "end_s": window[1]}))
    return profile.tasks, profile.accounts, profile.info["warnings"]


@examples(60)
@given(threads_of(), st.sampled_from(["cputime", "auto", "ipc"]), st.sampled_from([None, (0.01, 0.05)]))
def test_threads_computed_together_have_the_figures_of_each_alone(threads, model, window) -> None:
    """All columns, accounts and warnings are those of threads that are computed one after the other."""
    if model == "ipc" and not any("cycles" in one for one in threads):
        return
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        together_, accounts, warnings = tables(Path(folder) / "together.tprof", threads, model, window=window)
        patched.setattr(short_threads, "SHORT_SAMPLES", 0)
        alone, alone_accounts, alone_warnings = tables(Path(folder) / "alone.tprof", threads, model, window=window)

        pd.testing.assert_frame_equal(together_, alone, rtol=1e-12, atol=1e-15)
        pd.testing.assert_frame_equal(accounts, alone_accounts, rtol=1e-12, atol=1e-15)
        assert warnings == alone_warnings


def test_lost_counters_and_failed_tasks_stay_with_their_thread(tmp_path, monkeypatch) -> None:
    """Flags of one thread's samples say nothing of the threads that are computed with it."""
    threads = [
        {"t_ns": np.array([0, 2, 4, 9]) * MS, "instance": np.array([1, 2, 1, 0]) + np.uint64(0), "task": [0, 1, 0, -1]},
        {"t_ns": np.array([1, 3, 8]) * MS, "instance": np.array([0, 7, 0], np.uint64), "task": [-1, 1, -1]},
    ]
    for one in threads:
        one["cpu_ns"] = np.asarray(one["t_ns"])
        one["cycles"] = np.asarray(one["t_ns"]) * 3
    flags = {0: [0, Flag.UNCOUNTED, 0, 0], 1: [0, 0, Flag.FAILED]}
    kinds = {0: [Kind.START, Kind.START, Kind.FINISH, Kind.FINISH], 1: [Kind.FINISH, Kind.START, Kind.FINISH]}
    for number, one in enumerate(threads):
        one["flags"], one["kind"] = np.array(flags[number], np.uint8), np.array(kinds[number], np.uint8)
    got = tables(tmp_path / "together.tprof", threads, "cputime")[0]
    monkeypatch.setattr(short_threads, "SHORT_SAMPLES", 0)
    alone = tables(tmp_path / "alone.tprof", threads, "cputime")[0]

    pd.testing.assert_frame_equal(got, alone, rtol=1e-12)


@examples(60)
@given(st.integers(0, 1 << 20))
def test_joined_segments_spread_and_gather_as_the_threads_do(seed) -> None:
    """Energy per quantum is the threads' sum, and that of each segment is its own."""
    rng = np.random.default_rng(seed)
    edges_ns = np.cumsum(rng.integers(1, 9, 20))
    t_ns = [np.sort(rng.integers(0, 120, rng.integers(2, 9))) for _ in range(5)]
    modelled = [np.where(np.diff(one) > 0, rng.random(len(one) - 1), 0.0) for one in t_ns]
    threads = [LocatedSegments(t, m, locate(t, edges_ns)) for t, m in zip(t_ns, modelled, strict=True)]
    rate = Rate.of(rng.random(len(edges_ns) + 1), edges_ns)

    all_ns = join_arrays(t_ns)
    joints = Joints.of([len(one) for one in modelled]).between
    joined = LocatedSegments(all_ns, join_segments(modelled), locate(all_ns, edges_ns), joints)

    assert [one.quantum.tolist() for one in joined.apart()] == [one.quantum.tolist() for one in threads]
    assert [one.modelled.tolist() for one in joined.apart()] == [one.modelled.tolist() for one in threads]
    np.testing.assert_allclose(spread(joined, edges_ns), sum(spread(one, edges_ns) for one in threads), rtol=1e-12)
    expected = join_segments([gather(one, edges_ns, rate).energy_j for one in threads])
    np.testing.assert_allclose(gather(joined, edges_ns, rate).energy_j, expected, rtol=1e-12)


def test_only_short_threads_of_one_kind_are_computed_together() -> None:
    """A long thread stands alone, and a group has a limit."""
    assert list(together([1, 2, 40_000, 3, 4])) == [slice(0, 2), slice(2, 3), slice(3, 5)]
    assert list(together([1, 2, 3], "aab")) == [slice(0, 2), slice(2, 3)]
    assert list(together([30_000] * 10)) == [slice(0, 8), slice(8, 10)]
    assert list(together([])) == []


@examples(30)
@given(threads_of())
def test_segments_that_are_cut_and_joined_again_are_the_same(threads) -> None:
    """Those of each thread have its own rows and slots, and replace those of the group unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.tprof"
        write_trace(path, tasks=["a", "b", "c"], threads=threads, energy={})
        trace = tprof.load(path)
        groups = trace.profile("cputime").instances.stream.planned(0)[0].groups

    for group in groups:
        pieces = list(group.apart())
        again = group.replaced(pieces)
        for name in ("t_ns", "slot", "cpu_s", "modelled"):
            assert getattr(again, name).tolist() == getattr(group, name).tolist()
        assert again.joints.end.tolist() == group.joints.end.tolist()
        task = group.task_numbers(3)
        for one, part, number in zip(pieces, group.joints.parts(), group.numbers, strict=True):
            assert one.task_numbers(3).tolist() == task[part].tolist()
            assert set(one.rows.numbers) <= {number}
            assert one.slot.max(initial=0) <= len(one.rows)
    assert [number for group in groups for number in group.numbers] == list(range(len(threads)))
