"""A recording begins, follows threads that come and go, and ends whole."""

import mmap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.recorded import instances, record, story

import tprof


@tprof.task
def work(n=200):
    return sum(range(n))


def test_threads_that_start_before_during_and_after_a_recording(tmp_path):
    begin, worked, ended = threading.Event(), threading.Event(), threading.Event()

    def early():
        work()
        begin.wait(30)
        work()
        worked.set()
        ended.wait(30)
        work()

    before = threading.Thread(target=early, name="early bird")
    before.start()

    def body():
        begin.set()
        during = threading.Thread(target=work)
        during.start()
        during.join()
        assert worked.wait(30)

    trace = record(tmp_path / "t.tprof", body)
    ended.set()
    before.join()
    after = threading.Thread(target=work)
    after.start()
    after.join()

    assert instances(trace) == {"work": 2}
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"work": 2}
    assert "early bird" in {thread.name for thread in trace.threads}


def test_two_recordings_one_after_the_other_are_apart(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        first = record(tmp_path / "a.tprof", lambda: list(pool.map(work, [5] * 10)))
        work()
        second = record(tmp_path / "b.tprof", lambda: list(pool.map(work, [5] * 7)))

    assert instances(first) == {"work": 10}
    assert instances(second) == {"work": 7}


def test_a_task_that_is_open_when_a_recording_begins_or_ends_does_no_harm(tmp_path):
    @tprof.task
    def around():
        recording = tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none")
        recording.__enter__()
        work()
        return recording

    around().__exit__(None, None, None)

    assert story(tprof.load(tmp_path / "t.tprof")) == [("start", "work"), ("finish", None)]


def test_a_second_recording_is_refused(tmp_path):
    with (
        tprof.record(tmp_path / "a.tprof", energy="estimate"),
        pytest.raises(tprof.UsageError, match=r"a recording already runs in this process .*a\.tprof"),
        tprof.record(tmp_path / "b.tprof", energy="estimate"),
    ):
        pass

    assert not (tmp_path / "b.tprof").exists()


def test_a_taken_path_is_refused_and_overwrite_replaces_it(tmp_path):
    record(tmp_path / "t.tprof", work)

    with pytest.raises(tprof.UsageError, match=r"t\.tprof.*overwrite"), tprof.record(tmp_path / "t.tprof"):
        pass
    with tprof.record(tmp_path / "t.tprof", energy="estimate", overwrite=True):
        work()
        work()

    assert instances(tprof.load(tmp_path / "t.tprof")) == {"work": 2}


def test_a_profile_of_a_running_recording_is_refused(tmp_path):
    with (
        tprof.record(tmp_path / "t.tprof", energy="estimate") as recording,
        pytest.raises(tprof.UsageError, match="still runs"),
    ):
        recording.profile()

    assert len(recording.profile().tasks) == 0


def test_an_exception_ends_the_recording_whole(tmp_path):
    def fail():
        with tprof.record(tmp_path / "t.tprof", energy="estimate"):
            work()
            1 / 0  # noqa: B018 - the exception is the point

    with pytest.raises(ZeroDivisionError):
        fail()

    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert instances(trace) == {"work": 1}


def test_tasks_defined_while_recording_have_their_names(tmp_path):
    def body():
        @tprof.task
        def latecomer():
            pass

        latecomer()

    assert instances(record(tmp_path / "t.tprof", body)) == {"latecomer": 1}


def test_the_trace_keeps_each_tasks_source(tmp_path):
    trace = record(tmp_path / "t.tprof", work)

    entry = next(task for task in trace.tasks if (task.name, task.file) == ("work", __file__))
    assert "return sum(range(n))" in entry.source


def test_samples_are_in_order_and_cpu_time_does_not_exceed_the_clock(tmp_path):
    trace = record(tmp_path / "t.tprof", lambda: [work(2000) for _ in range(300)])

    samples = trace.threads[0].read()
    steps_ns = samples["t_ns"][1:] - samples["t_ns"][:-1]
    cpu_steps_ns = samples["cpu_ns"][1:].astype("i8") - samples["cpu_ns"][:-1].astype("i8")
    assert (steps_ns.astype("i8") > 0).all()
    assert (cpu_steps_ns >= 0).all()
    assert cpu_steps_ns.sum() <= steps_ns.sum() * 1.01 + 1e6


def test_cpu_time_stands_still_while_a_task_sleeps(tmp_path):
    waiting = threading.Event()

    @tprof.task
    def sleep():
        waiting.wait(0.2)

    samples = record(tmp_path / "t.tprof", sleep).threads[0].read()

    assert int(samples["t_ns"][2] - samples["t_ns"][1]) >= 200_000_000
    assert int(samples["cpu_ns"][2] - samples["cpu_ns"][1]) < 50_000_000


def test_software_counters_count(tmp_path):
    @tprof.task
    def touch():
        with mmap.mmap(-1, 100 * mmap.PAGESIZE) as pages:  # malloc may give pages that were touched before
            for at in range(0, len(pages), mmap.PAGESIZE):
                pages[at] = 1

    trace = record(tmp_path / "t.tprof", touch, counters="page_faults,context_switches,cpu_migrations")
    thread = trace.threads[0]
    if "page_faults" not in thread.columns:
        pytest.skip("this machine has hardware counters or no perf events, so no software events are recorded")

    samples = thread.read()
    assert int(samples["page_faults"][2] - samples["page_faults"][1]) >= 100
