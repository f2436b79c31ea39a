"""The gate between tasks and a policy: what it asks, beside a slow model of what runs; several threads at once."""

import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.runtime._scheduler import Gate
from tprof.runtime.policy.control import BEGINS, ENDS, IGNORED, PAUSES, RESUMES, SETTLED, UNDECIDED, UNSEEN, WATCHED

TASKS, SLOTS, CONTROLS = 4, 4, (0, 0, 1, 1)
KINDS = {0: SETTLED, 1: SETTLED, 2: IGNORED, 3: SETTLED}


class Policy:
    """Applies what the gate asks about, and decides at once that the frequency stays."""

    def __init__(self, controls=CONTROLS, kinds=KINDS, **options) -> None:
        self.asked, self.now_ns, self.remembers = [], 0, True
        self.gate = Gate(self.on_event, controls, clock_ns=lambda: self.now_ns, **options)
        self.gate.set_due(10**18)
        for control in set(controls):
            self.gate.hold(control, 10**9)
        for task, kind in kinds.items():
            self.gate.set_kind(task, kind)

    def on_event(self, moment, place, task, slot):
        gate = self.gate
        self.asked.append((moment, place))
        if moment == UNDECIDED:
            self.decide(place)
        elif moment == BEGINS:
            gate.begin(place, task, slot)
        elif moment == ENDS:
            gate.end(place, task)
        elif moment == PAUSES:
            gate.pause(place)
        else:
            gate.resume(place, slot)

    def decide(self, place):
        running = self.gate.unsettle(place)
        control = next(one[3] for one in running if one[0] == place)
        self.gate.hold(control, 10**9)
        if self.remembers:
            self.gate.remember(control, [task for _, _, task, where in running if where == control])

    def take_asked(self):
        asked, self.asked = self.asked, []
        return asked


steps = st.lists(st.tuples(st.integers(0, SLOTS - 1), st.sampled_from(["begin", "end", "pause"]), st.integers(0, 3)))


@given(steps)
@examples(200)
def test_it_knows_what_runs_and_asks_once_for_each_set_of_tasks_on_a_control(steps):
    policy = Policy(times=True)
    threads = [policy.gate.place() for _ in range(SLOTS)]
    stacks, ended, known = [[] for _ in threads], Counter(), set()
    busy_ns = 0

    def running():
        counted = [[task for task in stack if KINDS[task] != IGNORED] for stack in stacks]
        return {place: (stack[-1], CONTROLS[place]) for place, stack in enumerate(counted) if stack}

    for place, what, task in steps:
        policy.now_ns += 5
        busy_ns += 5 * bool(running())
        before = running().get(place)
        if what == "begin":
            stacks[place].append(task)
            policy.gate.report(BEGINS, threads[place], task, place)
        elif what == "end" and stacks[place]:
            ended[stacks[place][-1]] += 1
            policy.gate.report(ENDS, threads[place], stacks[place].pop())
        elif what == "pause":
            policy.gate.report(PAUSES, threads[place])
            policy.gate.report(RESUMES, threads[place], 0, place)
        after = running()

        assert {one: (number, control) for one, _, number, control in policy.gate.running()} == after
        on_control = (CONTROLS[place], *sorted(number for number, where in after.values() if where == CONTROLS[place]))
        changed = place in after and (after[place] != before or what != "end")
        if policy.take_asked():
            assert changed or what == "end"
            assert on_control not in known
            known.add(on_control)
        elif changed and (what == "pause" or KINDS[task] != IGNORED):
            assert on_control in known
    assert policy.gate.ended() == ended
    assert policy.gate.busy_ns() == busy_ns


def test_it_asks_again_at_another_frequency_and_after_another_decision():
    policy = Policy()
    thread = policy.gate.place()

    def asked():
        policy.gate.report(BEGINS, thread, 0, 0)
        policy.gate.report(ENDS, thread, 0)
        return [moment for moment, _ in policy.take_asked()]

    assert (asked(), asked()) == ([UNDECIDED], [])
    policy.gate.hold(0, 2 * 10**9)
    policy.remembers = False
    assert (asked(), asked()) == ([UNDECIDED], [])
    policy.gate.renew()
    assert (asked(), asked()) == ([UNDECIDED], [UNDECIDED])


