"""The critical path is the longest chain that any number of workers must keep to; the observed chain is the run."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support import task_graphs, traces
from support.properties import examples
from support.task_graphs import Flat, Lane, Nested

import tprof
from tprof.trace import EventKind, Kind


def chains(waits_for):
    """Yield every chain that ends in each node: `waits_for[i]` are the nodes before node i."""

    def ending_in(node):
        yield (node,)
        for before in waits_for[node]:
            for chain in ending_in(before):
                yield (*chain, node)

    for node in range(len(waits_for)):
        yield from ending_in(node)


def longest(weights, waits_for):
    """Return the greatest sum of weights along a chain."""
    return max((sum(weights[node] for node in chain) for chain in chains(waits_for)), default=0)


QUIET = {"suppress_health_check": [HealthCheck.function_scoped_fixture]}


def profile_of(tmp_path, lanes):
    path = tmp_path / "t.tprof"
    shutil.rmtree(path, ignore_errors=True)
    return task_graphs.write(path, lanes).profile(model="cputime")


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 9))
    before = [draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set() for number in range(count)]
    return [(draw(st.integers(0, 50)), waits_for) for waits_for in before]


@given(tasks=graphs(), workers=st.integers(1, 4), gap_ns=st.integers(0, 20), slow_ns=st.integers(0, 5))
@examples(60, **QUIET)
def test_the_span_is_the_longest_of_all_chains(tmp_path, tasks, workers, gap_ns, slow_ns):
    profile = profile_of(tmp_path, Flat(tasks, workers=workers, gap_ns=gap_ns, slow_ns=slow_ns).lanes)

    path = profile.critical_path()

    waits_for = [one for _, one in tasks]
    joules = profile.tasks.set_index("instance")["energy_j"].reindex(range(1, len(tasks) + 1)).fillna(0.0).tolist()
    assert path.span_s * 1e9 == pytest.approx(longest([length for length, _ in tasks], waits_for))
    assert np.nan_to_num(path.heaviest_j) == pytest.approx(longest(joules, waits_for))
    assert path.work_s * 1e9 == pytest.approx(sum(length for length, _ in tasks))
    assert path.contradicting == 0


@given(tasks=graphs(), workers=st.integers(1, 4), gap_ns=st.integers(0, 20), slow_ns=st.integers(0, 5))
@examples(60, **QUIET)
def test_the_realised_chain_is_the_makespan_without_gaps(tmp_path, tasks, workers, gap_ns, slow_ns):
    played = Flat(tasks, workers=workers, gap_ns=gap_ns, slow_ns=slow_ns)

    path = profile_of(tmp_path, played.lanes).critical_path()

    begin_s, length_s = path.observed["start_s"].to_numpy(), path.observed["duration_s"].to_numpy()
    assert path.makespan_s * 1e9 == pytest.approx(played.end_ns)
    assert sum(path.parts.values()) == pytest.approx(path.makespan_s)
    assert begin_s[1:] == pytest.approx(begin_s[:-1] + length_s[:-1])
    assert path.span_s <= path.makespan_s * (1 + 1e-12)
    assert path.chain["path_s"].sum() == pytest.approx(path.span_s)
    assert path.chain["energy_j"].sum() <= path.heaviest_j * (1 + 1e-9) or np.isnan(path.heaviest_j)


BODY = st.recursive(
    st.lists(st.tuples(st.just("run"), st.integers(0, 40)), max_size=2),
    lambda inner: st.lists(
        st.one_of(
            st.tuples(st.just("run"), st.integers(1, 40)),
            st.tuples(st.just("spawn"), inner, st.lists(st.integers(0, 5), max_size=2)),
            st.tuples(st.just("wait")),
        ),
        max_size=5,
    ),
    max_leaves=8,
)


@given(body=BODY, delays=st.lists(st.integers(0, 30), min_size=1, max_size=6))
@examples(100, **QUIET)
def test_the_span_of_nested_tasks_is_their_time_with_a_worker_each_and_no_delay(tmp_path, body, delays):
    """However late each instance of the run was taken up."""
    ideal = Nested(body, itertools.repeat(0))

    path = profile_of(tmp_path, Nested(body, itertools.cycle(delays)).lanes).critical_path()

    assert path.span_s * 1e9 == pytest.approx(ideal.done_ns)
    assert path.span_s <= path.makespan_s * (1 + 1e-12)
    assert sum(path.parts.values()) == pytest.approx(path.makespan_s)
    assert path.contradicting == 0


@given(body=BODY)
@examples(40, **QUIET)
def test_a_run_with_a_worker_each_and_no_delay_does_nothing_but_run(tmp_path, body):
    played = Nested(body, itertools.repeat(0))

    parts = profile_of(tmp_path, played.lanes).critical_path().parts

    assert parts["running_s"] * 1e9 == pytest.approx(played.done_ns)


def test_a_run_on_one_worker_divides_as_counted_by_hand(tmp_path):
    """Two spawns 10 ns apart; the second waits for the first: spawned at 10, ready at 34, started at 36."""
    played = Flat([(30, set()), (20, {0})], workers=1, gap_ns=10, slow_ns=4)

    path = profile_of(tmp_path, played.lanes).critical_path()

    assert path.observed["kind"].tolist() == ["worker", "running", "worker", "running"]
    assert (path.observed["duration_s"] * 1e9).round().tolist() == [4, 30, 4, 20]
    assert path.observed["instance"].tolist() == [1, 1, 2, 2]
    assert path.span_s * 1e9 == pytest.approx(50)
    assert path.share == pytest.approx(50 / 58)
    assert path.parallelism == pytest.approx(1.0)


def test_a_worker_that_was_busy_is_followed_to_what_it_ran(tmp_path):
    """Independent tasks on one worker: the graph would let both run at once, the run could not."""
    path = profile_of(tmp_path, Flat([(30, set()), (20, set())], workers=1).lanes).critical_path()

    assert path.span_s * 1e9 == pytest.approx(30)
    assert path.parts["running_s"] * 1e9 == pytest.approx(50)
    assert path.parallelism == pytest.approx(50 / 30)


def test_a_slow_spawner_is_what_the_run_waits_for(tmp_path):
    path = profile_of(tmp_path, Flat([(5, set())] * 4, workers=2, gap_ns=100).lanes).critical_path()

    assert path.parts["spawning_s"] * 1e9 == pytest.approx(300 - 15)
    assert path.parts["running_s"] * 1e9 == pytest.approx(20)


def test_dependences_on_what_never_ran_and_cycles_are_left_out(tmp_path):
    """Instance 9 is named by an edge only; 1 and 2 are said to wait for each other."""
    lane = Lane()
    for t_ns, instance in ((0, 1), (10, 2)):
        lane.sample(t_ns, instance, Kind.START)
        lane.sample(t_ns + 10, 0, Kind.FINISH)
    for instance, other in ((1, 2), (2, 1), (2, 9), (2, 2), (0, 1), (1, 0)):
        lane.event(0, EventKind.DEPENDENCE, instance, other)

    profile = profile_of(tmp_path, [lane])
    path = profile.critical_path()

    assert profile.dependences.to_numpy().tolist() == [[1, 2], [2, 1], [2, 2], [2, 9]]
    assert path.span_s * 1e9 == pytest.approx(20)
    assert path.contradicting == 2


EVENT = st.tuples(
    st.integers(0, 40), st.sampled_from(EventKind), st.integers(0, 6), st.integers(0, 6), st.integers(-1, 2)
)
SAMPLE = st.tuples(st.integers(0, 40), st.integers(0, 5), st.sampled_from(Kind))


@given(lanes=st.lists(st.tuples(st.lists(SAMPLE, max_size=6), st.lists(EVENT, max_size=12)), min_size=1, max_size=3))
@examples(150, **QUIET)
def test_whatever_the_events_say_every_table_can_be_made(tmp_path, lanes):
    profile = profile_of(tmp_path, [Lane(samples, events) for samples, events in lanes])

    if len(profile.events):
        path = profile.critical_path()
        assert sum(path.parts.values()) == pytest.approx(path.makespan_s)
    else:
        with pytest.raises(tprof.UsageError, match="no events of a task runtime"):
            profile.critical_path()
    starved = profile.starvation
    four = starved[["running_s", "suspended_s", "starved_s", "overhead_s"]].to_numpy(float)
    assert four.sum(axis=1) == pytest.approx(starved["served_s"].to_numpy(float))
    assert (four > -1e-15).all()
    assert profile.waits()["steals"].sum() <= len(profile.tasks)
    assert len(profile.dependences) <= len(profile.events)


def test_without_a_runtime_the_profile_is_as_before(tmp_path):
    profile = tprof.load(traces.write(tmp_path / "t.tprof")).profile()

    assert "spawn_s" not in profile.tasks
    assert len(profile.dependences) == len(profile.starvation) == len(profile.waits()) == 0
    with pytest.raises(tprof.UsageError, match=r"record a program whose tasks run in tprof\.runtime"):
        profile.critical_path()
