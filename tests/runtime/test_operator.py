"""A policy at work on a tree of cpufreq and powercap files, by a clock that stands still unless the test moves it."""

import os
import signal
import warnings
from itertools import pairwise
from types import SimpleNamespace

import pytest
from support.fake_sensor import wait_for
from tprof.runtime.policy import edp, fixed, policy_of, power_cap
from tprof.runtime.policy.control import BEGINS, ENDS
from tprof.runtime.policy.operator import CHECK_PERIOD_NS, Operator

from benchmarks.simulator.simulated_machine import ENERGY, RESPONSES, Shape, make_tree
from tprof.errors import SensorError, UsageError
from tprof.frequency import Bounds, find_policies, read_bounds
from tprof.frequency.cpufreq import CPUFREQ
from tprof.session.process_state import this_process

FREQUENCIES_HZ = (1_600_000_000, 2_100_000_000, 2_600_000_000, 3_100_000_000, 3_610_000_000)
LOWEST, HIGHEST = FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]
FORMER = [Bounds(LOWEST, HIGHEST)] * 2
TASKS = {name: this_process.tasks.define(name, file=None, line=None, code=None) for name in ("sort", "merge")}


class Place:
    """Two processors with a frequency each; tasks take the time and draw the power of the paper's responses."""

    def __init__(self, root, driver="acpi-cpufreq") -> None:
        make_tree(root, Shape(FREQUENCIES_HZ, policies=2, driver=driver), "nobody")
        self.root, self.now_ns, self.joules, self.logged, self.active = root, 0, 0.0, [], []
        self.meter = SimpleNamespace(read=lambda: (self.now_ns, self.joules), quality="simulated")

    def operator(self, policy, workers=2, cpus=(0, 1)):
        options = {"clock_ns": lambda: self.now_ns, "meter": self.meter, "log": self.logged.append}
        return Operator(policy_of(policy), workers, cpus[:workers], **options)

    def start(self, policy, **options):
        operator = self.operator(policy, **options)
        self.gate = operator.start(self.active.append)
        self.thread = self.gate.place()
        return operator

    def report(self, moment, task, slot=0):
        self.gate.report(moment, self.thread, TASKS[task], slot)

    def run(self, task, seconds=0.004, slot=0):
        """Run an instance that takes so long at the highest frequency."""
        self.report(BEGINS, task, slot)
        law, hz = RESPONSES[task], self.bounds()[slot].highest_hz
        lasted_s = seconds * law.time(hz)
        self.now_ns += round(lasted_s * 1e9)
        self.joules += law.power_w(hz) * lasted_s
        self.report(ENDS, task, slot)

    def run_both(self, instances, seconds=0.004):
        for _ in range(instances):
            for task in TASKS:
                self.run(task, seconds)

    def bounds(self):
        return [read_bounds(policy) for policy in find_policies(self.root)]

    def set_by_somebody(self, hz):
        for policy in (self.root / CPUFREQ).iterdir():
            (policy / "scaling_max_freq").write_text(f"{hz // 1000}\n")

    def of_kind(self, kind):
        return [one for one in self.logged if one["kind"] == kind]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path / "root"))
    return Place(tmp_path / "root")


def table(path, frequencies_hz, tasks=("sort", "merge")):
    rows = ["task,setting,setting_unit,workers,energy_j,time_s,instances"]
    rows += [f"{task},{hz},Hz,2,{hz / 1e9},0.1,1" for task in tasks for hz in frequencies_hz]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("driver", ["acpi-cpufreq", "intel_pstate"])
