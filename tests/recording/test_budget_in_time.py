"""Budgets act while their block runs, however short its tasks; what is known without samples agrees with them."""

import itertools
import time
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fake_trees
from support.fake_sensor import DEADLINE_S, FakeSensor, wait_for
from support.properties import examples

import tprof
from tprof import _core
from tprof.budgets import block
from tprof.budgets.monitor import Monitor
from tprof.live import Meter

MODULUS = fake_trees.RANGE_UJ + 1
LONGEST_STEP_S = 0.02
"""Of the fake sensor: where it got no processor for longer it does not jump."""
SECOND_NS = 10**9
MANY = 20_000_000
STEP_COST_S = 0.006
"""More than a step may take that has no such cost."""


@tprof.task
def nothing():
    pass


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Give a machine with a sensor that advances by 50 W, and on which nobody else is seen to run."""
    tree = fake_trees.laptop(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    tree.write("proc/stat", "\n".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(64)))
    with FakeSensor(watts=50.0, modulus=MODULUS, longest_step_s=LONGEST_STEP_S).drives(tree.energy_of("intel-rapl:0")):
        yield tree


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("tasks", [None, "nothing"])
def test_a_budget_acts_while_tasks_that_do_nothing_run(tasks):
    with warnings.catch_warnings(action="ignore"), tprof.budget(joules=1.0, tasks=tasks) as budget:
        acted = any(nothing() or budget.exceeded for _ in range(MANY))

    assert acted


@pytest.mark.usefixtures("machine")
def test_a_budget_that_comes_late_says_so(monkeypatch):
    monkeypatch.setattr(block, "LAG_S", -1.0)

    with (
        pytest.warns(RuntimeWarning, match="a budget of nothing is .* s behind: more tasks run than"),
        tprof.budget(joules=1e9, tasks="nothing"),
    ):
        nothing()


@pytest.mark.usefixtures("machine")
def test_a_budget_that_keeps_up_says_nothing(monkeypatch):
    monkeypatch.setattr(block, "LAG_S", float(DEADLINE_S))  # on a loaded machine it comes a second late, and says so

    with (
        warnings.catch_warnings(record=True, action="always") as said,
        tprof.budget(joules=1e9, tasks="nothing") as budget,
    ):
        wait_for(lambda: nothing() or len(budget.history) > 5, "history")

    assert said == []
    assert not budget.exceeded


def test_polls_come_however_much_reads_cost():
    counts = {"reads": 0, "polls": 0}

    def read():
        counts["reads"] += 1
        end_s = time.thread_time() + 0.02
        while time.thread_time() < end_s:
            pass

    def poll():
        counts["polls"] += 1
        return False

    monitor = Monitor(read, poll)
    monitor.start()
    wait_for(lambda: counts["polls"] >= 20, "polls")
    monitor.stop()

    assert 0 < counts["reads"] < counts["polls"] / 2


def written(path, instances, quanta, quantum_ns=SECOND_NS):
    """Write a thread that runs so many instances one after the other, in so many quanta."""
    t_ns = np.linspace(0, quanta * quantum_ns, instances + 1).astype(int)
    ids = np.append(np.arange(1, instances + 1), 0)
    task = np.where(ids > 0, ids % 2, -1)
    thread = {"t_ns": t_ns, "instance": ids, "task": task, "cpu_ns": t_ns, "cpu": 0 * t_ns, "package": 0 * t_ns}
    edges_ns = np.arange(quanta + 1) * quantum_ns
    energy = {"package-0": (edges_ns, np.cumsum(edges_ns % 7) * 1.0 + np.arange(quanta + 1))}
    tprof.write_trace(path, tasks=["a", "b"], threads=[thread], energy=energy)


def spend(cpu_s):
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


@pytest.fixture
def behind(tmp_path):
    """Give a meter that is 20 s behind a recording, where each step has a cost of its own, as on a busy machine."""
    written(tmp_path / "t.tprof", instances=20_000, quanta=4000, quantum_ns=5_000_000)
    (tmp_path / "t.tprof" / "end.json").unlink()
    meter = Meter(tmp_path / "t.tprof")
    meter.listeners.append(lambda *_: spend(STEP_COST_S))
    return meter


def test_what_a_meter_is_behind_is_read_in_few_looks_however_much_a_step_costs(behind):
    looks = 0
    while behind.until_ns < 20 * SECOND_NS:
        looks += 1
        for _ in behind.read():
            pass

    assert looks <= 4 + 20 + 4, "0.1, 0.2, 0.4 and 0.8 s, then a second each; a few that cost more than others"


def test_a_look_uses_the_time_that_was_saved_and_at_most_one_step_more(behind):
    plain, saved = (sum(1 for _ in behind.read(saved_s)) for saved_s in (0.0, 10 * STEP_COST_S))

    assert plain == 1
    assert 1 < saved <= 10


@tprof.task
def compute_until_drawn(joules):
    end_uj = _core.drawn_uj() + joules * 1e6
    while _core.drawn_uj() < end_uj:
        pass


@pytest.mark.usefixtures("machine")
def test_a_budget_is_noticed_in_a_few_looks_at_samples_that_are_there(monkeypatch):
    monkeypatch.setattr(Monitor, "start", lambda _: None)  # this test looks
    looks = 0
    with warnings.catch_warnings(action="ignore"), tprof.budget(joules=20.0, tasks="compute_until_drawn") as budget:
        compute_until_drawn(40)
        while not budget.exceeded and looks < 100:
            looks += 1
            budget._read()  # noqa: SLF001 - as its thread does

    assert looks <= 6


@examples(20)
@given(st.integers(1, 300), st.integers(1, 12), st.integers(1, 5 * SECOND_NS), st.booleans())
def test_steps_of_any_length_give_the_same(tmp_path_factory, instances, quanta, slice_ns, has_ended):
    path = tmp_path_factory.mktemp("steps") / "t.tprof"
    written(path, instances, quanta)
    if not has_ended:
        (path / "end.json").unlink()
    stepped = Meter(path)

    seen = [0.0]
    while stepped.step(slice_ns):
        seen.append(stepped.shared_j(frozenset("a")))

    whole = Meter(path).energy()
    figures = stepped.figures()
    assert figures.measured_j == pytest.approx(whole.measured_j)
    assert figures.tasks_j == pytest.approx(whole.tasks_j)
    assert {name: task.instances for name, task in figures.tasks.items()} == {
        name: task.instances for name, task in whole.tasks.items()
    }
    assert all(one <= other for one, other in itertools.pairwise(seen))
