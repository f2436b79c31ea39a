"""The calls that are compared: a plain function, wrappers in Python, other profilers, a task recorded and not."""

from __future__ import annotations

import cProfile
import ctypes
import functools
import importlib
import importlib.util
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tprof
from tprof import counters
from tprof.errors import SensorError, UsageError

from .timing import Subject, no_collection, time_calls

if TYPE_CHECKING:
    from collections.abc import Callable

BARE = "plain function call"
NULL_WRAPPER = "pure-Python wrapper that only passes the call on"
TIMING_WRAPPER = "pure-Python wrapper that keeps two clock readings"
CPROFILE = "cProfile"
VIZTRACER = "VizTracer"
IDLE = "task, nothing recording"
CLOCK = "task, recording clock and cpu"
COUNTED = "task, recording counters"
BY_PAPI = "task, recording counters by PAPI"
LIMIT = "the limit by a counter of ticks, a sample"
CLOCK_LIMIT = "the limit by clock_gettime, a sample"

SAMPLES_PER_TASK = 2
SAMPLE_BYTES = 40
WRITE_BYTES = 122_880  # what the recorder appends at a time
SHORT_SAMPLES = 4 * WRITE_BYTES // SAMPLE_BYTES  # each short loop appends as often

FOUR_EVENTS = ("llc_refs",)  # by name beside instructions, cycles and LLC misses
STAND_IN_EVENTS = ("page_faults", "context_switches", "cpu_migrations")


def bare() -> None:
    """Do nothing: what is measured is the call."""


@tprof.task(name="nothing")
def task() -> None:
    """Do nothing, as a task."""


def null_wrapper(function: Callable[..., object]) -> Callable[..., object]:
    """Wrap as a decorator in Python does that has nothing to do."""

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return wrapper


def timing_wrapper(function: Callable[..., object], kept: list[tuple[int, int]]) -> Callable[..., object]:
    """Wrap as a profiler in Python does: two clock readings for each call are kept in memory."""
    clock = time.perf_counter_ns

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        begin_ns = clock()
        try:
            return function(*args, **kwargs)
        finally:
            kept.append((begin_ns, clock()))

    return wrapper


def subjects(directory: Path) -> list[Subject]:
    """Return all that is timed; recordings are made below `directory` and removed."""
    found = [
        Subject(BARE, lambda calls: time_calls(bare, calls)),
        Subject(NULL_WRAPPER, lambda calls: time_calls(null_wrapper(bare), calls)),
        Subject(TIMING_WRAPPER, lambda calls: time_calls(timing_wrapper(bare, []), calls)),
        Subject(CPROFILE, _time_cprofile),
        Subject(IDLE, lambda calls: time_calls(task, calls)),
        Subject(CLOCK, lambda calls: time_recorded(directory, calls, counters="none")),
        Subject(LIMIT, lambda calls: time_limit(directory, calls, by_ticks=True)),
        Subject(CLOCK_LIMIT, lambda calls: time_limit(directory, calls, by_ticks=False)),
    ]
    events, _ = group_events()
    if events:
        found.append(Subject(COUNTED, lambda calls: time_recorded(directory, calls, counters=events)))
    if papi_problem() is None:
        found.append(Subject(BY_PAPI, lambda calls: time_recorded(directory, calls, counters="papi")))
    if importlib.util.find_spec("viztracer") is not None:
        found.append(Subject(VIZTRACER, _time_viztracer))
    return found


def group_events() -> tuple[tuple[str, ...], str]:
    """Return the counters of the group that is read with each sample, and what stands in for four where it must."""
    try:
        counters.choose(FOUR_EVENTS)
    except SensorError as error:
        why = str(error).partition(":")[2].partition(";")[0].strip()
    else:
        return FOUR_EVENTS, ""
    try:
        counters.choose(STAND_IN_EVENTS)
    except SensorError:
        return (), f"not measured: {why}"
    return STAND_IN_EVENTS, f"{len(STAND_IN_EVENTS)} software events stand in for the four: {why}"


def papi_problem() -> str | None:
    """Return why PAPI does not count here, or None."""
    try:
        counters.choose("papi")
    except SensorError as error:
        return str(error).partition(";")[0]
    return None


def time_recorded(directory: Path, calls: int, *, counters: str | tuple[str, ...]) -> float:
    """Return nanoseconds a call of the task inside a recording; starting and ending it is left out."""
    with tprof.record(directory / "calls.tprof", counters=counters, overwrite=True):
        task()  # the first sample of a thread makes its file
        return time_calls(task, calls)


def time_limit(directory: Path, samples: int, *, by_ticks: bool) -> float:
    """Return nanoseconds a sample of a loop in C that only writes the bytes that a recorder must write."""
    path = directory / "limit"
    try:
        took_ns: int = _limit().write_samples(os.fsencode(path), samples, by_ticks)
    finally:
        path.unlink(missing_ok=True)
    if took_ns < 0:
        raise OSError(-took_ns, os.strerror(-took_ns), str(path))
    return took_ns / samples


@functools.cache
def _limit() -> ctypes.CDLL:
    """Compile and load csrc/limit.c. Raises UsageError without a compiler."""
    source = Path(__file__).with_name("csrc") / "limit.c"
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "limit.so"
        flags = ["-std=gnu11", "-O3", "-D_GNU_SOURCE", "-shared", "-fPIC"]
        try:
            subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", built, source], check=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"cannot compile {source}: {error}; name a compiler of C by CC") from error
        library = ctypes.CDLL(str(built))
    library.write_samples.argtypes = (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int)
    library.write_samples.restype = ctypes.c_int64
    return library


def quickest(directory: Path, *, blocks: int, loops: int) -> dict[str, float]:
    """Return the least of short loops, which other programs and the machine's host seldom disturb.

    Parameters
    ----------
    directory
        Where recordings are made and removed.
    blocks, loops
        Of each subject; each block makes a recording.

    Returns
    -------
    dict
        Subject's name to nanoseconds a call, or a sample for `LIMIT`, the loop's share included.
    """
    calls = SHORT_SAMPLES // SAMPLES_PER_TASK
    taken: dict[str, list[float]] = {BARE: [], IDLE: [], CLOCK: [], LIMIT: []}
    with no_collection():
        for _ in range(blocks):
            for _ in range(loops):
                taken[BARE].append(time_calls(bare, calls))
                taken[IDLE].append(time_calls(task, calls))
                taken[LIMIT].append(time_limit(directory, SHORT_SAMPLES, by_ticks=True))
            with tprof.record(directory / "calls.tprof", counters="none", overwrite=True):
                task()
                taken[CLOCK] += [time_calls(task, calls) for _ in range(loops)]
    return {name: min(values) for name, values in taken.items()}


def _time_cprofile(calls: int) -> float:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        return time_calls(bare, calls)
    finally:
        profiler.disable()


def _time_viztracer(calls: int) -> float:
    viztracer: Any = importlib.import_module("viztracer")
    tracer = viztracer.VizTracer(tracer_entries=4 * calls, verbose=0)
    tracer.start()
    try:
        return time_calls(bare, calls)
    finally:
        tracer.stop()
        tracer.clear()
        tracer.terminate()
