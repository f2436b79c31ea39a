"""Recordings of many threads that live at the same time are cut into windows of about the size that is asked for."""

from __future__ import annotations

import numpy as np
import pytest
from support.streamed_profiles import assert_same, streamed
from tprof.analysis.attribution.survey import survey
from tprof.analysis.attribution.windows import IndexedThread, Reach, cut_windows, most_at_once
from tprof.analysis.models import choose_model

import tprof

MS = 1_000_000
THREADS, EACH = 200, 60


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("many") / "x.tprof"
    threads = []
    for number in range(THREADS):
        t_ns = np.sort(rng.integers(0, 1000 * MS, EACH))
        instance = np.where(np.arange(EACH) % 2 == 0, ((number + 1) << 40) + 1 + np.arange(EACH), 0).astype(np.uint64)
        task = np.where(instance > 0, number % 2, -1)
        threads.append({"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": t_ns // 2, "tid": number})
    edges_ns = np.arange(0, 1001, 5) * MS
    tprof.write_trace(
        path, tasks=("a", "b"), threads=threads, energy={"package-0": (edges_ns, np.cumsum(rng.random(len(edges_ns))))}
    )
    return tprof.load(path)


@pytest.mark.parametrize("step", [8, 4096])
def test_windows_have_about_as_many_samples_however_few_of_a_threads_times_are_known(trace, step) -> None:
    found = survey(trace, choose_model("cputime", frozenset()), (0,), step)
    edges_ns = np.arange(0, 1001, 5) * MS

    windows = cut_windows(found.threads, [Reach(edges_ns[:-1], edges_ns[1:])], 1000)

    t_ns = np.sort(np.concatenate([one.read()["t_ns"].astype(np.int64) for one in trace.threads]))
    counts = [int(np.diff(np.searchsorted(t_ns, one.own_ns))[0]) for one in windows]
    assert sum(counts) == THREADS * EACH
    assert max(counts) < 2000


def test_the_figures_are_those_of_the_whole(trace) -> None:
    assert_same(trace.profile("cputime"), streamed(trace, "cputime", samples=1000))
    assert_same(trace.profile("cputime"), streamed(trace, "cputime", samples=None))


def test_threads_that_follow_each_other_do_not_count_together() -> None:
    def lived(begin_ns, end_ns):
        return IndexedThread(None, np.array([begin_ns]), 4096, end_ns, 0)

    assert most_at_once([lived(0, 10), lived(10, 20), lived(20, 30)]) == 1
    assert most_at_once([lived(0, 11), lived(10, 20), lived(5, 30)]) == 3
    assert most_at_once([]) == 0
