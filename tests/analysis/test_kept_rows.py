"""Sums over instances, made in steps, give the summary of the profile."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples
from test_live_shares import written
from tprof.analysis.attribution.instance_sums import joined

import tprof
from tprof.live.kept_sums import KeptSums
from tprof.trace.sums import SumsReader

MS = 1_000_000


@examples(40)
@given(written(most_native=0), st.sampled_from([10 * MS, 70 * MS, 1000 * MS]))
def test_sums_made_in_steps_are_those_of_the_profile(tmp_path_factory, write, span_ns):
    path = write(tmp_path_factory.mktemp("written") / "t.tprof")
    kept = KeptSums(path, span_ns, is_over=True)
    kept.finish()

    trace, found = tprof.load(path), [block.tasks for block in SumsReader(path).blocks()]
    numbers = trace.threads[0].table.numbers(0) if trace.threads else {}
    names = {number: trace.threads[0].table.entries[index].name for number, index in numbers.items()}
    by_task = {names[int(row["task"])]: row for row in joined(found, ["task"])}
    profile = trace.profile("cputime")
    close = {"rel": 1e-9, "abs": 1e-12 * max(float(profile.measured_j), 1e-9)}
    tasks = profile.tasks[profile.tasks["energy_j"].notna()]
    for name, group in tasks.groupby("task", observed=True):
        assert by_task[name]["energy_j"] == pytest.approx(group["energy_j"].sum(), **close)
        assert by_task[name]["dynamic_j"] == pytest.approx(group["dynamic_j"].sum(), **close)


def thread_of(rng, number, steps=120):
    """Return a thread that runs one task after the other, with pauses between, and every instance to its end."""
    t_ns = np.cumsum(rng.integers(1, 30 * MS, steps)) + 1001 * MS
    instance = np.where(np.arange(steps) % 2, 0, (number << 40) + np.arange(steps) + 1)
    task = np.where(instance > 0, rng.integers(0, 3, steps), -1)
    cpu_ns = np.cumsum(np.diff(t_ns, prepend=0) * rng.random(steps)).astype(np.int64)
    return {"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": cpu_ns, "tid": 100 + number}


@examples(30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["summary", "threads"]), st.sampled_from([10 * MS, 1000 * MS]))
def test_the_intervals_of_kept_sums_cover_the_means_of_the_profile(tmp_path_factory, seed, keep, span_ns):
    """Joules of tasks and threads, and means, are the profile's, and so nearly are the widths of intervals."""
    rng, path = np.random.default_rng(seed), tmp_path_factory.mktemp("kept") / "t.tprof"
    threads = [thread_of(rng, number) for number in range(3)]
    edges_ns = np.arange(1000 * MS, max(one["t_ns"][-1] for one in threads) + 20 * MS, 20 * MS)
    energy = {"package-0": (edges_ns, np.cumsum(rng.random(len(edges_ns))))}
    tprof.write_trace(path, tasks=["a", "b", "c"], threads=threads, energy=energy, quality="measured")
    whole = tprof.load(path).profile("cputime")
    expected = whole.summary()
    domains = {"domains": whole.info["domains"]}
    traces.set_json(path / "manifest.json", keep=keep, span_s=span_ns * 1e-9, format=[2, 0], **domains)
    kept = KeptSums(path, span_ns, is_over=True)
    kept.finish()
    kept.remove_streams()

    profile = tprof.load(path).profile()
    found = profile.summary().loc[expected.index]

    for name in ("instances", "energy_j", "energy_mean_j", "duration_mean_s"):
        assert found[name].tolist() == pytest.approx(expected[name].tolist(), rel=1e-9), name
    assert (found["energy_mean_low_j"] <= expected["energy_mean_j"]).all()
    assert (found["energy_mean_high_j"] >= expected["energy_mean_j"]).all()
    width = found["energy_mean_high_j"] - found["energy_mean_low_j"]
    assert width.tolist() == pytest.approx(
        (expected["energy_mean_high_j"] - expected["energy_mean_low_j"]).tolist(), rel=0.02
    )
    if keep == "threads":
        by_thread = profile.by("thread")
        assert by_thread["energy_j"].sum() == pytest.approx(expected["energy_j"].sum(), rel=1e-9)
        assert by_thread["instances"].tolist() == [60, 60, 60]
