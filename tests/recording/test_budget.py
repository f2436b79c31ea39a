"""Budgets: what is counted, when it is exceeded, and what happens then."""

import os
import re
import tempfile
import warnings

import numpy as np
import pytest
from support import budgeted
from support.budgeted import record, spin, spin_over, spin_until
from support.fake_sensor import wait_for
from tprof.runtime import Runtime

import tprof
from tprof.live import Usage


@tprof.task
def other(cpu_s):
    spin.__wrapped__(cpu_s)


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Give every test a machine with a sensor."""
    with budgeted.machine(tmp_path, monkeypatch) as machine:
        yield machine


def exceed(**limits):
    """Run tasks in a budget's block until it is exceeded, and one more."""
    with tprof.budget(**limits) as budget:
        spin_over(budget)
        spin(0.05)
    return budget


def test_a_budget_that_is_kept_says_nothing():
    with (
        warnings.catch_warnings(action="error"),
        tprof.budget(joules=1e6, watts=1e5, action="cancel") as budget,
    ):
        spin(0.05)

    assert not budget.exceeded
    assert 0 < budget.used_j < 1e6
    assert budget.quality == "measured"


def test_joules_that_are_used_up_are_warned_of_once_with_who_took_them():
    with pytest.warns(RuntimeWarning) as told:
        budget = exceed(joules=4.0)  # so much that starting the recording does not count

    (warning,) = told
    assert str(warning.message).startswith("the budget of 4 J is used up: ")
    assert "measured, in" in str(warning.message)
    assert "most went to spin (" in str(warning.message)
    assert warning.filename == __file__
    assert budget.exceeded
    assert budget.used_j > 4
    assert budget.used_j == budget.history[-1].used_j
    assert sorted(budget.history) == list(budget.history)


def test_joules_found_later_of_a_time_that_was_read_before_are_counted_and_in_the_history(monkeypatch):
    with pytest.warns(RuntimeWarning, match="the budget of 4 J is used up"):
        budget, held_s = exceed_within_one_time(monkeypatch)

    found = [reading.used_j for reading in budget.history if reading.time_s == held_s]
    assert 4 < found[-1] <= budget.used_j
    assert budget.used_j == budget.history[-1].used_j
    assert sorted(budget.history) == list(budget.history)


def exceed_within_one_time(monkeypatch):
    """Exceed a budget while time does not go on, as where samples show that earlier joules are this process's."""
    real, held = Usage.until_ns.fget, {}
    with tprof.budget(joules=4.0) as budget, monkeypatch.context() as patch:
        patch.setattr(Usage, "until_ns", property(lambda usage: held.setdefault(usage.begun_ns, real(usage))))
        spin_over(budget)
    ((begun_ns, held_ns),) = held.items()
    return budget, (held_ns - begun_ns) * 1e-9


def test_what_tasks_took_is_part_of_what_was_used():
    with pytest.warns(RuntimeWarning) as told:
        exceed(joules=4.0)

    total, of_it = re.search(r"is used up: (\S+) J, .* spin \((\S+) J\)", str(told[0].message)).groups()
    assert float(total) > 4
    assert 0 < float(of_it) <= float(total) * 1.01


def test_where_other_processes_run_the_tasks_are_said_to_be_of_all():
    with pytest.warns(RuntimeWarning, match=r"is used up: .*; of all processes, most went to spin \("):
        exceed_after_a_child()


def exceed_after_a_child():
    with tprof.budget(joules=20) as budget:  # so much that the fork itself does not count, also under a sanitizer
        child = os.fork()
        if child == 0:
            spin(0.1)
            os._exit(0)
        os.waitpid(child, 0)
        spin_over(budget)


def test_a_budget_of_tasks_names_no_others():
    with pytest.warns(RuntimeWarning, match=r"is used up: .*; most went to other \([^,]*\)$"):
        exceed_others()


def exceed_others():
    with tprof.budget(joules=0.5, tasks=["other"]) as budget:
        spin(0.1)
        wait_for(lambda: other(0.01) or budget.exceeded, "the budget to be exceeded")


