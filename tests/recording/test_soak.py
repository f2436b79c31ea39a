"""A service that is recorded for long takes no more disk and memory than at the start."""

import os
import threading
import time

import pytest
from support import disk_helpers
from support.segmented import size_of

import tprof

CALL_BYTES = 1600
"""Of the limit for each call between two looks, which has 80 bytes of samples, 128 if they are as long as 64 bytes."""
WINDOW_SAMPLES = 512
DAY_WINDOWS = 2 * 1000 * 86_400 // WINDOW_SAMPLES
"""Of a service with 1000 calls a second."""
DEADLINE_S = 120.0
LONG = (pytest.mark.thorough, pytest.mark.timeout(7200))
GROWTH_BYTES = 12_000_000


@tprof.task
def answer(number):
    return number


def serve(count):
    for number in range(count):
        answer(number)


@pytest.mark.parametrize(
    ("windows", "limit"),
    [pytest.param(1500, 16_000_000, id="short"), pytest.param(DAY_WINDOWS, 64_000_000, id="day", marks=LONG)],
)
def test_disk_and_memory_stay_flat_however_many_windows_there_are(tmp_path, windows, limit):
    """Threads come and go; the service waits when the folder is near its limit, as one with less to do would."""
    session = tmp_path / "s.tprof"
    calls = limit // CALL_BYTES
    bursts = windows * WINDOW_SAMPLES // (2 * calls)
    most_bytes = 0
    with tprof.record(session, energy="estimate", max_size=limit):
        memory = []
        for number in range(bursts):
            thread = threading.Thread(target=serve, args=(calls,))
            thread.start()
            thread.join()
            most_bytes = max(most_bytes, await_room(session, limit))
            if number in (bursts // 4, bursts - 1):
                memory.append([disk_helpers.memory_bytes(pid) for pid in (os.getpid(), *disk_helpers.pids_of(session))])

    trace = tprof.load(session)
    assert most_bytes < 1.2 * limit
    assert size_of(session) < limit
    early, late = memory
    assert max(after - before for before, after in zip(early, late, strict=True)) < GROWTH_BYTES
    assert trace.gone.samples + sum(one.stream.count for one in trace.threads) == bursts * (2 * calls + 1) + 1
    assert trace.profile().accounts["tasks_j"].sum() > 0


def await_room(session, limit):
    """Wait until the folder is below its limit by a burst; returns its size before."""
    first = found = size_of(session)
    deadline_s = time.monotonic() + DEADLINE_S
    while found > 0.88 * limit:
        assert time.monotonic() < deadline_s, "the folder stays at its limit"
        time.sleep(0.005)
        found = size_of(session)
    return first