def test_while_a_watched_task_runs_each_event_of_any_thread_is_asked_before_it_is_applied():
    policy = Policy(kinds={0: SETTLED, 1: WATCHED, 2: IGNORED})
    one, other = policy.gate.place(), policy.gate.place()

    for task in (0, 2):
        policy.gate.report(BEGINS, other, task, 1)
        policy.gate.report(ENDS, other, task)
    assert [moment for moment, _ in policy.take_asked()] == [UNDECIDED]
    policy.gate.report(BEGINS, one, 1, 0)
    for task in (0, 2):
        policy.gate.report(BEGINS, other, task, 1)
        policy.gate.report(ENDS, other, task)
    policy.gate.report(PAUSES, one)
    policy.gate.report(BEGINS, other, 0, 1)
    policy.gate.report(RESUMES, one, 0, 0)

    asked = policy.take_asked()
    assert asked == [(BEGINS, one), (BEGINS, other), (ENDS, other), (PAUSES, one), (RESUMES, one)]


def test_a_task_that_was_never_seen_is_asked_about():
    policy = Policy(kinds={0: UNSEEN})
    thread = policy.gate.place()

    policy.gate.report(BEGINS, thread, 1000, 0)

    assert policy.take_asked() == [(BEGINS, thread)]
    assert policy.gate.running() == [(thread, 0, 1000, 0)]


def test_when_it_is_time_one_event_is_asked_about():
    policy = Policy()
    threads = [policy.gate.place() for _ in range(2)]
    for thread in threads:
        policy.gate.report(BEGINS, thread, 2, 0)
    policy.gate.set_due(100)

    policy.now_ns = 100
    for thread in threads:
        policy.gate.report(ENDS, thread, 2)

    assert policy.take_asked() == [(ENDS, threads[0])]


def test_once_it_is_closed_it_asks_nothing():
    policy = Policy(kinds={})
    thread = policy.gate.place()

    policy.gate.close()
    policy.gate.report(BEGINS, thread, 0, 0)

    assert policy.take_asked() == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda gate: gate.report(7, 0), ValueError),
        (lambda gate: gate.set_kind(1, 9), ValueError),
        (lambda gate: gate.remember(0, [-1]), OverflowError),
        (lambda gate: gate.set_due(-1), OverflowError),
        (lambda _: Gate(print, []), ValueError),
        (lambda _: Gate(print, [70_000]), ValueError),
    ],
)
def test_arguments_that_make_no_sense_are_refused(call, error):
    with pytest.raises(error):
        call(Gate(print, [0]))


def test_unknown_places_and_unmatched_ends_change_nothing():
    policy = Policy()
    thread = policy.gate.place()

    policy.gate.report(BEGINS, 999, 0, 0)
    policy.gate.report(ENDS, thread, 0)
    policy.gate.report(RESUMES, thread, 0, 0)

    assert (policy.gate.begin(999, 0, 0), policy.gate.end(thread, 0)) == (-1, -1)
    assert (policy.gate.running(), policy.gate.ended(), policy.take_asked()) == ([], {}, [])


def test_threads_that_share_a_control_never_leave_it_undecided():
    """Whatever the order, the last to begin asks or is seen by the one that decides."""
    decided, lock = set(), threading.Lock()

    def on_event(moment, place, task, slot):
        with lock:
            running = gate.unsettle(place)
            tasks = tuple(sorted(one[2] for one in running))
            decided.add(tasks)
            gate.hold(0, 10**9)
            gate.remember(0, tasks)

    gate = Gate(on_event, [0] * 4)
    gate.set_due(2**63)
    for task in range(4):
        gate.set_kind(task, SETTLED)
    gate.hold(0, 10**9)
    together = threading.Barrier(4)
    seen = []

    def run(task):
        place = gate.place()
        for _ in range(200):
            together.wait()
            gate.report(BEGINS, place, task, task)
            if together.wait() == 0:
                seen.append(tuple(sorted(one[2] for one in gate.running())) in decided)
            together.wait()
            gate.report(ENDS, place, task)

    threads = [threading.Thread(target=run, args=(task,)) for task in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [True] * 200
    assert gate.ended() == dict.fromkeys(range(4), 200)
