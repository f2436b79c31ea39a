"""The columns of the equations are the integrals that they claim to be, and effects keep a task's energy."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured_quanta import MS, consecutive
from support.properties import examples
from tprof.analysis.models.fitted.contention import CANDIDATES, contention_columns, likely_pairs
from tprof.analysis.models.fitted.equations import BLOCKS, COOLING, Rows, Work, base_columns, worked_in
from tprof.analysis.models.fitted.extensions import Effects, Known, extension_columns

TASKS = 2
"""Number 2 is what runs between tasks."""
PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def rows_of(lengths_ms, window_ms=0.0):
    edges_ns = np.round(np.concatenate(([0.0], np.cumsum(lengths_ms))) * MS).astype(np.int64)
    count = len(lengths_ms)
    return Rows(
        edges_ns, np.full(count + 1, window_ms * MS), np.ones(count), np.zeros(count), np.ones(count, bool), 1e-6,
        timed=bool(window_ms),
    )  # fmt: skip


@st.composite
def threads(draw):
    """Draw threads whose segments begin on whole tenths of a millisecond."""
    found = []
    for core in range(draw(st.integers(1, 3))):
        lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=12))
        t_ns = (draw(st.integers(0, 20)) + np.concatenate(([0], np.cumsum(lengths)))) * (MS // 10)
        task = np.array(draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths))), np.int32)
        cores = np.full(len(lengths), core, np.int32)
        modelled = np.where(task < TASKS, np.diff(t_ns) * 1e-9, 0.0)
        found.append(Work(t_ns.astype(np.int64), modelled, task, cores, np.log(np.diff(t_ns)).astype(np.float32)))
    return found


def states(work, end_ms):
    """Return what each thread runs in each tenth of a millisecond; 2: nothing."""
    tenths = (np.arange(round(end_ms * 10)) + 0.5) * (MS // 10)
    found = []
    for one in work:
        at = np.searchsorted(one.t_ns, tenths, side="right") - 1
        inside = (at >= 0) & (at < len(one.task))
        found.append(np.where(inside, one.task[np.clip(at, 0, len(one.task) - 1)], TASKS))
    return np.array(found)


@given(threads(), st.lists(st.integers(1, 4), min_size=3, max_size=8))
@examples(80)
def test_columns_of_pairs_are_those_of_a_slow_count(work, lengths_ms):
    rows = rows_of(lengths_ms)

    found = contention_columns(rows, work, PAIRS, 0.0, np.array([4.0, 10.0, 0.0]))

    state, row = states(work, sum(lengths_ms)), np.repeat(np.arange(len(lengths_ms)), np.array(lengths_ms) * 10)
    number = np.array([(state == task).sum(axis=0) for task in range(TASKS)])
    for place, (victim, aggressor) in enumerate(PAIRS):
        others = number[aggressor] - (victim == aggressor)
        for form, beside in (("saturating", others >= 1), ("counting", np.maximum(others, 0))):
            slow_s = np.bincount(row, weights=number[victim] * beside * 1e-4)
            assert found.columns[form][:, place] == pytest.approx(slow_s, abs=1e-9)
    busy = number.sum(axis=0)
    slow_j = np.bincount(row, weights=(number.T @ [4.0, 10.0]) * np.maximum(busy - 1, 0) * 1e-4)
    assert found.crowd == pytest.approx(slow_j, abs=1e-9)


@given(threads(), st.lists(st.floats(0.5, 4.0), min_size=3, max_size=8), st.floats(0.0, 0.4), st.floats(0.0, 1e-3))
@examples(60)
def test_blurred_time_of_tasks_is_moved_and_not_lost(work, lengths_ms, window_ms, late_s):
    """All that ran between the first edge and the last is in some row, but for what their windows hold."""
    rows = rows_of(lengths_ms, window_ms)

    time, _ = base_columns(rows, work, TASKS, late_s if window_ms else 0.0)

    number = (states(work, sum(lengths_ms) + 1) < TASKS).sum(axis=0)
    blur_s = len(work) * (window_ms * 1e-3 + late_s) + 1e-9
    end = round(sum(lengths_ms) * 10)
    assert time.sum() == pytest.approx(number[:end].sum() * 1e-4, abs=blur_s + len(work) * 1e-4)
    assert (time >= -1e-12).all()


@given(threads(), st.lists(st.booleans(), min_size=8, max_size=8), st.floats(0.0, 0.3))
@examples(60)
def test_what_ran_outside_the_rows_does_not_matter(work, used, window_ms):
    """A segment that lasts over several parts of the rows counts in each once."""
    rows = dataclasses.replace(rows_of([1.0] * 8, window_ms), used=np.array([True, *used[1:]]))

    part = worked_in(rows, work, 1e-4)

    late_s = 1e-4 if window_ms else 0.0
    expected, _ = base_columns(rows, work, TASKS, late_s)
    found, _ = base_columns(rows, part, TASKS, late_s)
    assert found == pytest.approx(expected, abs=1e-12)
    beside = [contention_columns(rows, one, PAIRS, late_s, np.ones(3)).columns["counting"] for one in (work, part)]
    assert beside[1] == pytest.approx(beside[0], abs=1e-12)


@given(threads(), st.lists(st.floats(-0.3, 0.3), min_size=40, max_size=40))
@examples(60)
def test_effects_change_segments_and_keep_the_energy_of_each_task(work, effects):
    ends_ms = max(one.t_ns[-1] for one in work) / MS
    rows = rows_of(np.full(12, ends_ms / 12))
    time, _ = base_columns(rows, work, TASKS, 0.0)
    known = Known(rows, work, 0.0, time[:, :TASKS], np.array([4.0, 10.0, 0.0]), 5.0)
    groups = {"length", "victim counting", "aggressor saturating", "crowd counting", "cores"}
    extended = extension_columns(known, PAIRS, groups)

    effect = np.array(effects)[: len(extended.about)] * 0.02
    factors = Effects(extended.about, effect, TASKS, 0, rows.span_s).factors(work)

    joules, plain = np.zeros((2, TASKS + 1))
    for one, factor in zip(work, factors, strict=True):
        plain += np.bincount(one.task, weights=one.modelled, minlength=TASKS + 1)
        joules += np.bincount(one.task, weights=one.modelled * factor, minlength=TASKS + 1)
    assert joules[:TASKS] == pytest.approx(plain[:TASKS], rel=1e-5, abs=1e-9)
    # What segments draw more or less in a row is what the columns say, in watts of 4 and 10 per task.
    total_j = extended.columns.sum(axis=0) @ (effect * extended.size)
    assert total_j == pytest.approx(0.0, abs=1e-9)


def test_of_many_tasks_the_pair_that_the_readings_suggest_is_tried():
    random = np.random.default_rng(1)
    time = random.uniform(0.0, 1e-3, (4000, 50))
    length_s = np.full(4000, 1e-3)
    residual = time[:, 7] * time[:, 31] / length_s + random.normal(0.0, 1e-3, 4000)
    residual -= time @ np.linalg.lstsq(time, residual, rcond=None)[0]

    def score(columns):
        own = columns - time @ np.linalg.lstsq(time, columns, rcond=None)[0]
        return residual @ own / np.sqrt((own**2).sum(axis=0)) / residual.std()

    pairs = likely_pairs(time, length_s, np.full(50, 8.0), score)

    assert {(7, 31), (31, 7)} <= set(pairs)
    assert len(pairs) <= CANDIDATES


@given(st.lists(st.floats(0.5, 4.0), min_size=3, max_size=10), st.floats(0, 2e-3))
@examples(60)
def test_quanta_of_a_late_sensor_stay_in_order_and_keep_their_joules(lengths_ms, late_s):
    count = len(lengths_ms)
    quanta = consecutive(lengths_ms, [0.05] * (count - 1), np.ones(count), np.ones(count, bool))

    earlier = quanta.earlier(late_s)

    assert (np.diff(earlier.edges_ns) > 0).all()
    assert earlier.edges_ns[0] == quanta.edges_ns[0]
    assert (earlier.edges_ns <= quanta.edges_ns).all()
    assert (earlier.energy_j == quanta.energy_j).all()
    half_ns = earlier.window_s[1:-1] * 0.5e9
    assert (half_ns <= np.minimum(np.diff(earlier.edges_ns)[1:], np.diff(earlier.edges_ns)[:-1])).all()


def test_a_part_of_the_rows_is_no_more_than_asked_and_spread_over_the_recording():
    part = rows_of(np.ones(4000)).part(400)

    assert len(part) == 400
    assert np.diff(part.at).max() < 4000 / BLOCKS
    assert part.at[0] < 4000 / BLOCKS
    assert part.at[-1] > 4000 * (1 - 1 / BLOCKS)


def test_a_package_that_was_warmed_once_cools_exponentially():
    pulse = np.zeros(50)
    pulse[0] = 3.0
    rows = dataclasses.replace(rows_of(np.ones(50)), energy_j=pulse)

    warmth = rows.warmth(0.0)

    passed = (rows.middle_s - rows.middle_s[0]) / rows.span_s
    assert warmth == pytest.approx(np.exp(-np.outer(COOLING, passed)))


def test_the_warmth_of_a_package_does_not_depend_on_when_the_clock_began():
    rows = dataclasses.replace(rows_of(np.ones(50)), energy_j=np.arange(50.0))
    later = dataclasses.replace(rows, edges_ns=rows.edges_ns + 10 * 3600 * 1000 * MS)

    assert later.warmth(0.0) == pytest.approx(rows.warmth(0.0))


def test_pairs_of_few_tasks_come_by_their_joules_of_the_whole_recording():
    time = np.full((10, 2), 1.0)
    time[:, 1] = [3.0, *np.zeros(9)]

    pairs = likely_pairs(time, np.full(10, 4.0), np.array([5.0, 5.0]), lambda _: np.zeros(1))

    assert pairs == [(0, 0), (0, 1), (1, 0), (1, 1)]
