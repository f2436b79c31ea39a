"""What a recording tells of a runtime's tasks: spawns, dependences, releases, steals and workers."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from tprof.runtime import Runtime, current

import tprof

BARRIER_S = 120


@tprof.task(updates="data")
def change(data):
    data += 1


@tprof.task(reads="data")
def look(data):
    return float(data.sum())


@tprof.task(updates="data")
def fail(data):
    raise ValueError


@tprof.task
def parent(count):
    data = np.zeros(4)
    for _ in range(count):
        change(data)
    current().wait()


def recorded(path, program, **options):
    with (
        tprof.record(path, energy="estimate", counters="none", watts=(4, 6)) as recording,
        Runtime(**options) as runtime,
    ):
        program(runtime)
    return recording.profile()


def edges_by_order(profile):
    """Return the edges with instances numbered by their spawn."""
    order = {instance: place for place, instance in enumerate(profile.tasks.sort_values("spawn_s")["instance"])}
    return {(order[row.waits_for], order[row.instance]) for row in profile.dependences.itertuples()}


def closure(edges):
    """Return who comes before whom by any number of edges: what follows from others may be said or not."""
    reach = set(edges)
    while True:
        more = {(a, d) for a, b in reach for c, d in reach if b == c} - reach
        if not more:
            return reach
        reach |= more


def hold_first(program):
    """Let tasks pile up behind one that waits until all are spawned, so that none is too late to be waited for."""
    gate = threading.Event()

    def run(_):
        held = np.zeros(4)
        hold(held, gate)
        program(held)
        gate.set()

    return run


@tprof.task(updates="data")
def hold(data, gate):
    assert gate.wait(BARRIER_S)


def test_dependences_are_those_of_the_data(tmp_path):
    def program(data):
        change(data[:2])  # 1
        change(data[2:])  # 2
        look(data)  # 3
        look(data[:2])  # 4
        change(data)  # 5

    profile = recorded(tmp_path / "x.tprof", hold_first(program), workers=2)

    expected = {(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5), (4, 5)}
    assert closure(edges_by_order(profile)) == closure(expected)


def test_a_chain_is_its_critical_path(tmp_path):
    profile = recorded(tmp_path / "x.tprof", hold_first(lambda data: [change(data) for _ in range(20)]), workers=2)

    path = profile.critical_path()

    assert len(profile.dependences) == 20
    assert set(pairwise(range(21))) == edges_by_order(profile)
    assert path.span_s == pytest.approx(profile.tasks["duration_s"].sum())


def test_a_task_outside_the_runtime_does_not_run_while_it_waits_for_it(tmp_path):
    """It is suspended, so the longest chain goes through what it waited for."""
    opened, begun = threading.Event(), threading.Event()

    @tprof.task(updates="data")
    def inner(data):
        begun.set()
        assert opened.wait(BARRIER_S)

    def outer(runtime):
        with tprof.region("outer"):
            future = runtime.submit(inner, np.zeros(1))
            assert begun.wait(BARRIER_S)
            threading.Timer(0.5, opened.set).start()
            future.result()

    profile = recorded(tmp_path / "x.tprof", outer, workers=1)

    tasks = profile.tasks.set_index("task")
    own_s = dict(zip(profile.tasks["task"], profile.own_s, strict=True))
    assert tasks.loc["inner", "parent"] == tasks.loc["outer", "instance"]
    assert own_s["outer"] < tasks.loc["outer", "duration_s"] - 0.02
    assert "inner" in set(profile.critical_path().chain["task"])


def test_waiting_for_data_and_for_a_worker_are_told_apart(tmp_path):
    gate, begun = threading.Event(), threading.Event()

    @tprof.task(updates="data")
    def block(data):
        begun.set()
        assert gate.wait(BARRIER_S)

    def program(_):
        one, other = np.zeros(1), np.zeros(1)
        block(one)
        assert begun.wait(BARRIER_S)
        change(one)
        look(other)
        gate.set()

    profile = recorded(tmp_path / "x.tprof", program, workers=1)

    rows = profile.tasks.set_index("task")
    assert rows.loc["change", "wait_data_s"] > rows.loc["change", "wait_worker_s"]
    assert rows.loc["look", "wait_data_s"] < rows.loc["look", "wait_worker_s"]


def test_every_instance_has_its_spawner_and_ends_once(tmp_path):
    profile = recorded(tmp_path / "x.tprof", lambda _: [parent(10) for _ in range(8)], workers=3)

    rows = profile.tasks
    parents = rows[rows["task"] == "parent"]["instance"]
    children = rows[rows["task"] == "change"]
    assert len(parents) == 8
    assert rows["instance"].is_unique
    assert children.groupby("parent").size().to_dict() == dict.fromkeys(parents, 10)
    assert (rows["ready_s"] >= rows["spawn_s"]).all()
    assert (rows["start_s"] >= rows["ready_s"]).all()


def test_cancelled_tasks_are_counted(tmp_path):
    def program(_):
        data = np.zeros(4)
        failed = fail(data)
        change(data)
        change(data)
        failed.exception()

    profile = recorded(tmp_path / "x.tprof", program, workers=1)

    assert profile.tasks["task"].tolist() == ["fail"]
    assert profile.tasks["failed"].all()
    assert profile.waits().loc["change", "cancelled"] == 2


def test_each_worker_has_its_row_and_runtimes_one_after_the_other_have_different_ones(tmp_path):
    with tprof.record(tmp_path / "x.tprof", energy="estimate", counters="none", watts=(4, 6)) as recording:
        for _ in range(2):
            with Runtime(workers=2):
                met = threading.Barrier(2)
                for _ in range(2):
                    meet(met)

    starvation = recording.profile().starvation

    assert len(starvation) == 4
    assert (starvation["running_s"] > 0).all()


@tprof.task
def meet(barrier):
    barrier.wait(BARRIER_S)


def test_a_recording_that_begins_in_the_midst_knows_the_tasks_it_saw(tmp_path):
    data = np.zeros(4)
    with Runtime(workers=2) as runtime:
        change(data)
        runtime.wait()
        with tprof.record(tmp_path / "x.tprof", energy="estimate", counters="none", watts=(4, 6)) as recording:
            change(data)
            runtime.wait()
        change(data)

    assert len(recording.profile().tasks) == 1
    assert data.tolist() == [3.0] * 4