def test_a_learning_policy_tries_both_ends_decides_and_gives_back(tmp_path, monkeypatch, driver):
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path / "root"))
    place = Place(tmp_path / "root", driver)
    operator = place.start(edp(instances=2), workers=1)

    place.run_both(60)
    operator.stop()

    chosen = {one["task"]: one for one in place.of_kind("chosen")}
    explored_hz = {one["frequency_hz"] for one in place.of_kind("set") if one["why"] == "explore"}
    assert set(chosen) == {"sort", "merge"}
    assert chosen["merge"]["frequency_hz"] == LOWEST < chosen["sort"]["frequency_hz"]
    assert chosen["merge"]["energy_j"] == pytest.approx(0.004 * 10.0 * RESPONSES["merge"].energy_ratio, rel=0.02)
    assert {one["quality"] for one in chosen.values()} == {"simulated"}
    assert len(explored_hz | {HIGHEST}) == 3
    assert {LOWEST} < explored_hz | {HIGHEST}
    assert place.bounds() == FORMER


def test_each_task_runs_at_the_frequency_that_it_is_given(place):
    operator = place.start(fixed(tasks={"sort": HIGHEST, "merge": LOWEST}))

    for task, hz in (("sort", HIGHEST), ("merge", LOWEST), ("sort", HIGHEST)):
        place.run(task, slot=1)
        assert place.bounds()[1] == Bounds(hz, hz)
    operator.stop()

    assert [(one["task"], one["frequency_hz"], one["cpus"]) for one in place.of_kind("set")] == [
        ("merge", LOWEST, [1]),
        ("sort", HIGHEST, [1]),
    ]
    assert place.bounds() == FORMER


def test_what_is_told_is_what_the_processor_was_set_to(place):
    operator = place.start(fixed(2.5e9))

    place.run("sort")
    operator.stop()

    assert [one["frequency_hz"] for one in place.of_kind("set")] == [2_600_000_000]


def test_a_table_decides_without_a_sensor(place, tmp_path):
    rows = ["task,setting,setting_unit,workers,repeat,energy_j,time_s,instances"]
    rows += [
        f"{task},{hz},Hz,2,1,{hz * sign / 1e9 + 10},0.1,1"
        for task, sign in (("sort", -1), ("merge", 1))
        for hz in FREQUENCIES_HZ
    ]
    (tmp_path / "sweep.csv").write_text("\n".join(rows), encoding="utf-8")
    place.meter = None
    for file in (place.root / ENERGY).parent.iterdir():
        file.unlink()

    place.start(edp(tmp_path / "sweep.csv")).stop()

    assert {one["task"]: one["frequency_hz"] for one in place.of_kind("chosen")} == {"sort": HIGHEST, "merge": LOWEST}


def test_a_cap_is_kept_by_the_sensor_alone(place):
    operator = place.start(power_cap(1000.0))

    place.run_both(200, seconds=0.04)
    operator.stop()

    allowed = place.of_kind("allowed")
    assert allowed[0]["former_hz"] == LOWEST
    assert allowed[-1]["frequency_hz"] == HIGHEST
    assert all(one["frequency_hz"] <= other["frequency_hz"] for one, other in pairwise(allowed))
    assert all(one["why"].endswith("W drawn, simulated") for one in allowed)
    assert {one["kind"] for one in place.logged} == {"allowed", "released", "set"}
    assert place.bounds() == FORMER


def test_a_cap_below_what_is_drawn_leaves_the_lowest_frequency(place):
    operator = place.start(power_cap(0.5))

    place.run_both(20, seconds=0.04)
    operator.stop()

    assert {one["frequency_hz"] for one in place.of_kind("set")} == {LOWEST}
    assert place.active == [1]


@pytest.mark.parametrize("hz", [9e9, 2.4])
def test_a_frequency_that_is_not_this_machines_is_refused(place, hz):
    with pytest.raises(UsageError, match=r"this machine runs at 1\.6 to 3\.61 GHz"):
        place.start(fixed(hz))

    assert place.bounds() == FORMER


def test_a_table_of_another_machine_is_refused(place, tmp_path):
    with pytest.raises(UsageError, match=r"has no frequency of this machine, .*: sweep this"):
        place.start(edp(table(tmp_path / "other.csv", (4_200_000_000, 5_000_000_000))))

    assert place.bounds() == FORMER


