"""The loop that chooses operating points, in simulated time: known optima, what is never done, what is logged."""

import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.operating_points.curves import Knowledge, Point
from tprof.analysis.operating_points.goals import Edp, Energy, MaxSlowdown, PowerCap
from tprof.runtime.policy.control import BEGINS, ENDS, PAUSES, RESUMES, Control, MachineInterface
from tprof.runtime.policy.decision import Decision, Thresholds
from tprof.runtime.policy.learning import Learning
from tprof.runtime.policy.power_estimator import PowerEstimator
from tprof.runtime.policy.strategy import FixedFrequencies, FromTable

from benchmarks.simulator.policy_trials import FREQUENCIES_HZ, MIXES, Trial, multisort, side_by_side

LOWEST, HIGHEST = FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]
MULTISORT = multisort(16)


@pytest.mark.parametrize("shared", [False, True])
def test_edp_from_a_sweep_is_as_good_as_the_best_assignment_and_better_than_any_single_frequency(shared):
    trial = Trial(MIXES[0], shared=shared)
    best = min(one.edp_js for one in trial.every_assignment(FREQUENCIES_HZ[::3]).values())

    found = trial.from_table(Edp())

    assert found.edp_js <= 1.05 * best
    assert found.edp_js < min(one.edp_js for one in trial.single.values())


@pytest.mark.parametrize("shared", [False, True])
def test_edp_that_learns_comes_near_to_that_with_all_that_trying_costs(shared):
    trial = Trial(MIXES[0], shared=shared)
    logged = []

    found = trial.learning(Edp(), logged.append)

    assert found.edp_js <= 1.1 * trial.from_table(Edp()).edp_js
    assert found.edp_js < 0.95 * trial.single[HIGHEST].edp_js
    assert {one["task"]: one["frequency_hz"] for one in logged if one["kind"] == "chosen"}["merge"] == LOWEST


def test_the_least_energy_of_the_papers_tasks_is_at_the_lowest_frequency():
    trial = Trial(MULTISORT)

    assert trial.from_table(Energy()).energy_j == pytest.approx(trial.single[LOWEST].energy_j, rel=1e-3)


def test_static_power_makes_the_lowest_frequency_dear():
    trial = Trial(MULTISORT, static_w=200.0)

    assert trial.from_table(Energy()).energy_j < 0.9 * trial.single[LOWEST].energy_j


def test_the_slowdown_is_kept_and_energy_is_saved():
    trial = Trial(MULTISORT)

    found = trial.from_table(MaxSlowdown(0.20))

    assert found.time_s <= 1.20 * trial.single[HIGHEST].time_s
    assert found.energy_j < 0.9 * trial.single[HIGHEST].energy_j


def test_the_cap_is_kept_at_the_highest_speed_that_fits():
    trial = Trial(side_by_side(("sort", "merge"), instances=20))

    found = trial.from_table(PowerCap(24.0))

    assert found.energy_j / found.time_s <= 24.0
    assert found.time_s < trial.single[LOWEST].time_s


def test_a_cap_that_nothing_keeps_is_said_and_the_least_is_taken():
    trial, logged = Trial(MULTISORT), []

    found = trial.from_table(PowerCap(1.0), logged.append)

    assert found.energy_j == pytest.approx(trial.single[LOWEST].energy_j, rel=1e-3)
    assert {one["why"] for one in logged if one["kind"] == "chosen"} == {"table; the bound cannot be kept"}


def test_fixed_frequencies_are_set_where_the_task_runs():
    found = Trial(MULTISORT).fixed({"sort": HIGHEST, "merge": LOWEST})

    assert found.task_s["sort"] == pytest.approx(16 * 0.080, rel=1e-3)
    assert found.task_s["merge"] > 1.15 * sum(job.seconds for job in MULTISORT.jobs if job.task == "merge")


