"""Timelines of a recording that is read window by window have the slices of the whole recording."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, trace_processor
from support.properties import examples
from tprof.analysis.export import format_named
from tprof.analysis.export.slices import END, MARK, share_slices

import tprof

NUMBERS = ("energy_j", "energy_low_j", "energy_high_j", "power_w")


def in_windows(trace, samples=50, **options):
    return trace.profile(tables=False, window_samples=samples, **options)


def events_of(profile):
    """Return for each thread its events, and for each instance what the slices say of it."""
    events, figures, ended = {}, {}, []

    def take(tasks, threads):
        ids = tasks["instance"].tolist()
        for one in threads:
            cpu_ns = [None] * len(one) if one.cpu_ns is None else one.cpu_ns.tolist()
            found = events.setdefault(one.thread.ordinal, [])
            assert one.thread.ordinal not in ended
            ended.extend([one.thread.ordinal] if one.is_last else [])
            for t_ns, row, again, cpu in zip(
                one.t_ns.tolist(), one.row.tolist(), one.continues.tolist(), cpu_ns, strict=True
            ):
                what = {END: "end", MARK: "mark"}.get(row) or ids[row]
                found.append((t_ns, what, again, cpu))
                if row >= 0:
                    row_of = tasks.iloc[row]
                    figures[what] = [str(row_of["task"]), int(row_of["cpu"]), *(row_of[name] for name in NUMBERS)]

    share_slices(profile, take)
    assert sorted(ended) == sorted(events)
    return events, figures


@examples(30)
@given(st.integers(0, 2**31), st.integers(1, 300), st.integers(0, 3), st.none() | st.floats(0, 0.25))
def test_slices_of_windows_are_those_of_the_whole(seed, samples, domains, begin_s) -> None:
    """Of nested, suspended and moved instances, some of which last throughout, and of windows of time."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains)
        trace = tprof.load(path)
        times = {} if begin_s is None else {"start_s": begin_s, "end_s": begin_s + 0.05}

        whole, whole_figures = events_of(trace.profile(**times))
        parts, figures = events_of(in_windows(trace, samples, **times))

        assert parts == whole
        assert figures.keys() == whole_figures.keys()
        for instance, (task, cpu, *numbers) in whole_figures.items():
            assert figures[instance][:2] == [task, cpu]
            assert figures[instance][2:] == pytest.approx(numbers, rel=1e-9, abs=1e-12, nan_ok=True)


@examples(15)
@given(st.integers(0, 2**31), st.integers(1, 300))
def test_slices_of_threads_without_cpu_time_are_those_of_the_whole(seed, samples) -> None:
    """Such threads have events only where another instance runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed))
        trace = tprof.load(path)
        bare = tuple(replace(one, columns={}) for one in trace.threads)
        trace = replace(trace, threads=bare)

        assert events_of(in_windows(trace, samples))[0] == events_of(trace.profile())[0]


@pytest.mark.parametrize("samples", [7, 60, 1000])
def test_perfetto_finds_the_same_slices_and_counters_in_windows(tmp_path, samples) -> None:
    """By its own trace processor, which reports no fault in the file."""
    pytest.importorskip("perfetto")
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(6)))
    profile = in_windows(trace, samples)
    trace.profile().to_perfetto(tmp_path / "whole.pftrace")
    profile.to_perfetto(tmp_path / "parts.pftrace")

    found = []
    for name in ("whole", "parts"):
        with trace_processor.opened(tmp_path / f"{name}.pftrace") as rows:
            figures = ", ".join(
                f"extract_arg(arg_set_id, 'debug.{one}') as {one}" for one in (*NUMBERS, "instance", "continues", "cpu")
            )
            slices = rows(
                f"select slice.name as name, ts, dur, thread_dur, depth, tid, {figures} from slice join thread_track"  # noqa: S608
                " on slice.track_id = thread_track.id join thread using (utid) order by tid, ts, depth, instance"
            )
            counters = rows("select track_id, ts, value from counter order by 1, 2, 3")
            assert rows("select name from stats where severity in ('error', 'data_loss') and value > 0") == []
            found.append((slices, len(counters)))
    (whole, points), (parts, other_points) = found
    assert points == other_points
    assert len(parts) == len(whole) > 100
    for one, other in zip(whole, parts, strict=True):
        for name, value in one.items():
            assert other[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)


def test_spans_of_windows_are_those_of_the_whole(tmp_path) -> None:
    """In the order in which instances ended."""
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(7)))
    format_named("otlp").write(trace.profile(), tmp_path / "whole.jsonl")
    format_named("otlp").write(in_windows(trace), tmp_path / "parts.jsonl")

    whole, parts = (spans_of(tmp_path / f"{name}.jsonl") for name in ("whole", "parts"))

    assert parts.keys() == whole.keys()
    for span, (known, numbers) in whole.items():
        assert parts[span][0] == known
        assert parts[span][1] == pytest.approx(numbers, rel=1e-9, abs=1e-12)


def spans_of(path):
    """Return by id what a span says: what must be equal, and its numbers."""
    found = {}
    for line in path.read_text().splitlines():
        for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            given = {one["key"]: one["value"] for one in span.pop("attributes", ())}
            numbers = {key: value.pop("doubleValue") for key, value in given.items() if "doubleValue" in value}
            found[span["spanId"]] = ((span, given), numbers)
    return found