def test_a_second_policy_beside_the_first_is_refused(place):
    first = place.start(fixed(LOWEST))

    with pytest.raises(SensorError, match="the processor's frequencies are held already"):
        place.start(fixed(HIGHEST))
    first.stop()

    assert place.bounds() == FORMER


def test_without_a_sensor_learning_is_refused_in_one_sentence(place):
    place.meter = None
    (place.root / ENERGY).with_name("name").unlink()

    with pytest.raises(SensorError, match="a policy that learns, or caps power, needs the package's energy") as refused:
        place.start("edp")

    assert 'profile="sweep.csv"' in str(refused.value)
    assert place.bounds() == FORMER


def test_without_frequencies_to_set_a_policy_is_refused_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))

    with pytest.raises(SensorError, match="has no policy: this machine does not let its frequency be set"):
        Operator(policy_of("energy"), 1, None).start(print)


@pytest.mark.parametrize("known", ["task", "table"])
def test_a_policy_that_knows_none_of_the_tasks_says_so(place, tmp_path, known):
    path = table(tmp_path / "strange.csv", FREQUENCIES_HZ, tasks=("sotr",))
    operator = place.start(fixed(tasks={"sotr": 2.6e9}) if known == "task" else edp(path))
    place.run_both(1)

    with pytest.warns(RuntimeWarning, match="had nothing to choose: it knows of sotr, .* tasks are merge, sort"):
        operator.stop()


def test_a_frequency_that_somebody_changes_is_set_again_with_one_warning(place):
    operator = place.start(fixed(LOWEST))
    for slot in (0, 1):
        place.run("sort", slot=slot)

    def found():
        place.set_by_somebody(HIGHEST)
        place.now_ns += CHECK_PERIOD_NS
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            place.run("sort")
        return [str(one.message) for one in warned]

    (first,), second = found(), found()
    held = place.bounds()
    operator.stop()

    assert held == [Bounds(LOWEST, LOWEST)] * 2
    assert first.startswith("another program changes the processor's frequency")
    assert second == []
    again = [one for one in place.of_kind("set") if one["why"] == "somebody else had changed it"]
    assert [one["cpus"] for one in again] == [[0], [1]] * 2
    assert place.bounds() == FORMER


def test_what_somebody_changes_is_not_looked_for_more_often_than_each_second(place):
    operator = place.start(fixed(LOWEST))
    place.run("sort")
    place.set_by_somebody(HIGHEST)

    place.run("sort")
    untouched = place.bounds()[0].highest_hz
    operator.stop()

    assert untouched == HIGHEST


def test_without_the_process_that_would_restore_a_policy_ends_and_restores_by_itself(place):
    operator = place.start(fixed(LOWEST))
    place.run("sort")
    guard = operator._guard  # noqa: SLF001 - nobody else knows the process
    os.kill(guard.pid, signal.SIGKILL)
    wait_for(lambda: not guard.is_alive, "the guard's end")

    place.now_ns += CHECK_PERIOD_NS
    with pytest.warns(RuntimeWarning, match="policy fixed sets no frequency any more: the process that would restore"):
        place.run("sort")
    operator.stop()

    assert place.bounds() == FORMER


def test_a_frequency_that_cannot_be_set_any_more_ends_the_policy_with_one_warning(place):
    operator = place.start(fixed(tasks={"sort": HIGHEST, "merge": LOWEST}))
    files = [policy / "scaling_max_freq" for policy in (place.root / CPUFREQ).iterdir()]
    for file in files:
        file.rename(file.with_name("kept"))
        file.mkdir()

    with pytest.warns(RuntimeWarning, match="policy fixed sets no frequency any more") as warned:
        place.report(BEGINS, "merge")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place.report(ENDS, "merge")
        place.report(BEGINS, "merge")
    for file in files:
        file.rmdir()
        file.with_name("kept").rename(file)
    operator.stop()

    assert len(warned) == 1
    assert place.bounds() == FORMER