class Threads:
    """Threads that report their tasks, by name, to the gate of a loop; place and slot of each are its number."""

    def __init__(self, control, names, workers) -> None:
        self.control, self.names = control, names
        self.places = [control.gate.place() for _ in range(max(workers, 4))]

    def number(self, task):
        if task not in self.names:
            self.names.append(task)
        return self.names.index(task)

    def begin(self, who, task):
        self.control.gate.report(BEGINS, self.places[who], self.number(task), who)

    def end(self, who, task):
        self.control.gate.report(ENDS, self.places[who], self.number(task), who)

    def pause(self, who):
        self.control.gate.report(PAUSES, self.places[who])

    def resume(self, who, slot):
        self.control.gate.report(RESUMES, self.places[who], 0, slot)


class Bench:
    """A machine whose clock stands still unless a test moves it."""

    frequencies_hz = (10**9, 2 * 10**9, 3 * 10**9)
    transition_s = 10e-6

    def __init__(self, count=2) -> None:
        self.count, self.held, self.now_ns, self.joules, self.logged, self.active = count, [], 0, 0.0, [], None
        self.names = []

    def of(self, slot):
        return slot % self.count

    def cpus(self, control):
        return (control,)

    def nearest_hz(self, _control, hz):
        return min(self.frequencies_hz, key=lambda known: abs(known - hz))

    def hold(self, control, hz):
        self.held.append((control, hz))

    def changed_elsewhere(self):
        return ()

    def clock_ns(self):
        return self.now_ns

    def make(self, strategy, workers=2):
        machine = MachineInterface(self, self.clock_ns, self.logged.append, self.activate, self.names.__getitem__)
        return Threads(Control(strategy, machine, workers), self.names, workers)

    def fixed(self, frequency_hz, tasks_hz, workers=2):
        return self.make(FixedFrequencies(frequency_hz, tasks_hz, workers), workers)

    def from_table(self, goal, known):
        return self.make(FromTable(goal, known, self, Thresholds()))

    def learning(self, goal, workers=1):
        estimator = PowerEstimator(lambda: (self.now_ns, self.joules))
        return self.make(Learning(goal, self, self.frequencies_hz, estimator, workers=workers), workers)

    def activate(self, number):
        self.active = number

    def run(self, threads, task, seconds, who=0):
        threads.begin(who, task)
        self.now_ns += round(seconds * 1e9)
        self.joules += 10.0 * seconds
        threads.end(who, task)


def known(**tasks):
    """Return knowledge: for each task its energies at 1, 2 and 3 GHz and its time at all of them."""
    curves = {
        task: {hz: Point(energy_j, time_s) for hz, energy_j in zip(Bench.frequencies_hz, energies_j, strict=True)}
        for task, (energies_j, time_s) in tasks.items()
    }
    return {2: Knowledge(curves)}


def test_each_worker_gets_its_tasks_frequency_before_the_body():
    bench = Bench()
    threads = bench.from_table(Energy(), known(slow=((1.0, 2.0, 3.0), 0.1), fast=((3.0, 2.0, 1.0), 0.1)))

    threads.begin(0, "slow")
    threads.begin(1, "fast")

    assert bench.held == [(0, 10**9)]


def test_tasks_shorter_than_a_change_never_change_the_frequency():
    bench = Bench(count=1)
    threads = bench.from_table(Energy(), known(short=((1.0, 2.0, 3.0), 5e-6), long=((1.0, 2.0, 3.0), 0.1)))

    bench.run(threads, "short", 5e-6)
    assert bench.held == []

    bench.run(threads, "long", 0.1)
    bench.run(threads, "short", 5e-6)
    assert bench.held == [(0, 10**9)]


def test_a_short_task_within_a_long_one_leaves_it_its_frequency():
    bench = Bench(count=1)
    threads = bench.from_table(Energy(), known(short=((3.0, 2.0, 1.0), 5e-6), long=((1.0, 2.0, 3.0), 0.1)))

    threads.begin(0, "long")
    bench.run(threads, "short", 5e-6)
    threads.end(0, "long")
    bench.run(threads, "stranger", 0.1)

    assert bench.held == [(0, 10**9), (0, 3 * 10**9)]


