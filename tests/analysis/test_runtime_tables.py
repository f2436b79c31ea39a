"""What events add to a profile: waits of instances and tasks, edges, and what each worker lacked."""

import numpy as np
import pytest
from support import task_graphs
from support.task_graphs import Flat, Lane

import tprof
from tprof.trace import EventKind, Kind


@pytest.fixture
def profile(tmp_path):
    """Return two tasks on two workers; the second waits for the first and is stolen.

    0: both are spawned, the first is ready; 4: it starts; 34: it ends, the second is ready; 38: it starts; 58: it ends.
    """
    lanes = Flat([(30, set()), (20, {0})], workers=2, slow_ns=4).lanes
    ran_second = next(lane for lane in lanes[1:] if any(sample[1] == 2 for sample in lane.samples))
    ran_second.event(38, EventKind.STEAL, 2, worker=1)
    lanes[0].event(0, EventKind.SPAWN, 3)
    lanes[0].event(50, EventKind.CANCEL, 3, 2)
    return task_graphs.write(tmp_path / "t.tprof", lanes).profile(model="cputime")


def ns(values):
    return (np.asarray(values, float) * 1e9).round(3).tolist()


def test_instances_have_their_waits(profile):
    tasks = profile.tasks.sort_values("instance")

    assert ns(tasks["spawn_s"]) == [0, 0]
    assert ns(tasks["ready_s"]) == [0, 34]
    assert ns(tasks["wait_data_s"]) == [0, 34]
    assert ns(tasks["wait_worker_s"]) == [4, 4]
    assert tasks["stolen"].tolist() == [False, True]


def test_edges_are_a_table(profile):
    assert profile.dependences.to_dict("list") == {"instance": [2], "waits_for": [1]}


def test_tasks_have_mean_waits_steals_and_cancellations(tmp_path):
    lanes = Flat([(30, set()), (20, {0})], workers=1, slow_ns=4).lanes
    lanes[0].event(0, EventKind.SPAWN, 3)
    lanes[0].event(50, EventKind.CANCEL, 3, 2)
    given = [lane.given("") for lane in lanes]
    for lane in given:
        lane["events"]["task"] = [1 if one == 3 else -1 for one in lane["events"]["instance"]]
    tprof.write_trace(tmp_path / "t.tprof", tasks=["work", "never"], threads=given, energy={})

    waits = tprof.load(tmp_path / "t.tprof").profile().waits()

    assert waits.index.tolist() == ["work", "never"]
    assert waits["instances"].tolist() == [2, 0]
    assert waits["cancelled"].tolist() == [0, 1]
    assert ns(waits.loc["work", ["wait_data_mean_s", "wait_worker_mean_s", "own_mean_s"]]) == [17, 4, 25]
    assert waits.loc["never"].isna().sum() == 3


def test_workers_run_starve_or_lose_time_with_something_ready(profile):
    """While one runs the first task nothing is ready; before each start something is, for 4 ns."""
    table = profile.starvation

    assert table["worker"].tolist() == [0, 1]
    assert ns(table["served_s"]) == [58, 58]
    assert sorted(ns(table["running_s"])) == [20, 30]
    assert ns(table["overhead_s"]) == [8, 8]
    assert sorted(ns(table["starved_s"])) == [20, 30]
    assert sorted(table["steals"].tolist()) == [0, 1]


def test_a_worker_counts_only_while_it_serves_and_a_blocked_instance_is_suspended(tmp_path):
    lane = Lane()
    lane.sample(0, 1, Kind.START)
    lane.sample(10, 0, Kind.SUSPEND)
    lane.sample(30, 1, Kind.RESUME)
    lane.sample(45, 0, Kind.FINISH)
    lane.event(5, EventKind.BEGIN, worker=7)
    lane.event(40, EventKind.END, worker=7)
    lane.event(60, EventKind.BEGIN, worker=7)
    lane.event(70, EventKind.END, worker=7)

    row = task_graphs.write(tmp_path / "t.tprof", [lane]).profile(model="cputime").starvation.iloc[0]

    assert ns(row[["served_s", "running_s", "suspended_s", "starved_s", "overhead_s"]]) == [45, 15, 20, 10, 0]
    assert row["worker"] == 7


def test_a_worker_of_a_killed_program_serves_until_its_end(tmp_path):
    lane = Lane()
    lane.sample(0, 1, Kind.START)
    lane.sample(10, 0, Kind.FINISH)
    lane.sample(50, 0, Kind.CLOSE)
    lane.event(0, EventKind.BEGIN, worker=0)
    lane.event(20, EventKind.READY, 2)

    row = task_graphs.write(tmp_path / "t.tprof", [lane]).profile(model="cputime").starvation.iloc[0]

    assert ns(row[["served_s", "running_s", "starved_s", "overhead_s"]]) == [50, 10, 10, 30]


def test_the_spawner_is_the_parent_whatever_ran_before_on_the_thread(tmp_path):
    """Instance 2 starts while 3 is paused on the same thread, but 1 spawned it."""
    lanes = [Lane(), Lane()]
    lanes[0].sample(0, 1, Kind.START)
    lanes[0].sample(50, 0, Kind.FINISH)
    lanes[0].event(5, EventKind.SPAWN, 2, 1)
    lanes[1].sample(0, 3, Kind.START)
    lanes[1].sample(10, 2, Kind.START)
    lanes[1].sample(20, 3, Kind.FINISH)
    lanes[1].sample(30, 0, Kind.FINISH)

    tasks = task_graphs.write(tmp_path / "t.tprof", lanes).profile(model="cputime").tasks.set_index("instance")

    assert tasks["parent"].to_dict() == {1: 0, 2: 1, 3: 0}
    assert tasks["spawn_s"].isna().to_dict() == {1: True, 2: False, 3: True}


def test_clocks_that_disagree_leave_no_negative_waits(tmp_path):
    lane = Lane()
    lane.sample(10, 1, Kind.START)
    lane.sample(20, 0, Kind.FINISH)
    lane.event(12, EventKind.SPAWN, 1)
    lane.event(9, EventKind.READY, 1)

    tasks = task_graphs.write(tmp_path / "t.tprof", [lane]).profile(model="cputime").tasks

    assert ns(tasks["wait_data_s"]) == ns(tasks["wait_worker_s"]) == [0]


def test_unknown_kinds_of_events_are_a_warning(tmp_path):
    lane = Lane()
    lane.sample(0, 1, Kind.START)
    lane.sample(20, 0, Kind.FINISH)
    lane.event(0, EventKind.SPAWN, 1)
    lane.event(0, EventKind.READY, 1)
    path = task_graphs.write(tmp_path / "t.tprof", [lane]).path
    events = path / "graph" / "00000000.events"
    content = bytearray(events.read_bytes())
    content[4096 + 30] = 200
    events.write_bytes(bytes(content))

    assert "1 event is of a kind" in " ".join(tprof.load(path).profile().info["warnings"])
