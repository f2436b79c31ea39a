"""The engine: segments and instances that samples become, and the joules that these get, against oracles."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.properties import examples
from tprof.analysis.attribution.instance_bounds import WIDTH
from tprof.analysis.attribution.segment_energy import LocatedSegments, gather, spread
from tprof.analysis.attribution.segments import Joints
from tprof.analysis.attribution.survey import survey
from tprof.analysis.attribution.windows import Window, cut_windows
from tprof.analysis.engine import _engine
from tprof.analysis.engine.instance_table import INSTANCE, InstanceTable
from tprof.analysis.models import choose_model

import tprof
from tprof.trace import Flag, Kind, layout
from tprof.trace.metadata import MAX_NS

WHOLE = Window((0, MAX_NS), MAX_NS, ())


def by_number(found):
    """Return the segments of threads by their numbers."""
    return dict(zip(found.numbers, found.apart(), strict=True))


def reader_of(trace, model="cputime", columns=None):
    """Return what reads a trace, and the windows of few samples."""
    chosen = choose_model(model, frozenset(name for one in trace.threads for name in one.columns))
    found = survey(trace, chosen, (0, 1), step=8)
    return found.reader(chosen, columns), found


@st.composite
def threads_in_intervals(draw):
    """Draw the segments of some threads, and edges between which they lie, or not."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    edges_ns = np.unique(np.cumsum(rng.integers(1, 9, rng.integers(1, 20))))
    t_ns = [np.sort(rng.integers(0, 120, rng.integers(2, 9))) for _ in range(rng.integers(1, 6))]
    values = [np.where(np.diff(one) > 0, rng.random(len(one) - 1), 0.0) for one in t_ns]
    return t_ns, values, edges_ns, rng


def slowly(t_ns, values, edges_ns):
    """Return (segments, intervals) parts of values, by the time that each segment is in each interval, padded."""
    bounds = np.concatenate(([-(10**6)], edges_ns, [10**6]))
    begin, end = t_ns[:-1, None], t_ns[1:, None]
    common = np.clip(np.minimum(end, bounds[1:]) - np.maximum(begin, bounds[:-1]), 0, None)
    return values[:, None] * common / np.maximum(end - begin, 1)


@examples(100)
@given(threads_in_intervals())
def test_values_are_spread_over_intervals_and_gathered_from_them_by_time(drawn) -> None:
    """Those of one thread, and those of several that stand one after the other."""
    t_ns, values, edges_ns, rng = drawn
    rate = rng.random(len(edges_ns) + 1)
    parts = [slowly(*one, edges_ns) for one in zip(t_ns, values, strict=True)]
    ends = np.cumsum([len(one) for one in t_ns]) - 1
    joints = Joints(ends - [len(one) for one in values], ends)
    flat = np.concatenate([np.append(one, 7.0) for one in values])[:-1]

    joined = LocatedSegments(np.concatenate(t_ns), flat, edges_ns, joints)

    for located, part in zip(joined.apart(), parts, strict=True):
        np.testing.assert_allclose(spread(located), part.sum(axis=0), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(gather(located, rate), part @ rate, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(spread(joined), sum(part.sum(axis=0) for part in parts), rtol=1e-12, atol=1e-15)
    energy_j = gather(joined, rate)
    assert [energy_j[at].tolist() for at in joints.parts()] == [gather(one, rate).tolist() for one in joined.apart()]


@examples(100)
@given(threads_in_intervals())
def test_owners_get_their_joules_and_those_of_their_first_and_last_interval_apart(drawn) -> None:
    """An interval without a number does not count; a segment that covers all of one is no end there."""
    (t_ns, *_), (values, *_), edges_ns, rng = drawn
    rows, width = 4, len(edges_ns) + 1
    rate, slot = rng.random(width), rng.integers(0, rows, len(values)).astype(np.int32)
    number = np.sort(rng.integers(0, width, width)).astype(np.int32)
    number[rng.random(width) < 0.3] = -1
    most_j, energy_j, edges = rng.random(width), np.zeros(rows), np.zeros((rows - 1, WIDTH))

    course = LocatedSegments(t_ns, values, edges_ns).course
    _engine.share(course, values, rate, (slot, energy_j, (number, most_j, edges)))

    joules, ends = slowly(t_ns, values, edges_ns) * rate, np.zeros((len(values), width), bool)
    begin, end, before_end = (
        np.searchsorted(edges_ns, one, side="right") for one in (t_ns[:-1], t_ns[1:], t_ns[1:] - 1)
    )
    ends[np.arange(len(values)), begin] = ends[np.arange(len(values)), end] = True
    inside = t_ns[1:] > t_ns[:-1]
    for row in range(rows):
        assert energy_j[row] == pytest.approx(joules[slot == row].sum())
        own = (joules * ends)[slot == row].sum(axis=0)
        if row == 0:
            continue
        starts, stops = set(), set()
        for at in np.flatnonzero(slot == row):
            starts |= set(number[begin[at] : before_end[at] + 1] if inside[at] else [number[begin[at]]])
            stops |= set(number[begin[at] : before_end[at] + 1] if inside[at] else [number[before_end[at]]])
        first, last = min(starts - {-1}, default=-1), max(stops, default=-1)
        assert edges[row - 1, :2].tolist() == [first + 1, last + 1]
        sums = [own[number == one].sum() if one >= 0 else 0.0 for one in (first, last)]
        assert edges[row - 1, 2:4] == pytest.approx(sums)


@examples(100)
@given(threads_in_intervals())
def test_what_runs_is_counted_in_each_interval(drawn) -> None:
    (t_ns, *_), (values, *_), edges_ns, rng = drawn
    slot = rng.integers(0, 2, len(values)).astype(np.int32)
    running = np.zeros(len(edges_ns) + 2, np.int64)

    _engine.count_running(LocatedSegments(t_ns, values, edges_ns).course, slot, running)

    ran = slowly(t_ns, np.ones(len(values)), edges_ns)[(slot > 0) & (np.diff(t_ns) > 0)] > 0
    assert np.cumsum(running)[:-1].tolist() == ran.sum(axis=0).tolist()


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 100), st.sampled_from([None, 0.3]))
def test_blocks_of_any_length_give_the_segments_and_instances_of_the_whole(seed, samples, lost) -> None:
    """Each segment is whole in every block that it overlaps; sums of instances are those of all samples."""
    with tempfile.TemporaryDirectory() as folder:
        options = {} if lost is None else {"lost": lost}
        trace = tprof.load(nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), **options))
        whole, found = reader_of(trace, "auto")
        parts, _ = reader_of(trace, "auto")
        every = by_number(whole.read(WHOLE))
        ended = []
        for window in cut_windows(found.threads, [], samples):
            for number, one in by_number(parts.read(window)).items():
                at = int(np.searchsorted(every[number].t_ns, one.t_ns[0]))
                at += int(every[number].t_ns[at + 1] <= one.t_ns[0]) if len(one.t_ns) > 1 else 0
                assert set(one.t_ns.tolist()) <= set(every[number].t_ns.tolist())
                assert (one.t_ns[1:] >= window.own_ns[0]).all()
            over = parts.over()
            ended += [(r["instance"], r["start_ns"], r["end_ns"], r["parent"], r["own_s"], *c) for r, c in zip(
                parts.instances.records[over], parts.instances.counts[over], strict=True)]  # fmt: skip
        expected = [
            (r["instance"], r["start_ns"], r["end_ns"], r["parent"], r["own_s"], *c)
            for r, c in zip(whole.instances.records, whole.instances.counts, strict=True)
        ]

    assert len(ended) == len(expected)
    for one, other in zip(sorted(ended), sorted(expected), strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True)
    assert parts.facts == whole.facts