def test_what_a_change_would_save_has_to_be_worth_it():
    bench = Bench(count=1)
    threads = bench.from_table(Energy(), known(even=((1.000, 1.002, 1.004), 0.1), brief=((1.0, 1.0, 1.2), 40e-6)))

    bench.run(threads, "even", 0.1)
    bench.run(threads, "brief", 40e-6)

    assert bench.held == []


def test_where_time_does_not_hang_on_the_frequency_the_lower_one_is_set_whatever_a_second_costs():
    """At a very high price of a second the joules that a change saves would seem to be worth nothing."""
    trial = Trial(side_by_side(("jacobi", "task_a"), instances=61, seconds=0.01))
    best = min(one.edp_js for one in trial.every_assignment(FREQUENCIES_HZ[::6]).values())

    assert trial.from_table(Edp()).edp_js <= 1.01 * best


def test_a_task_whose_energy_is_not_known_runs_at_the_highest_frequency_and_that_is_said():
    bench = Bench(count=1)
    drawn = itertools.cycle([5.0, 0.1])
    threads = bench.learning(Energy())

    for place in range(60):
        threads.begin(0, "odd")
        bench.now_ns += 100_000_000
        bench.joules += next(drawn) if place % 3 else 2.0
        threads.end(0, "odd")

    logged = [one for one in bench.logged if one["kind"] == "chosen"]
    assert [one["frequency_hz"] for one in logged] == [3 * 10**9]
    assert logged[0]["why"].startswith("not learnt: known to ")
    assert bench.held[-1] == (0, 3 * 10**9)


def test_a_task_whose_energy_is_known_no_more_has_no_vote():
    both = known(a=((1.0, 2.0, 3.0), 0.1), b=((3.0, 2.0, 1.0), 0.1))[2]
    first, _ = Decision(Thresholds()).updated(Energy().choose({2: both}).costs, both, 0.0)
    less = known(a=((1.0, 2.0, 3.0), 0.1))[2]

    later, _ = first.updated(Energy().choose({2: less}).costs, less, 0.0)

    assert later.frequency_for(["a", "b"], 3 * 10**9, 0.0) == (10**9, "vote")


def test_short_tasks_are_not_tried_at_other_frequencies():
    bench = Bench(count=1)
    threads = bench.learning(Edp())

    for _ in range(100):
        bench.run(threads, "short", 5e-6)

    assert bench.held == []


def test_a_short_task_is_found_to_be_short_though_its_first_instances_were_interrupted():
    bench = Bench(count=1)
    threads = bench.learning(Edp())

    for seconds in [5e-6, 25e-6, 40e-6] + [5e-6] * 100:
        bench.run(threads, "short", seconds)

    assert bench.held == []


def test_a_task_nobody_knows_runs_at_the_highest_frequency():
    bench = Bench(count=1)
    threads = bench.from_table(Energy(), known(slow=((1.0, 2.0, 3.0), 0.1)))

    bench.run(threads, "slow", 0.1)
    bench.run(threads, "stranger", 0.1)

    assert bench.held == [(0, 10**9), (0, 3 * 10**9)]


def test_a_nested_task_gives_its_parent_the_frequency_back():
    bench = Bench(count=1)
    threads = bench.fixed(None, {"outer": 10**9, "inner": 3 * 10**9})

    threads.begin(0, "outer")
    threads.begin(0, "inner")
    threads.end(0, "inner")
    threads.end(0, "outer")

    assert bench.held == [(0, 10**9), (0, 3 * 10**9), (0, 10**9)]


def test_a_task_that_waits_has_no_vote_and_gets_its_frequency_back():
    bench = Bench(count=1)
    threads = bench.fixed(None, {"outer": 3 * 10**9, "other": 10**9})

    threads.begin(0, "outer")
    threads.pause(0)
    threads.begin(1, "other")
    threads.end(1, "other")
    threads.resume(0, 0)

    assert bench.held == [(0, 10**9), (0, 3 * 10**9)]


