"""What a budget may hold back: its own block's tasks and runtimes, and nobody else's."""

import threading
from contextlib import contextmanager

import pytest
from support import budgeted
from support.budgeted import spin, spin_here_over, spin_until
from support.fake_sensor import wait_for
from support.task_programs import OursError
from tprof.runtime import Runtime

import tprof


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Give every test a machine with a sensor."""
    with budgeted.machine(tmp_path, monkeypatch) as machine:
        yield machine


@pytest.fixture
def gate():
    """Give an event that is set in the end, whatever the test did."""
    event = threading.Event()
    yield event
    event.set()


@tprof.task
def hold(gate):
    assert gate.wait(30)


@contextmanager
def newer_runtime(gate):
    """Enter a runtime of another thread, with tasks that wait."""
    begun, seen = threading.Event(), {}

    def body():
        with Runtime(workers=2) as seen["runtime"]:
            seen["tasks"] = [hold(gate) for _ in range(4)]
            begun.set()
            seen["runtime"].wait()

    thread = threading.Thread(target=body)
    thread.start()
    assert begun.wait(30)
    yield seen
    gate.set()
    thread.join()


def cancel_own(machine, tasks, gate):
    machine.draws(budgeted.IDLE_W)
    with tprof.budget(joules=0.5, action="cancel") as budget:
        tasks += [hold(gate) for _ in range(3)]
        wait_for(tasks[0].running, "the first to begin")
        machine.draws(budgeted.WATTS)
        spin_here_over(budget)


def test_cancelling_leaves_a_newer_runtime_of_another_thread_alone(machine, gate):
    own = []
    with Runtime(workers=1), newer_runtime(gate) as other:
        with pytest.raises(tprof.BudgetExceededError):
            cancel_own(machine, own, gate)
        gate.set()

    assert [task.state for task in own] == ["finished", "cancelled", "cancelled"]
    assert {task.state for task in other["tasks"]} == {"finished"}


def slow_own(*runtimes):
    with tprof.budget(joules=0.5, action="slow") as budget:
        spin_here_over(budget)
        return [runtime.active_workers for runtime in runtimes]


def test_slowing_down_leaves_a_newer_runtime_of_another_thread_alone(gate):
    with Runtime(workers=4) as runtime, newer_runtime(gate) as other:
        with pytest.warns(RuntimeWarning, match="2 of 4 workers"):
            seen = slow_own(runtime, other["runtime"])
        gate.set()

    assert seen == [2, 2]


def slow_inside(machine, around):
    machine.draws(budgeted.IDLE_W)
    with tprof.budget(joules=0.5, action="slow") as budget, Runtime(workers=2) as inside:
        machine.draws(budgeted.WATTS)
        spin_here_over(budget)
        return around.active_workers, inside.active_workers


def test_slowing_down_acts_on_a_runtime_that_the_block_enters(machine):
    with Runtime(workers=4) as around, pytest.warns(RuntimeWarning, match="1 of 2 workers"):
        seen = slow_inside(machine, around)

    assert seen == (4, 1)


def test_tasks_that_were_spawned_before_the_block_go_on(gate):
    own = []
    with Runtime(workers=1):
        before = [hold(gate), spin(0.001)]
        wait_for(before[0].running, "the first to begin")
        with pytest.raises(tprof.BudgetExceededError):
            cancel_around(own)
        gate.set()

    assert [task.state for task in before + own] == ["finished", "finished", "cancelled", "cancelled"]


def cancel_around(tasks):
    with tprof.budget(joules=0.5, action="cancel") as budget:
        tasks += [spin(0.001), spin(0.001)]
        spin_here_over(budget)


def test_a_budget_inside_a_task_leaves_its_siblings_alone():
    children = []

    @tprof.task
    def over_budget(runtime):
        with tprof.budget(joules=0.5, action="cancel") as budget:
            children.extend(spin(0.001) for _ in range(3))
            spin_here_over(budget)
            # On a slow machine it may be used up before they are spawned: then the next reading cancels them.
            wait_for(lambda: all(child.state == "cancelled" for child in children), "the children to be cancelled")
            runtime.wait()

    with Runtime(workers=1) as runtime:
        task = runtime.submit(over_budget, runtime)
        siblings = [spin(0.001) for _ in range(3)]
        with pytest.raises(tprof.BudgetExceededError, match="is used up"):
            task.result()

    assert [child.state for child in children] == ["cancelled"] * 3
    assert [sibling.state for sibling in siblings] == ["finished"] * 3


def test_a_sibling_that_waits_meanwhile_is_told_of_nothing(gate):
    ended = []

    @tprof.task
    def sibling(runtime):
        spin(0.001)
        gate.wait(30)
        runtime.wait()
        ended.append("sibling")

    with Runtime(workers=2) as runtime:
        other = sibling(runtime)
        wait_for(other.running, "the sibling to begin")
        with pytest.raises(tprof.BudgetExceededError):
            cancel_around([])
        gate.set()
        runtime.wait()

    assert ended == ["sibling"]


def test_cancelling_reaches_the_tasks_of_groups_inside_the_block(gate):
    tasks = []
    with Runtime(workers=1) as runtime:
        blocking = hold(gate)
        with pytest.raises(tprof.BudgetExceededError):
            cancel_in_group(runtime, tasks)
        gate.set()

    assert [task.state for task in tasks] == ["cancelled"] * 2
    assert blocking.state == "finished"


def cancel_in_group(runtime, tasks):
    with tprof.budget(joules=0.5, action="cancel") as budget, runtime.group():
        tasks += [spin(0.001), spin(0.001)]
        spin_here_over(budget)


def test_a_group_around_the_block_waits_for_its_tasks_and_hears_of_their_failures():
    tasks = []
    with Runtime(workers=2) as runtime:
        with pytest.raises(OursError):
            fail_in_group(runtime, tasks)
        assert tasks[0].done()


def fail_in_group(runtime, tasks):
    def fail():
        raise OursError

    with runtime.group(), tprof.budget(joules=1e6, action="cancel"):
        tasks.append(spin(0.05))
        runtime.submit(fail)


def test_failures_of_a_cancelling_budgets_tasks_are_raised_where_somebody_waits():
    def fail():
        raise OursError

    with Runtime(workers=2) as runtime:
        with tprof.budget(joules=1e6, action="cancel"):
            runtime.submit(fail)
        with pytest.raises(OursError):
            runtime.wait()


def test_a_group_of_the_runtime_around_holds_across_a_budget_of_another():
    with Runtime(workers=1) as around:
        with around.group(), Runtime(workers=1), tprof.budget(joules=1e6, action="cancel"):
            of_group = around.submit(spin.__wrapped__, 0.05)
        assert of_group.done()


def run_inside_and_around(machine, tasks):
    machine.draws(budgeted.IDLE_W)
    with tprof.budget(joules=0.5, action="cancel") as budget:
        tasks.append(spin_until(lambda: budget.exceeded))
        tasks.append(spin(0.001))
        wait_for(tasks[0].running, "the one around to begin")
        with Runtime(workers=1):
            tasks.append(spin_until(lambda: budget.exceeded))
            tasks.append(spin(0.001))
            wait_for(tasks[2].running, "the one inside to begin")
            machine.draws(budgeted.WATTS)


def test_cancelling_reaches_what_was_spawned_around_and_inside(machine):
    tasks = []
    with Runtime(workers=1), pytest.raises(tprof.BudgetExceededError):
        run_inside_and_around(machine, tasks)

    assert [task.state for task in tasks] == ["finished", "cancelled"] * 2
