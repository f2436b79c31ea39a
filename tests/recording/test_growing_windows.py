"""A window of a file begins small and grows: nothing is lost on the way, and few samples take little space."""

import pytest

import tprof

SAMPLES_OF_A_CALL, FIRST = 2, 1


@tprof.task
def short_work() -> None:
    """Do nothing."""


@pytest.mark.parametrize("calls", [5, 383, 384, 385, 768, 1536, 1537, 6000])
def test_every_sample_is_there_while_it_runs_and_afterwards(tmp_path, calls):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none"):
        for _ in range(calls):
            short_work()
        (running,) = tprof.load(tmp_path / "t.tprof").threads
        before = running.read()
    (ended,) = tprof.load(tmp_path / "t.tprof").threads
    after = ended.read()

    assert len(before) == len(after) == FIRST + SAMPLES_OF_A_CALL * calls
    assert (before == after).all()
    assert len(set(after["instance"].tolist())) == calls + 1


def test_a_thread_with_few_samples_takes_little_of_the_disk(tmp_path):
    with tprof.record(tmp_path / "t.tprof", energy="estimate", counters="none"):
        for _ in range(100):
            short_work()
    (thread,) = tprof.load(tmp_path / "t.tprof").threads

    assert thread.stream.path.stat().st_blocks * 512 <= 49152
