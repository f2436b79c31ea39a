"""Budgets of single instances: who is told of, and what happens to those that take more."""

import json
import warnings

import numpy as np
import pytest
from support import budgeted
from support.budgeted import record, spin, spin_until
from support.command_line import tprof as command
from support.fake_sensor import wait_for
from tprof.runtime import Runtime

import tprof


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Give every test a machine with a sensor."""
    with budgeted.machine(tmp_path, monkeypatch) as machine:
        yield machine


@tprof.task(budget_j=2.0)
def thrifty(cpu_s):
    spin.__wrapped__(cpu_s)


@tprof.task(budget_j=2.0)
def endless(is_done):
    spin_until.__wrapped__(is_done)


@tprof.task(budget_j=2.0, over_budget="cancel")
def strict(is_done):
    spin_until.__wrapped__(is_done)


def record_calls(place, *calls):
    with record(place) as recording:
        for call, *arguments in calls:
            call(*arguments)
    return recording


def test_instances_over_their_budget_are_told_of_and_counted(tmp_path):
    with pytest.warns(RuntimeWarning) as told:
        recording = record_calls(tmp_path, *((thrifty, cpu_s) for cpu_s in (0.2, 0, 0.2, 0, 0)))

    first, last = (str(warning.message) for warning in told)
    assert first.startswith("an instance of task thrifty took ")
    assert "(measured), more than its budget of 2 J" in first
    assert last.startswith("task thrifty: 2 of 5 instances were over their budget of 2 J (measured)")
    summary = recording.profile("cputime").summary()
    assert summary.loc["thrifty", "over_budget"] == 2
    assert summary.loc["thrifty", "budget_j"] == 2.0


def test_a_table_of_tasks_holds_their_budgets(tmp_path):
    recording = record_calls(tmp_path, (spin, 0.001))

    lines = [json.loads(line) for line in (recording.path / "tasks/00000000.jsonl").read_text().splitlines()]
    said = {line["name"]: line["budget_j"] for line in lines if "budget_j" in line}
    assert (said["thrifty"], said["strict"]) == (2.0, 2.0)
    assert {entry.budget_j for entry in tprof.load(recording.path).tasks if entry.name == "spin"} == {None}


def test_a_session_is_shown_with_who_was_over_budget(tmp_path):
    with pytest.warns(RuntimeWarning):
        recording = record_calls(tmp_path, (thrifty, 0.2), (thrifty, 0))

    shown = command("summary", recording.path, "--model", "cputime", cwd=tmp_path)
    assert "thrifty: over budget: 1 of 2 (more than 2 J each, measured)" in shown.stdout


def test_an_instance_is_told_of_while_it_runs(tmp_path):
    with warnings.catch_warnings(record=True) as told, record(tmp_path):
        warnings.simplefilter("always")
        endless(lambda: told)

    assert str(told[0].message).startswith("an instance of task endless took ")


def run_strict(place, futures):
    with record(place), Runtime(workers=1) as runtime:
        futures.append(strict(lambda: len(futures) == 2 and futures[1].cancelled()))
        futures.append(spin(0))
        runtime.wait()


def test_an_instance_over_budget_can_cancel_the_rest(tmp_path):
    futures = []
    with pytest.warns(RuntimeWarning, match="1 of 1 instances"), pytest.raises(tprof.BudgetExceededError):
        run_strict(tmp_path, futures)

    assert [future.state for future in futures] == ["finished", "cancelled"]


def test_what_is_spawned_after_an_instance_was_over_its_budget_runs(tmp_path):
    states = []
    with pytest.warns(RuntimeWarning), pytest.raises(tprof.BudgetExceededError, match="an instance of task strict"):
        spawn_again(tmp_path, states)

    assert states == ["cancelled", "finished"]


def spawn_again(place, states):
    with record(place), Runtime(workers=1) as runtime:
        spawned = []
        strict(lambda: spawned and spawned[0].cancelled())
        spawned.append(spin(0))
        with pytest.raises(tprof.BudgetExceededError, match="an instance of task strict"):
            runtime.wait()
        spawned.append(spin(0))
        runtime.wait()
        states += [future.state for future in spawned]


@tprof.task(budget_j=2.0, over_budget="slow")
def slowed(is_done):
    spin_until.__wrapped__(is_done)


def slow_for_one(place, told):
    with record(place), Runtime(workers=4) as runtime:
        slowed(lambda: runtime.active_workers == 2)
        wait_for(lambda: runtime.active_workers == 2, "the throttle")
        runtime.wait()
        wait_for(lambda: runtime.active_workers == 4, "its release")
        slowed(lambda: True)
        runtime.wait()
        told.append(runtime.active_workers)


def test_an_instance_over_budget_slows_by_one_step_until_it_has_ended(tmp_path):
    active = []
    with pytest.warns(RuntimeWarning) as told:
        slow_for_one(tmp_path, active)

    first, last = (str(warning.message) for warning in told)
    assert first.startswith("an instance of task slowed took ")
    assert "; 2 of 4 workers go on taking tasks (the frequency stays: " in first
    assert "1 of 2 instances were over" in last
    assert active == [4]


@pytest.mark.parametrize("given", [{"budget_j": -1}, {"budget_j": "3"}, {"budget_j": 1, "over_budget": "stop"}])
def test_a_task_with_a_budget_that_means_nothing_is_refused(given):
    with pytest.raises(tprof.UsageError, match="must be"):
        tprof.task(**given)


def test_a_response_without_a_budget_is_refused():
    with pytest.raises(tprof.UsageError, match="over_budget must be one of warn, slow, cancel, got 'stpo'"):
        tprof.task(over_budget="stpo")
    with pytest.raises(tprof.UsageError, match="over_budget='slow' needs a budget to be over: give budget_j= too"):
        tprof.task(over_budget="slow")


def test_numbers_of_numpy_are_budgets(tmp_path):
    with pytest.warns(RuntimeWarning) as told:
        record_calls(tmp_path, *[(tprof.task(budget_j=np.int64(3))(spin.__wrapped__), 0.2)] * 2)

    assert "2 of 2 instances were over their budget of 3 J" in str(told[-1].message)
