"""Budgets: what is counted, when it is exceeded, and what happens then."""

import json
import os
import tempfile
import threading
import time
import warnings

import pytest
from support import fake_trees, programs
from support.fake_sensor import FakeSensor, wait_for
from tprof.runtime import Runtime

import tprof
from tprof.budgets.brakes import Workers

MODULUS = fake_trees.RANGE_UJ + 1


@tprof.task
def spin(cpu_s):
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


@tprof.task
def other(cpu_s):
    spin.__wrapped__(cpu_s)


@tprof.task
def spin_until(done):
    wait_for(done, "the end of the task")


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Give every test a machine with a sensor that advances by 50 W, and on which nobody else is seen to run."""
    tree = fake_trees.laptop(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    tree.write("proc/stat", "\n".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(64)))
    with FakeSensor(watts=50.0, modulus=MODULUS).drives(tree.energy_of("intel-rapl:0")):
        yield tree


def record(place, energy="powercap"):
    return tprof.record(place / "t.tprof", energy=energy, counters="none", idle_s=0)


def spin_over(budget):
    """Run tasks until the budget says that it is exceeded."""

    def is_exceeded():
        spin(0.005)
        return budget.exceeded

    wait_for(is_exceeded, "the budget to be exceeded")


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
        budget = exceed(joules=1.0)

    (warning,) = told
    assert str(warning.message).startswith("the budget of 1 J is used up: ")
    assert "measured, in" in str(warning.message)
    assert "most went to spin (" in str(warning.message)
    assert warning.filename == __file__
    assert budget.exceeded
    assert budget.used_j > 1
    assert budget.used_j == budget.history[-1].used_j
    assert sorted(budget.history) == list(budget.history)


def test_an_estimate_is_called_one(tmp_path):
    with record(tmp_path, "estimate"), pytest.warns(RuntimeWarning, match="by an ESTIMATE"):
        budget = exceed(joules=0.05)

    assert budget.quality == "estimated"


def test_watts_are_a_mean_over_the_window():
    with pytest.warns(RuntimeWarning, match=r"more than 5 W: .* W, measured, over 0\.1 s"):
        budget = exceed(watts=5, window_s=0.1)

    assert max(look.power_w for look in budget.history) > 5


def test_the_budget_of_named_tasks_counts_only_these(tmp_path):
    with (
        record(tmp_path) as recording,
        tprof.budget(joules=1e6, tasks="other") as named,
        tprof.budget(joules=1e6) as all_of_it,
    ):
        for _ in range(5):
            spin(0.1)
            other(0.05)

    summary = recording.profile("cputime").summary()
    assert named.used_j == pytest.approx(summary.loc["other", "energy_j"], rel=0.1)
    assert all_of_it.used_j > named.used_j + 0.8 * summary.loc["spin", "energy_j"]


def test_what_ran_before_the_block_is_not_counted(tmp_path):
    with record(tmp_path) as recording:
        spin(0.5)
        with tprof.budget(joules=1e6, tasks="spin") as budget:
            spin(0.2)

    rows = recording.profile("cputime").tasks
    assert budget.used_j == pytest.approx(rows["energy_j"].iloc[1], rel=0.2)


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


def spawn_over_budget(runtime, futures):
    with tprof.budget(joules=0.5, action="cancel") as budget:
        futures += [spin_until(lambda: budget.exceeded) for _ in range(5)]
        with pytest.raises(tprof.BudgetExceededError, match="is used up"):
            runtime.wait()


def test_cancelling_ends_what_a_runtime_has_not_begun():
    futures = []
    with Runtime(workers=1) as runtime:
        with pytest.raises(tprof.BudgetExceededError):
            spawn_over_budget(runtime, futures)
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


def make_policy(tree):
    folder = "sys/devices/system/cpu/cpufreq/policy0"
    files = {
        "affected_cpus": "0 1", "scaling_driver": "acpi-cpufreq", "scaling_governor": "schedutil",
        "cpuinfo_min_freq": 1000000, "cpuinfo_max_freq": 3000000,
        "scaling_min_freq": 1000000, "scaling_max_freq": 3000000,
    }  # fmt: skip
    for name, value in files.items():
        tree.write(f"{folder}/{name}", str(value))
    return tree.root / folder / "scaling_max_freq"


def slow_down_until(seen):
    with tprof.budget(joules=0.5, action="slow") as budget:
        spin_over(budget)
        wait_for(seen, "the brake")
    return budget


def test_slowing_down_lowers_the_frequency_where_it_can_be_set(machine):
    highest = make_policy(machine)
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


def test_a_brake_on_workers_holds_and_lets_go():
    running, most = [], []

    def body():
        running.append(1)
        most.append(len(running))
        time.sleep(0.001)
        running.pop()

    with Runtime(workers=4) as runtime:
        brake = Workers(lambda: [runtime])
        said = [brake.pull(), brake.pull(), brake.pull()]
        runtime.wait()
        for _ in range(50):
            runtime.submit(body)
        runtime.wait()
        held = max(most)
        brake.let_go()
        barrier = threading.Barrier(4)
        for _ in range(4):
            runtime.submit(barrier.wait)
        runtime.wait()

    assert said == ["2 of 4 workers go on taking tasks", "1 of 4 workers go on taking tasks", None]
    assert held == 1


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "a budget needs a limit: give joules=, watts= or both"),
        ({"joules": 0}, "joules must be a number above 0, got 0"),
        ({"watts": float("nan")}, "watts must be a number above 0, got nan"),
        ({"joules": 1, "action": "stop"}, "action must be one of warn, slow, cancel, got 'stop'"),
        ({"joules": 1, "window_s": -1}, "window_s must be a number above 0, got -1"),
    ],
)
def test_limits_that_mean_nothing_are_refused(given, sentence):
    with pytest.raises(tprof.UsageError, match=sentence):
        tprof.budget(**given)


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


@tprof.task(budget_j=2.0)
def thrifty(cpu_s):
    spin.__wrapped__(cpu_s)


@tprof.task(budget_j=2.0)
def endless(is_done):
    spin_until.__wrapped__(is_done)


@tprof.task(budget_j=2.0, over_budget="cancel")
def strict(cpu_s):
    spin.__wrapped__(cpu_s)


def record_calls(place, *calls):
    with record(place) as recording:
        for call, *arguments in calls:
            call(*arguments)
    return recording


def test_instances_over_their_budget_are_told_of_and_counted(tmp_path):
    with pytest.warns(RuntimeWarning) as told:
        recording = record_calls(tmp_path, *((thrifty, cpu_s) for cpu_s in (0.2, 0.001, 0.2, 0.001, 0.001)))

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
        recording = record_calls(tmp_path, (thrifty, 0.2), (thrifty, 0.001))

    shown = programs.run(
        tmp_path, "from tprof.cli import main; main()", "summary", str(recording.path), "--model", "cputime"
    )
    assert "thrifty: over budget: 1 of 2 (more than 2 J each, measured)" in shown.stdout


def test_an_instance_is_told_of_while_it_runs(tmp_path):
    with warnings.catch_warnings(record=True) as told, record(tmp_path):
        warnings.simplefilter("always")
        endless(lambda: told)

    assert str(told[0].message).startswith("an instance of task endless took ")


def run_strict(place, futures):
    with record(place), Runtime(workers=1) as runtime:
        futures += [strict(0.3), spin(0.001)]
        runtime.wait()


def test_an_instance_over_budget_can_cancel_the_rest(tmp_path):
    futures = []
    with pytest.warns(RuntimeWarning, match="1 of 1 instances"), pytest.raises(tprof.BudgetExceededError):
        run_strict(tmp_path, futures)

    assert [future.state for future in futures] == ["finished", "cancelled"]


@pytest.mark.parametrize("given", [{"budget_j": -1}, {"budget_j": "3"}, {"budget_j": 1, "over_budget": "stop"}])
def test_a_task_with_a_budget_that_means_nothing_is_refused(given):
    with pytest.raises(tprof.UsageError, match="must be"):
        tprof.task(**given)