def test_a_name_that_no_task_has_is_told_of():
    with pytest.warns(RuntimeWarning) as told, tprof.budget(joules=1e6, tasks=("spin", "spni")):
        spin(0.01)

    (warning,) = told
    assert str(warning.message) == (
        "the budget counts spni, but none of that name ran in its block (what ran: spin); give names as a summary "
        "shows them"
    )
    assert warning.filename == __file__


def test_an_estimate_is_called_one(tmp_path):
    with record(tmp_path, "estimate"), pytest.warns(RuntimeWarning, match="by an ESTIMATE"):
        budget = exceed(joules=0.05)

    assert budget.quality == "estimated"


def test_watts_are_a_mean_over_the_window():
    with pytest.warns(RuntimeWarning, match=r"more than 5 W: .* W, measured, over 0\.1 s"):
        budget = exceed(watts=5, window_s=0.1)

    assert max(look.power_w for look in budget.history) > 5


def test_the_budget_of_named_tasks_counts_only_these(tmp_path):
    with record(tmp_path) as recording:
        with tprof.budget(joules=1e6, tasks="other") as named, tprof.budget(joules=1e6) as all_of_it:
            for _ in range(5):
                spin(0.1)
                other(0.05)
        took = recording.energy().tasks  # after the blocks, at whose end all joules of these tasks are known

    # The recording's own figures: a profile spreads a task evenly over its time, which a busy machine does not.
    assert named.used_j == pytest.approx(took["other"].energy_j, rel=0.1)
    assert all_of_it.used_j > 1.2 * named.used_j


def test_what_ran_before_the_block_is_not_counted(tmp_path):
    with record(tmp_path) as recording:
        spin(0.5)
        with tprof.budget(joules=1e6, tasks="spin") as budget:
            before_j = recording.energy().tasks["spin"].energy_j  # all of them are known where a budget begins
            spin(0.2)
        after_j = recording.energy().tasks["spin"].energy_j

    assert before_j > 0
    assert budget.used_j == pytest.approx(after_j - before_j, rel=0.05)


