"""Budgets: what is counted, when it is exceeded, and what happens then."""

import json
import os
import tempfile
import threading
import time
import warnings

import pytest
from support import fake_trees
from support.fake_sensor import FakeSensor, wait_for

import tprof
from tprof.budgets.brakes import Workers
from tprof.runtime import Runtime

MODULUS = fake_trees.RANGE_UJ + 1
WATTS = "0,6"


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


@pytest.fixture
def estimated(monkeypatch):
    """Let every recording estimate: 6 W a busy core, nothing for an idle machine."""
    monkeypatch.setenv("TPROF_WATTS", WATTS)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with a sensor that advances by 50 W, and on which nobody else is seen to run."""
    tree = fake_trees.laptop(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    tree.write("proc/stat", "\n".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(64)))
    with FakeSensor(watts=50.0, modulus=MODULUS).drives(tree.energy_of("intel-rapl:0")):
        yield tree


def spin_over(budget, task=spin):
    """Run tasks until the budget says that it is exceeded."""

    def is_exceeded():
        task(0.005)
        return budget.exceeded

    wait_for(is_exceeded, "the budget to be exceeded")


def test_a_budget_that_is_kept_says_nothing(machine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tprof.budget(joules=1e6, watts=1e5, action="cancel") as budget:
            spin(0.05)

    assert not budget.exceeded
    assert 0 < budget.used_j < 1e6
    assert budget.quality == "measured"


def test_joules_that_are_used_up_are_warned_of_once_with_who_took_them(machine):
    with pytest.warns(RuntimeWarning) as told, tprof.budget(joules=1.0) as budget:
        spin_over(budget)
        spin(0.05)

    (warning,) = told
    assert str(warning.message).startswith("the budget of 1 J is used up: ")
    assert "measured, in" in str(warning.message)
    assert "most went to spin (" in str(warning.message)
    assert warning.filename == __file__
    assert budget.exceeded
    assert budget.used_j > 1
    assert budget.used_j == budget.history[-1].used_j
    assert sorted(budget.history) == list(budget.history)


def test_an_estimate_is_called_one(estimated):
    with pytest.warns(RuntimeWarning, match="by an ESTIMATE"), tprof.budget(joules=0.05) as budget:
        spin_over(budget)

    assert budget.quality == "estimated"


def test_watts_are_a_mean_over_the_window(machine):
    with pytest.warns(RuntimeWarning, match=r"more than 5 W: .* W, measured, over 0\.1 s"):
        with tprof.budget(watts=5, window_s=0.1) as budget:
            spin_over(budget)

    assert max(look.power_w for look in budget.history) > 5


def test_the_budget_of_named_tasks_counts_only_these(machine, tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", idle_s=0) as recording:
        with tprof.budget(joules=1e6, tasks="other") as named, tprof.budget(joules=1e6) as all_of_it:
            for _ in range(5):
                spin(0.02)
                other(0.01)

    summary = recording.profile("cputime").summary()
    assert named.used_j == pytest.approx(summary.loc["other", "energy_j"], rel=0.1)
    assert all_of_it.used_j > named.used_j + 0.8 * summary.loc["spin", "energy_j"]


def test_what_ran_before_the_block_is_not_counted(machine, tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", idle_s=0) as recording:
        spin(0.2)
        with tprof.budget(joules=1e6, tasks="spin") as budget:
            spin(0.02)

    rows = recording.profile("cputime").tasks
    assert budget.used_j == pytest.approx(rows["energy_j"].iloc[1], rel=0.2)


def test_a_private_recording_leaves_nothing_behind(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with tprof.budget(joules=1e6):
        spin(0.01)
        assert os.listdir(tmp_path / "temporary")

    assert os.listdir(tmp_path / "temporary") == []
    with tprof.record(tmp_path / "t.tprof", energy="none"):
        spin(0.01)


def test_cancelling_raises_at_the_end_of_the_block(machine):
    with pytest.raises(tprof.BudgetExceededError, match="the budget of 0.5 J is used up"):
        with tprof.budget(joules=0.5, action="cancel") as budget:
            spin_over(budget)


def test_an_error_of_the_block_is_not_hidden(machine):
    with pytest.raises(ZeroDivisionError) as caught, tprof.budget(joules=0.5, action="cancel") as budget:
        spin_over(budget)
        raise ZeroDivisionError

    assert "the budget of 0.5 J is used up" in caught.value.__notes__[0]


def test_cancelling_ends_what_a_runtime_has_not_begun(machine):
    with Runtime(workers=1) as runtime:
        with pytest.raises(tprof.BudgetExceededError), tprof.budget(joules=0.5, action="cancel") as budget:
            futures = [spin_until(lambda: budget.exceeded) for _ in range(5)]
            with pytest.raises(tprof.BudgetExceededError, match="is used up"):
                runtime.wait()
        states = [future.state for future in futures]
        again = spin(0.001)
        runtime.wait()

    assert states == ["finished", *["cancelled"] * 4]
    assert again.state == "finished"


def test_the_end_of_a_runtime_inside_a_budget_raises(machine):
    with pytest.raises(tprof.BudgetExceededError), tprof.budget(joules=0.5, action="cancel") as budget:
        with Runtime(workers=1):
            _ = [spin_until(lambda: budget.exceeded) for _ in range(3)]


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


def test_slowing_down_lowers_the_frequency_where_it_can_be_set(machine):
    highest = make_policy(machine)
    with pytest.warns(RuntimeWarning, match="the processor's frequency is held at 2.50 GHz"):
        with tprof.budget(joules=0.5, action="slow") as budget:
            spin_over(budget)
            wait_for(lambda: highest.read_text() == "2500000", "the lower frequency")

    assert highest.read_text() == "3000000"


def test_slowing_down_lets_fewer_workers_take_tasks_otherwise(machine):
    with Runtime(workers=4) as runtime:
        with pytest.warns(
            RuntimeWarning, match=r"2 of 4 workers go on taking tasks \(the frequency stays: .*no policy"
        ):
            with tprof.budget(joules=0.5, action="slow") as budget:
                future = spin_until(lambda: budget.exceeded)
                wait_for(lambda: budget.exceeded, "the budget to be exceeded")
        runtime.wait()

    assert future.state == "finished"


def test_without_a_runtime_slowing_down_pauses_between_tasks(machine, tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", idle_s=0) as recording:
        with pytest.warns(RuntimeWarning, match="each thread pauses after a task, 1 times as long as the task took"):
            with tprof.budget(joules=0.5, action="slow") as budget:
                spin_over(budget)
                for _ in range(3):
                    spin(0.01)
        spin(0.001)

    tasks = recording.profile("cputime").tasks
    begin_s, length_s = tasks["start_s"].to_numpy(), tasks["duration_s"].to_numpy()
    pauses_s = begin_s[1:] - begin_s[:-1] - length_s[:-1]
    assert (pauses_s[-3:-1] >= length_s[-4:-2] * 0.99).all()


def test_a_brake_on_workers_holds_and_lets_go():
    running, most = [], []

    def body():
        running.append(1)
        most.append(len(running))
        time.sleep(0.001)
        running.pop()

    with Runtime(workers=4) as runtime:
        brake = Workers(runtime)
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


def test_one_active_worker_serves_tasks_that_wait_for_their_children():
    def parent(depth):
        if depth:
            children = [runtime.submit(parent, depth - 1) for _ in range(2)]
            return sum(child.result() for child in children)
        return 1

    with Runtime(workers=4) as runtime:
        runtime.limit(1)
        leaves = runtime.submit(parent, 6).result()

    assert leaves == 64


@pytest.mark.parametrize("workers", [0, 3, True])
def test_a_limit_out_of_range_is_refused(workers):
    with Runtime(workers=2) as runtime, pytest.raises(tprof.UsageError, match="whole number from 1 to 2"):
        runtime.limit(workers)


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
    with tprof.record(tmp_path / "t.tprof", energy="none"):
        with pytest.raises(tprof.UsageError, match="a budget needs an energy sensor"), tprof.budget(joules=1):
            pass


def test_a_budget_serves_for_one_block(estimated):
    budget = tprof.budget(joules=1e6)
    with budget:
        pass

    with pytest.raises(tprof.UsageError, match="make one budget for each block"), budget:
        pass


def test_warnings_that_are_errors_are_raised_at_the_end_of_the_block(machine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="is used up"), tprof.budget(joules=0.5) as budget:
            spin_over(budget)


def test_a_forked_child_leaves_the_block_to_its_parent(machine):
    with tprof.budget(joules=1e6) as budget:
        child = os.fork()
        if child == 0:
            budget.__exit__(None, None, None)
            os._exit(7)
        _, status = os.waitpid(child, 0)
        spin(0.01)

    assert os.waitstatus_to_exitcode(status) == 7
    assert budget.used_j > 0


def make_thrifty(**options):
    @tprof.task(name="thrifty", budget_j=0.5, **options)
    def thrifty(cpu_s):
        spin.__wrapped__(cpu_s)

    return thrifty


def test_instances_over_their_budget_are_told_of_and_counted(machine, tmp_path):
    thrifty = make_thrifty()
    with pytest.warns(RuntimeWarning) as told:
        with tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", idle_s=0) as recording:
            for cpu_s in (0.1, 0.001, 0.1, 0.001, 0.001):
                thrifty(cpu_s)

    first, last = (str(warning.message) for warning in told)
    assert first.startswith("an instance of task thrifty took ")
    assert "(measured), more than its budget of 0.5 J" in first
    assert last.startswith("task thrifty: 2 of 5 instances were over their budget of 0.5 J (measured)")
    summary = recording.profile("cputime").summary()
    assert summary.loc["thrifty", "over_budget"] == 2
    assert summary.loc["thrifty", "budget_j"] == 0.5
    (line,) = [
        line for line in (recording.path / "tasks/00000000.jsonl").read_text().splitlines() if "budget_j" in line
    ]
    assert json.loads(line)["budget_j"] == 0.5


def test_an_instance_is_told_of_while_it_runs(machine, tmp_path):
    make_thrifty()
    stop = threading.Event()

    @tprof.task(budget_j=0.5)
    def endless():
        spin_until.__wrapped__(stop.is_set)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", idle_s=0):
            thread = threading.Thread(target=endless)
            thread.start()
            try:
                wait_for(lambda: told, "a warning")
            finally:
                stop.set()
                thread.join()

    assert "an instance of task test_an_instance" not in str(told[0].message)
    assert str(told[0].message).startswith("an instance of task endless took ")


def test_an_instance_over_budget_can_cancel_the_rest(machine, tmp_path):
    thrifty = make_thrifty(over_budget="cancel")
    with pytest.warns(RuntimeWarning, match="1 of 1 instances"), pytest.raises(tprof.BudgetExceededError):
        with tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", idle_s=0):
            with Runtime(workers=1) as runtime:
                first, second = thrifty(0.3), spin(0.001)
                runtime.wait()

    assert (first.state, second.state) == ("finished", "cancelled")


@pytest.mark.parametrize("given", [{"budget_j": -1}, {"budget_j": "3"}, {"budget_j": 1, "over_budget": "stop"}])
def test_a_task_with_a_budget_that_means_nothing_is_refused(given):
    with pytest.raises(tprof.UsageError, match="must be"):
        tprof.task(**given)
