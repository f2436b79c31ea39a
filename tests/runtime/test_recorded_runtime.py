"""A recording around a runtime has every instance once, and a profile that adds up."""

import sys
import threading

import numpy as np
import pytest
from support.recorded import failures, instances, record
from support.task_programs import OursError
from tprof.runtime import Runtime, current

import tprof


@tprof.task(updates="x")
def change(x):
    x += 1


@tprof.task
def fib(n):
    if n < 2:
        return n
    one, other = fib(n - 1), fib(n - 2)
    return one.result() + other.result()


@tprof.task
def fail():
    raise OursError


@pytest.mark.parametrize("workers", [1, 3])
def test_every_instance_is_recorded_once(tmp_path, workers):
    x = np.zeros(100)

    def body():
        with Runtime(workers=workers):
            for at in range(90):
                change(x[at : at + 10])
            fib(10)

    trace = record(tmp_path / "t.tprof", body)

    assert instances(trace) == {"change": 90, "fib": 177}
    assert failures(trace) == 0


def test_what_the_tasks_cost_is_what_was_measured(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording, Runtime(workers=2):
        for _ in range(50):
            fib(6)

    profile = recording.profile()
    accounts = profile.accounts
    # Threads of BLAS may spin in a process that has used it before.
    parts = accounts[["tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]].sum(axis=1)
    assert np.allclose(parts, accounts["measured_j"])
    assert len(profile.tasks) == profile.tasks["instance"].nunique() == 50 * 25


def test_cancelled_tasks_are_no_instances_and_failed_ones_failed(tmp_path):
    def body():
        with pytest.raises(OursError), Runtime(workers=1) as runtime:
            failed = fail()
            for _ in range(5):
                runtime.submit(change.__wrapped__, failed)
            change(np.zeros(1))

    trace = record(tmp_path / "t.tprof", body)

    assert instances(trace) == {"fail": 1, "change": 1}
    assert failures(trace) == 1


def test_a_recording_inside_the_block_has_what_begins_in_it(tmp_path):
    with Runtime(workers=2) as runtime:
        gate = threading.Event()
        runtime.submit(gate.wait, 30)
        change(np.zeros(1)).result()

        def body():
            for _ in range(20):
                change(np.zeros(1))
            gate.set()
            runtime.wait()

        trace = record(tmp_path / "t.tprof", body)
        change(np.zeros(1))

    assert instances(trace) == {"change": 20}


@tprof.task(updates="x")
def hold(x, begun, gate):
    begun.set()
    gate.wait(30)


def test_a_worker_that_meets_a_recording_as_its_task_ends_keeps_nobody_out(tmp_path):
    """It joins the recording, which asks Python for its name, while others spawn."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Runtime(workers=2) as runtime:
            for number in range(20):
                x, begun, gate = np.zeros(1), threading.Event(), threading.Event()
                hold(x, begun, gate)
                assert begun.wait(30)

                def body(x=x, gate=gate):
                    change(x)
                    gate.set()
                    for _ in range(200):
                        change(x)
                    runtime.wait()

                trace = record(tmp_path / f"{number}.tprof", body)
                assert instances(trace) == {"change": 201}
    finally:
        sys.setswitchinterval(before)


def test_a_task_that_waits_does_not_run_meanwhile(tmp_path):
    """What others do on its worker is theirs."""

    @tprof.task
    def busy():
        sum(range(1_000_000))

    @tprof.task
    def waits():
        for _ in range(3):
            busy()
        current().wait()

    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none") as recording, Runtime(workers=1):
        waits()

    tasks = recording.profile().tasks
    cpu_s = tasks.groupby("task")["cpu_s"].sum()
    assert cpu_s["waits"] < cpu_s["busy"] / 2
    assert (tasks["parent"] > 0).sum() == 3
