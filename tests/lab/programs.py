"""What runs in the guest, and what it says to the processor that it runs."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from debian import pool_library

import tprof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LAB = Path("/sys/kernel/lab")
TASKS = {"light": 1, "middle": 2, "heavy": 3} | {f"kind{number}": number for number in range(4, 11)}
"""Numbers of the module's table, by task."""
CALIBRATED = range(11, 20)
"""Numbers of the module's table that a calibration runs."""


@cache
def kind_file() -> int:
    """Return the open file by which a thread says what it runs; to open it each time would take as long as a task."""
    return os.open(LAB / "kind", os.O_WRONLY)


@contextmanager
def declared(kind: int) -> Iterator[None]:
    """Say to the processor what this thread runs while the block runs: a number of the module's table."""
    os.pwrite(kind_file(), b"%d" % kind, 0)
    yield
    os.pwrite(kind_file(), b"0", 0)


def hash_once(rounds: int) -> None:
    """Use the processor without the interpreter's lock, and without a call of the kernel or of the interpreter."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", rounds)


@cache
def rounds_per_s() -> float:
    """Return how many rounds of `hash_once` take a second: the least of several, since somebody may interrupt it."""
    rounds, best_s = 1000, float("inf")
    for _ in range(20):
        begin_s = time.thread_time()
        hash_once(rounds)
        best_s = min(best_s, time.thread_time() - begin_s)
    return rounds / best_s


def busy(kind: int, seconds: float) -> None:
    """Run a kind for so much of the thread's time."""
    with declared(kind):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            hash_once(max(int(0.005 * rounds_per_s()), 1))


def steps(rounds: int = 3, seconds: float = 0.5) -> None:
    """Alternate between idle, one and two processors."""
    for _ in range(rounds):
        time.sleep(seconds)
        busy(2, seconds)
        with ThreadPoolExecutor(2) as pool:
            for kind in (3, 4):
                pool.submit(busy, kind, seconds)


def starve(seconds: float = 0.4, rounds: int = 4) -> None:
    """Keep every processor from everybody else, so that no reader of a sensor runs, again and again."""
    processors = sorted(os.sched_getaffinity(0))
    for _ in range(rounds):
        children = []
        for processor in processors:
            child = os.fork()
            if not child:
                os.sched_setaffinity(0, {processor})
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
                busy(3, seconds)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        steps(1, 0.1)


def make_task(name: str, kind: int) -> Callable[[int], None]:
    """Return a task that declares its kind inside, so that nothing but the task is of this kind."""
    text = b"%d" % kind

    def body(rounds: int) -> None:
        os.pwrite(kind_file(), text, 0)
        hash_once(rounds)
        os.pwrite(kind_file(), b"0", 0)

    body.__name__ = body.__qualname__ = name
    return tprof.task(body)


@cache
def bodies() -> dict[str, Callable[[int], None]]:
    """Return the tasks by name."""
    kind_file()
    return {name: make_task(name, kind) for name, kind in TASKS.items()}


def plan(seconds: dict[str, float], instances: int, seed: int) -> list[tuple[str, int]]:
    """Return the tasks to call with their rounds, in an order in which every mix comes up."""
    calls = [(name, max(int(length * rounds_per_s()), 1)) for name, length in seconds.items() for _ in range(instances)]
    random.Random(seed).shuffle(calls)  # noqa: S311
    return calls


def tasks(seconds: dict[str, float], instances: int = 60, threads: int = 2) -> None:
    """Run tasks of these lengths in as many threads, with idle time before and after."""
    time.sleep(1)
    calls = plan(seconds, instances, seed=1)

    def work(number: int) -> None:
        for name, rounds in calls[number::threads]:
            bodies()[name](rounds)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    time.sleep(1)


def calibrate(folder: Path, seconds: float = 0.4) -> dict[str, object]:
    """Run `tprof calibrate` with kinds in place of its kernels, and return what it found; recordings take it."""
    command = [sys.executable, __file__, "calibrate", "--seconds", str(seconds), "--session", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise tprof.TprofError(f"tprof calibrate ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def use_kinds_as_kernels() -> None:
    from tprof.benchmarks.calibration import phases  # noqa: PLC0415 - only for `tprof calibrate`
    from tprof.benchmarks.kernels import Kernel  # noqa: PLC0415

    def kernel(kind: int) -> Kernel:
        def run(seconds: float) -> tuple[float, float]:
            busy(kind, seconds)
            return 1.0, 1.0

        return Kernel(f"kind{kind}", 0, lambda: run)

    tprof.record = partial(tprof.record, poller_share=0.5)  # polling costs 20 times as much here as elsewhere
    phases.kernels = lambda _caches, _cores: tuple(map(kernel, CALIBRATED))


class PerfEvent:
    """A hardware event of this thread that competes for the processor's counters while the block runs."""

    def __init__(self, config: int) -> None:
        attributes = bytearray(128)
        struct.pack_into("IIQQQQQ", attributes, 0, 0, len(attributes), config, 0, 0, 0, 0)
        call = ctypes.CDLL(None, use_errno=True).syscall
        self._file = call(298, (ctypes.c_char * len(attributes)).from_buffer(attributes), 0, -1, -1, 8)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")

    def close(self) -> None:
        os.close(self._file)


def multiplexed(seconds: dict[str, float], instances: int = 20) -> None:
    """Run tasks on this thread, whose counters take turns with another event."""
    rival = PerfEvent(5)
    for name, rounds in plan(seconds, instances, seed=1):
        bodies()[name](rounds)
    rival.close()


def pool(kinds: dict[str, list[int]], *, seconds: float, rest_s: float, instances: int) -> None:
    """Run tasks that compute beside a library's native thread: of each the kinds of its own thread and of that one."""
    library = ctypes.CDLL(str(pool_library()))

    def make(name: str, own: int, native: int) -> Callable[[], int]:
        def body() -> int:
            return library.pool_call(own, native, ctypes.c_uint64(int(seconds * 1e9)))

        return tprof.task(name=name)(body)

    made = [make(name, *both) for name, both in kinds.items()]
    # The first work of a thread is not counted: its counters are opened when it has used CPU time.
    library.pool_call(0, 1, ctypes.c_uint64(int(seconds * 1e9)))
    time.sleep(rest_s)
    for _ in range(instances):
        for task in made:
            if task() != 0:
                raise tprof.TprofError("the library could not begin its thread")
            time.sleep(rest_s)


PROGRAMS = {"steps": steps, "starve": starve, "tasks": tasks, "multiplexed": multiplexed, "pool": pool}

if __name__ == "__main__":
    from tprof.cli import main

    use_kinds_as_kernels()
    main()