def test_a_private_recording_leaves_nothing_behind(tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with tprof.budget(joules=1e6):
        spin(0.01)
        assert list(place.iterdir())

    assert not list(place.iterdir())
    with record(tmp_path, "none"):
        spin(0.01)


def test_cancelling_raises_at_the_end_of_the_block():
    with pytest.raises(tprof.BudgetExceededError, match=r"the budget of 0\.5 J is used up"):
        exceed(joules=0.5, action="cancel")


def fail_over_budget():
    with tprof.budget(joules=0.5, action="cancel") as budget:
        spin_over(budget)
        raise ZeroDivisionError


def test_an_error_of_the_block_is_not_hidden():
    with pytest.raises(ZeroDivisionError) as caught:
        fail_over_budget()

    assert "the budget of 0.5 J is used up" in caught.value.__notes__[0]


def spawn_over_budget(machine, runtime, futures):
    machine.draws(budgeted.IDLE_W)
    with tprof.budget(joules=0.5, action="cancel") as budget:
        futures += [spin_until(lambda: budget.exceeded) for _ in range(5)]
        wait_for(futures[0].running, "the first to begin")
        machine.draws(budgeted.WATTS)
        with pytest.raises(tprof.BudgetExceededError, match="is used up"):
            runtime.wait()


def test_cancelling_ends_what_a_runtime_has_not_begun(machine):
    futures = []
    with Runtime(workers=1) as runtime:
        with pytest.raises(tprof.BudgetExceededError):
            spawn_over_budget(machine, runtime, futures)
        again = spin(0.001)
        runtime.wait()

    assert [future.state for future in futures] == ["finished", *["cancelled"] * 4]
    assert again.state == "finished"


def run_runtime_over_budget():
    with tprof.budget(joules=0.5, action="cancel") as budget, Runtime(workers=1):
        for _ in range(3):
            spin_until(lambda: budget.exceeded)


def test_the_end_of_a_runtime_inside_a_budget_raises():
    with pytest.raises(tprof.BudgetExceededError):
        run_runtime_over_budget()


def slow_down_until(seen):
    with tprof.budget(joules=0.5, action="slow") as budget:
        spin_over(budget)
        wait_for(seen, "the throttle")
    return budget


def test_slowing_down_lowers_the_frequency_where_it_can_be_set(machine):
    highest = budgeted.add_policy(machine.tree)
    with pytest.warns(RuntimeWarning, match=r"the processor's frequency is held at 2\.50 GHz"):
        slow_down_until(lambda: highest.read_text() == "2500000")

    assert highest.read_text() == "3000000"


def test_slowing_down_lets_fewer_workers_take_tasks_otherwise():
    what = r"2 of 4 workers go on taking tasks \(the frequency stays: .*no policy"
    with Runtime(workers=4), pytest.warns(RuntimeWarning, match=what):
        budget = run_on_workers()

    assert budget.exceeded


def run_on_workers():
    with tprof.budget(joules=0.5, action="slow") as budget:
        spin_until(lambda: budget.exceeded)
        wait_for(lambda: budget.exceeded, "the budget to be exceeded")
    return budget


def test_without_a_runtime_slowing_down_pauses_between_tasks(tmp_path):
    said = "each thread pauses after a task, 1 times as long as the task took"
    with record(tmp_path) as recording, pytest.warns(RuntimeWarning, match=said):
        exceed_and_go_on(3)

    tasks = recording.profile("cputime").tasks
    begin_s, length_s = tasks["start_s"].to_numpy(), tasks["duration_s"].to_numpy()
    pauses_s = begin_s[1:] - begin_s[:-1] - length_s[:-1]
    assert (pauses_s[-2:] >= length_s[-3:-1] * 0.99).all()


def exceed_and_go_on(times):
    with tprof.budget(joules=0.5, action="slow") as budget:
        spin_over(budget)
        for _ in range(times):
            spin(0.01)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "a budget needs a limit: give joules=, watts= or both"),
        ({"joules": 0}, "joules must be a number above 0, got 0"),
        ({"watts": float("nan")}, "watts must be a number above 0, got nan"),
        ({"joules": 1, "action": "stop"}, "action must be one of warn, slow, cancel, got 'stop'"),
        ({"joules": 1, "window_s": -1}, "window_s must be a number above 0, got -1"),
        ({"joules": True}, "joules must be a number above 0, got True"),
        ({"joules": np.bool_(True)}, "joules must be a number above 0, got "),  # noqa: FBT003 - it is a value
        ({"joules": np.int64(-5)}, "joules must be a number above 0, got "),
        ({"joules": 1, "tasks": 3}, "tasks must be the name of a task or several such names, got 3"),
        ({"joules": 1, "tasks": []}, r"tasks must be the name of a task or several such names, got \[\]"),
        ({"joules": 1, "tasks": [3]}, r"tasks must be the name of a task or several such names, got \[3\]"),
        ({"joules": 1, "tasks": ""}, "tasks must be the name of a task or several such names, got ''"),
    ],
)
def test_limits_that_mean_nothing_are_refused(given, sentence):
    with pytest.raises(tprof.UsageError, match=sentence):
        tprof.budget(**given)


@pytest.mark.parametrize("limit", [np.int64(5), np.float32(5), np.float64(5)])
def test_numbers_of_numpy_are_limits(limit):
    with tprof.budget(joules=limit * 10**6, watts=limit * 10**6) as budget:
        spin(0.01)

    assert not budget.exceeded


def test_without_a_sensor_there_is_no_budget(tmp_path):
    with record(tmp_path, "none"), pytest.raises(tprof.UsageError, match="a budget needs an energy sensor"):
        exceed(joules=1)


def test_a_budget_serves_for_one_block():
    budget = tprof.budget(joules=1e6)
    with budget:
        pass

    with pytest.raises(tprof.UsageError, match="make one budget for each block"), budget:
        pass


def test_warnings_that_are_errors_are_raised_at_the_end_of_the_block():
    with warnings.catch_warnings(action="error"), pytest.raises(RuntimeWarning, match="is used up"):
        exceed(joules=0.5)


def test_a_forked_child_leaves_the_block_to_its_parent():
    with tprof.budget(joules=1e6) as budget:
        child = os.fork()
        if child == 0:
            budget.__exit__(None, None, None)
            os._exit(7)
        _, status = os.waitpid(child, 0)
        spin(0.01)

    assert os.waitstatus_to_exitcode(status) == 7
    assert budget.used_j > 0