def test_a_table_with_fewer_workers_that_are_better_leaves_the_others_without_tasks():
    bench = Bench()
    one = {10**9: Point(1.0, 1.0)}

    bench.from_table(Energy(), {2: Knowledge({"work": {10**9: Point(3.0, 2.0)}}), 1: Knowledge({"work": one})})

    assert bench.active == 1
    assert [(logged["kind"], logged.get("workers")) for logged in bench.logged] == [("chosen", None), ("workers", 1)]


def test_a_number_of_workers_that_the_program_sets_outlasts_what_is_learnt():
    bench = Bench()
    threads = bench.learning(Energy(), workers=2)

    threads.control.on_workers_set(1)
    for _ in range(40):
        bench.run(threads, "work", 0.1)

    assert [one["task"] for one in bench.logged if one["kind"] == "chosen"] == ["work"]
    assert bench.active is None
    assert [(one["workers"], one["why"]) for one in bench.logged if one["kind"] == "workers"] == [(1, "program")]


class Reviewing(FixedFrequencies):
    """Has one review, due as the first task ends, which takes until a test lets it go on."""

    learns = True

    def __init__(self) -> None:
        super().__init__(None, {"low": 10**9}, workers=2)
        self.begun, self.may_end, self.answers, self.ended = threading.Event(), threading.Event(), [], 0

    def watches(self, task):  # noqa: ARG002 - the interface
        return True

    @property
    def is_review_due(self):
        return bool(self.ended)

    def on_end(self, run, now_ns):  # noqa: ARG002 - the interface
        self.ended += 1

    def review(self):
        return None if self.begun.is_set() else self.answer

    def answer(self):
        self.begun.set()
        return self.may_end.wait(60)

    def apply(self, answer):
        self.answers.append(answer)


def test_no_thread_waits_for_another_ones_review():
    bench, strategy = Bench(), Reviewing()
    threads = bench.make(strategy)
    reviewing = threading.Thread(target=bench.run, args=(threads, "any", 0.1, 0))
    other = threading.Thread(target=bench.run, args=(threads, "low", 0.1, 1))

    reviewing.start()
    assert strategy.begun.wait(60)
    other.start()
    other.join(60)
    held, answers = list(bench.held), list(strategy.answers)
    strategy.may_end.set()
    reviewing.join(60)

    assert not other.is_alive()
    assert held == [(1, 10**9)]
    assert (answers, strategy.answers) == ([], [True])


class FailsOnce(Energy):
    """Has no memory for its first choice."""

    failures = ()

    def choose(self, known):
        if not self.failures:
            FailsOnce.failures = (MemoryError(),)
            raise self.failures[0]
        return super().choose(known)


def test_a_review_that_fails_is_made_again():
    bench = Bench(count=1)
    threads = bench.learning(FailsOnce())

    with pytest.raises(MemoryError):
        for _ in range(40):
            bench.run(threads, "work", 0.1)
    bench.run(threads, "work", 0.1)

    assert [one["task"] for one in bench.logged if one["kind"] == "chosen"] == ["work"]


def test_after_its_end_nothing_is_set():
    bench = Bench()
    threads = bench.fixed(10**9, {})
    threads.control.close()

    bench.run(threads, "work", 0.1)

    assert bench.held == []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=60))
@examples(50)
def test_what_is_held_is_what_was_said_whatever_order_threads_come_in(steps):
    bench = Bench(count=2)
    threads = bench.fixed(None, {"0": 10**9, "1": 2 * 10**9, "2": 3 * 10**9}, workers=4)
    begun = {who: [] for who in range(4)}

    for who, what in steps:
        bench.now_ns += 1
        if what < 3:
            threads.begin(who, str(what))
            begun[who].append(str(what))
        elif what == 3:
            threads.end(who, begun[who].pop() if begun[who] else "0")
        else:
            threads.pause(who)
            threads.resume(who, who)

    assert [(one["cpus"][0], one["frequency_hz"]) for one in bench.logged] == bench.held
    times = [one["t_ns"] for one in bench.logged]
    assert all(one <= other for one, other in itertools.pairwise(times))