def test_samples_say_of_instances_when_they_began_on_what_and_how_they_ended(tmp_path) -> None:
    """One that fails is nested in one that stays open; a time that goes back is raised to the one before."""
    thread = {
        "t_ns": np.array([10, 20, 15, 30]), "instance": np.array([1, 2, 1, 1]), "task": np.array([0, 1, 0, 0]),
        "kind": np.array([Kind.START, Kind.START, Kind.FINISH, Kind.RESUME]), "cpu": np.array([0, 1, 1, 0]),
        "flags": np.array([0, 0, Flag.FAILED, 0]), "cpu_ns": np.array([0, 4, 9, 9]),
    }  # fmt: skip
    path = traces.write(tmp_path / "x.tprof", threads=[thread | {"t_ns": np.array([10, 20, 20, 30])}])
    content = bytearray(traces.samples_of(path).read_bytes())
    np.frombuffer(content, layout.sample_dtype(("",) * 5), offset=layout.HEADER_BYTES)["t_ns"] = thread["t_ns"]
    traces.samples_of(path).write_bytes(bytes(content))
    reader, _ = reader_of(tprof.load(path))

    (one,) = reader.read(WHOLE).apart()

    outer, inner = reader.instances.records
    assert one.t_ns[:4].tolist() == [10, 20, 20, 30]
    assert one.cpu_s[:3].tolist() == pytest.approx([4e-9, 5e-9, 0.0])
    assert (outer["instance"], outer["parent"], outer["begun"], outer["ended"]) == (1, 0, True, False)
    assert (inner["instance"], inner["parent"], inner["ended"], inner["failed"]) == (2, 1, True, True)
    assert (inner["start_ns"], inner["end_ns"], inner["cpu"]) == (20, 20, 1)
    assert reader.facts.disordered == 1


def test_tables_find_their_instances_after_others_were_forgotten() -> None:
    table = InstanceTable(0, {"joules": 2})
    records = np.zeros(5000, INSTANCE)
    records["instance"] = np.random.default_rng(0).permutation(1 << 16)[:5000].astype(np.uint64) << np.uint64(40)
    records["instance"] += np.uint64(1)
    table.add(records)
    table.sums["joules"][:, 0] = np.arange(5000)

    rows = table.keep(np.arange(5000) % 3 == 0)

    found = table.find(records["instance"])
    assert found.tolist() == rows.tolist()
    kept = np.flatnonzero(rows >= 0)
    assert table.sums["joules"][rows[kept], 0].tolist() == kept.tolist()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"values": 1}, "the values must have 2 elements, got 1"),
        ({"rates": 2}, "the rates must have 3 elements, got 2"),
        ({"slot": 5}, "a key is negative"),
        ({"slot": -1}, "a key is negative"),
        ({"begins": 3}, "threads must have places among the segments"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed, problem) -> None:
    begins = None if "begins" not in changed else np.array([changed["begins"]])
    course = np.array([0, 1, 2]), begins, None if begins is None else np.array([4]), np.array([0, 5])
    slot = np.array([0, changed.get("slot", 0)], np.int32)

    with pytest.raises(ValueError, match=problem):
        _engine.share(
            course, np.ones(changed.get("values", 2)), np.ones(changed.get("rates", 3)), (slot, np.zeros(1), None)
        )


def test_bytes_that_are_no_records_are_refused() -> None:
    table = np.zeros(7, np.uint8), np.zeros((0, 0)), np.full(4, -1, np.int32), 0, 0

    with pytest.raises(ValueError, match=f"records of {INSTANCE.itemsize} bytes"):
        _engine.fill_index(table)
