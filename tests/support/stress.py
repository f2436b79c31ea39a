"""Threads that come and go and use all that threads share; `scripts/sanitize` runs them under ThreadSanitizer.

Each visitor is a thread of its own, draws what it does, checks what came of it and ends. Meanwhile the main thread
begins and ends recordings, and a runtime that the visitors share.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import random
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tprof.runtime import Runtime, Task, TaskCancelledError

import tprof

VISITORS_AT_A_TIME = 4
VISITS_A_RECORDING = 12
RECORDINGS_A_RUNTIME = 2
DEADLINE_S = 120
COUNTED = "page_faults,context_switches,cpu_migrations"


class OursError(Exception):
    """What a task raises that is to fail."""


@tprof.task(updates="tile")
def add(tile, number):
    tile += number


@tprof.task(reads="tile")
def total(tile):
    return int(tile.sum())


@tprof.task(updates="tile")
def add_in_parts(tile, number):
    for part in np.array_split(tile, 4):
        add(part, number)


@tprof.task
def fail():
    raise OursError


@tprof.task
def double(number):
    return 2 * number


@tprof.task
def count_down(number):
    while number:
        yield number
        number -= 1


@dataclass
class Place:
    """What visitors share."""

    runtime: Runtime
    recording: tprof.Recording
    problems: list[BaseException]
    shelf: list = field(default_factory=list)
    region: object = field(default_factory=lambda: tprof.region("shared"))


def enter_and_leave(_place, draw):
    """Run tasks that depend on each other on a runtime of one's own."""
    tile = np.zeros(64, np.int64)
    with Runtime(workers=2, pin=False, library_threads=None) as runtime:
        for _ in range(10):
            add(tile[: draw.choice([32, 64])], 0)
            add_in_parts(tile, 1)
        with runtime.group():
            seen = total(tile)
        if draw.random() < 0.5:
            runtime.wait(tile)
    assert seen.result() == 10 * 64


def spawn_into_the_shared(place, draw):
    """Spawn, ask in all ways, and cancel what somebody else may wait for."""
    tile = np.zeros(16, np.int64)
    ended = []
    try:
        tasks = [place.runtime.submit(add, tile, 1) for _ in range(20)]
        tasks.append(place.runtime.submit(total, tile))
        place.shelf.extend(draw.sample(tasks, 3))
    except tprof.UsageError:  # it has ended
        return
    for task in tasks:
        task.add_done_callback(ended.append)
        repr(task)
    if draw.random() < 0.3:
        draw.choice(tasks).cancel()
    cancelled = 0
    for task in tasks:
        try:
            task.result()
        except TaskCancelledError:
            cancelled += 1
    place.runtime.counts()
    assert cancelled or tasks[-1].result() == 20 * 16


def meddle(place, draw):
    """Wait for, or cancel, what others spawned; change how many workers are active."""
    with suppress(IndexError, TaskCancelledError, tprof.UsageError):
        task = place.shelf.pop()
        if draw.random() < 0.5:
            task.cancel()
        task.wait()
        assert task.done()
        task.result()
    with suppress(tprof.UsageError):
        place.runtime.active_workers = draw.choice([1, 2, 3])


def fail_and_be_cancelled(_place, draw):
    """Leave a block by an exception, of a task or of its own."""
    with suppress(OursError), Runtime(workers=2, pin=False, library_threads=None) as runtime:
        tile = np.zeros(8)
        for _ in range(5):
            fail()
            add(tile, 1)
        if draw.random() < 0.5:
            runtime.cancel()
        if draw.random() < 0.5:
            raise OursError


def record_tasks(place, draw):
    """Run tasks in all forms on this thread, whatever is being recorded."""
    for number in range(draw.randint(1, 200)):
        answer = double(number)
        with suppress(TaskCancelledError):  # it was spawned into whatever runtime was entered last, and that may cancel
            assert (answer.result() if isinstance(answer, Task) else answer) == 2 * number
        with place.region, tprof.region("own"), place.region:
            assert list(count_down(3)) == [3, 2, 1]


def read_energy(place, _draw):
    """Read the joules so far, of the recording that runs or of one that has just ended."""
    with suppress(tprof.UsageError, tprof.TraceError):
        place.recording.energy()


# How often each is drawn. To read joules takes long where ThreadSanitizer watches, and others wait meanwhile.
WAYS = {
    enter_and_leave: 4,
    spawn_into_the_shared: 6,
    meddle: 4,
    fail_and_be_cancelled: 3,
    record_tasks: 4,
    read_energy: 1,
}


def visit(place, seed, free):
    draw = random.Random(seed)  # noqa: S311 - no secret
    try:
        for way in draw.choices(list(WAYS), list(WAYS.values()), k=3):
            way(place, draw)
    except BaseException as error:  # noqa: BLE001 - it is raised by the main thread
        place.problems.append(error)
    finally:
        free.release()


def run(folder: Path, recordings: int) -> int:
    """Make so many recordings while visitors come and go; returns how many came. Raises what any of them did."""
    free = threading.Semaphore(VISITORS_AT_A_TIME)
    problems: list[BaseException] = []
    threads: list[threading.Thread] = []
    for number in range(0, recordings, RECORDINGS_A_RUNTIME):
        with Runtime(workers=3, pin=False, library_threads=None) as runtime:
            for at in range(number, min(number + RECORDINGS_A_RUNTIME, recordings)):
                with tprof.record(
                    folder / f"{at}.tprof", energy="estimate", counters="page_faults,context_switches,cpu_migrations"
                ) as recording:
                    place = Place(runtime, recording, problems)
                    threads += [let_in(place, len(threads) + seed, free) for seed in range(VISITS_A_RECORDING)]
                gc.collect()
                assert tprof.load(folder / f"{at}.tprof").threads
    for thread in threads:
        thread.join(DEADLINE_S)
    if problems:
        raise problems[0]
    return len(threads)


def let_in(place: Place, seed: int, free: threading.Semaphore) -> threading.Thread:
    """Start a visitor as soon as there are few enough of them; some outlive the recording, and the runtime."""
    if not free.acquire(timeout=DEADLINE_S):
        faulthandler.dump_traceback()
        raise TimeoutError
    thread = threading.Thread(target=visit, args=(place, seed, free), name=f"visitor {seed}")
    thread.start()
    return thread


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=10)
    with tempfile.TemporaryDirectory() as scratch:
        came = run(Path(scratch), parser.parse_args().recordings)
    print(f"{came} visitors came and went")  # noqa: T201 - a program
