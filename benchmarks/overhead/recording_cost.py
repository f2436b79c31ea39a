"""What recording costs: the measurement behind `scripts/bench overhead`, each figure beside its target.

Besides samples and tasks: what `import tprof` adds to the start of Python, in child processes of their own, and the
paper's micro-benchmark (section 2.1) of 2.5 million tasks and 5 million samples, start and flushed end included.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tprof.benchmarks.machine_description import describe_machine
from tprof.benchmarks.measured_figures import Figure, result_of

import tprof
from tprof.session.process_state import SESSION
from tprof.trace import Kind, load_session

from . import call_cost, sensor_thread_cost
from .call_cost import SAMPLE_BYTES, SAMPLES_PER_TASK, WRITE_BYTES, bare, task
from .threads_cost import measure_threads
from .timing import differences, interleave, no_collection, ratios, time_calls

SAMPLE_OVER_LIMIT = 1.5
TASK_OVER_LIMIT = 4.0
SENSOR_SHARE = 0.01
NATIVE_SHARE = 0.01
NATIVE_THREADS = (2, 16, 64)
OVER_BARE = "over the plain call"
JUDGED_UNDISTURBED = "also says how a host slows Python: judged undisturbed, below"


@dataclass(frozen=True)
class Extent:
    """How much is measured.

    Attributes
    ----------
    calls, rounds : of each loop.
    short_blocks, short_loops : of each round of short loops, of which the quickest counts.
    tasks, task_rounds : of the paper's micro-benchmark.
    import_rounds : pairs of child processes.
    sensor_s, sensor_rounds : how long the sensor thread is watched.
    threads, thread_calls, thread_rounds : many threads, and what each of those calls that compete.
    """

    calls: int = 200_000
    rounds: int = 7
    short_blocks: int = 40
    short_loops: int = 10
    tasks: int = 2_500_000
    task_rounds: int = 3
    import_rounds: int = 15
    sensor_s: float = 1.0
    sensor_rounds: int = 3
    threads: int = 1_000
    thread_calls: int = 5_000
    thread_rounds: int = 3


FULL = Extent()
QUICK = Extent(
    calls=2_000,
    rounds=2,
    short_blocks=1,
    short_loops=1,
    tasks=5_000,
    task_rounds=1,
    import_rounds=1,
    sensor_s=0.05,
    sensor_rounds=1,
    threads=20,
    thread_calls=10,
    thread_rounds=1,
)


def measure(extent: Extent = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure what recording costs, in one run.

    Parameters
    ----------
    extent
        `FULL` for figures, `QUICK` to see that it works.
    directory
        Where traces are made and removed (200 MB at a time); by default the folder for temporary files. Its file
        system is a part of what is measured.

    Returns
    -------
    dict
        `machine` (as `describe_machine`), `effort`, `directory`, and `figures`: plain values as
        `Figure.as_plain`, in the order in which they are to be read.

    Raises
    ------
    UsageError
        If a recording runs in this process.

    Notes
    -----
    A first, unmeasured round of each loop lets the kernel take memory for the file cache. In a virtual machine the
    hypervisor hands out memory at that moment, which costs several times what the recorder does.
    """
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="tprof-overhead-", dir=directory) as name:
        place = Path(name)
        figures = [
            *measure_calls(place, extent),
            *measure_undisturbed(place, extent),
            *measure_million(place, extent),
            *measure_threads(place, threads=extent.threads, calls=extent.thread_calls, rounds=extent.thread_rounds),
            *measure_import(place, extent),
            *measure_sensor_thread(place, extent),
        ]
    return result_of(extent, figures, machine, directory=str(Path(name).parent))


def measure_calls(directory: Path, extent: Extent) -> list[Figure]:
    """Measure samples and calls in interleaved rounds."""
    taken = interleave(call_cost.subjects(directory), calls=extent.calls, rounds=extent.rounds)
    bare, idle, limit = taken[call_cost.BARE], taken[call_cost.IDLE], taken[call_cost.LIMIT]
    sample = differences(taken[call_cost.CLOCK], idle, divisor=SAMPLES_PER_TASK)
    recorded = differences(taken[call_cost.CLOCK], bare)
    figures = [
        Figure("a sample, clock and cpu only", sample, "ns", 50),
        Figure("a sample, clock and cpu only, over the limit", ratios(sample, limit), "×", note=JUDGED_UNDISTURBED),
        _grouped(taken, idle),
        _by_papi(taken, idle),
        Figure(f"{call_cost.IDLE}, {OVER_BARE}", differences(idle, bare), "ns", 25),
        Figure(f"{call_cost.CLOCK}, {OVER_BARE}", recorded, "ns", 100, "two samples"),
        Figure(
            f"{call_cost.CLOCK}, {OVER_BARE}, over the limit", ratios(recorded, limit), "×", note=JUDGED_UNDISTURBED
        ),
        Figure(call_cost.LIMIT, limit, "ns", note="a loop in C that writes the same bytes and nothing else"),
        Figure(call_cost.CLOCK_LIMIT, taken[call_cost.CLOCK_LIMIT], "ns"),
        Figure(call_cost.BARE, bare, "ns"),
    ]
    for rival in (call_cost.NULL_WRAPPER, call_cost.TIMING_WRAPPER, call_cost.CPROFILE, call_cost.VIZTRACER):
        if rival in taken:
            figures.append(Figure(f"{rival}, {OVER_BARE}", differences(taken[rival], bare), "ns"))
        else:
            figures.append(_absent(f"{rival}, {OVER_BARE}", "ns", None, "not installed"))
    return figures


def measure_undisturbed(directory: Path, extent: Extent) -> list[Figure]:
    """Measure samples and calls by the quickest of many short loops.

    The host of a virtual machine slows Python down for tenths of a second at a time, and slows the limit less, since
    that waits for memory: the median ratio of longer loops says as much about the host as about the recorder.
    """
    rounds = [
        call_cost.quickest(directory, blocks=extent.short_blocks, loops=extent.short_loops)
        for _ in range(extent.rounds)
    ]
    limit = tuple(one[call_cost.LIMIT] for one in rounds)
    sample = tuple((one[call_cost.CLOCK] - one[call_cost.IDLE]) / SAMPLES_PER_TASK for one in rounds)
    recorded = tuple(one[call_cost.CLOCK] - one[call_cost.BARE] for one in rounds)
    note = f"the quickest of {extent.short_blocks * extent.short_loops} short loops"
    return [
        Figure("a sample, clock and cpu only, undisturbed", sample, "ns", 50, note),
        Figure(
            "a sample, clock and cpu only, over the limit, undisturbed",
            ratios(sample, limit),
            "×",
            SAMPLE_OVER_LIMIT,
            note,
        ),
        Figure(
            f"{call_cost.CLOCK}, {OVER_BARE}, over the limit, undisturbed",
            ratios(recorded, limit),
            "×",
            TASK_OVER_LIMIT,
            note,
        ),
    ]


def _grouped(taken: dict[str, tuple[float, ...]], idle: tuple[float, ...]) -> Figure:
    events, stand_in = call_cost.group_events()
    name, target_ns = "a sample with a group of four counters", 500.0
    if not events:
        return _absent(name, "ns", target_ns, stand_in)
    values = differences(taken[call_cost.COUNTED], idle, divisor=2)
    return Figure(name, values, "ns", target_ns, stand_in, comparable=not stand_in)


def _by_papi(taken: dict[str, tuple[float, ...]], idle: tuple[float, ...]) -> Figure:
    name = "a sample with three counters by PAPI"
    if call_cost.BY_PAPI not in taken:
        return _absent(name, "ns", None, call_cost.papi_problem() or "not measured")
    return Figure(name, differences(taken[call_cost.BY_PAPI], idle, divisor=2), "ns")


def _absent(name: str, unit: str, target: float | None, why: str) -> Figure:
    return Figure(name, (), unit, target, why, comparable=False)


def measure_million(directory: Path, extent: Extent) -> list[Figure]:
    """Record the paper's micro-benchmark; the first round, for which the kernel has to allocate memory, is separate."""
    first = record_tasks(directory, extent.tasks)
    rounds = [record_tasks(directory, extent.tasks) for _ in range(extent.task_rounds)]
    gc.collect()
    label = f"{extent.tasks:,} tasks, {SAMPLES_PER_TASK * extent.tasks:,} samples"
    return [
        Figure(
            f"{label}: a sample end to end",
            tuple(one.sample_ns for one in rounds),
            "ns",
            60,
            "start, end and writing included, the plain calls left out",
        ),
        Figure(f"{label}: samples missing", (float(sum(one.missing for one in [first, *rounds])),), "samples", 0),
        Figure(
            "the same, first time: a sample end to end", (first.sample_ns,), "ns", note="memory new to the file cache"
        ),
        Figure(
            "the same bytes by plain write(2), a sample",
            tuple(one.write_ns for one in rounds),
            "ns",
            note="the file system's part",
        ),
    ]


def measure_import(directory: Path, extent: Extent) -> list[Figure]:
    """Measure the import in child processes."""
    start_ms, import_ms = time_import(directory, extent.import_rounds)
    return [
        Figure("import of tprof, over Python's start", import_ms, "ms", 30),
        Figure("Python's start", start_ms, "ms"),
    ]


def measure_sensor_thread(directory: Path, extent: Extent) -> list[Figure]:
    """Measure the sensor thread with this machine's sensors and with a powercap tree of files."""
    options = {"duration_s": extent.sensor_s, "rounds": extent.sensor_rounds}
    own = sensor_thread_cost.measure_share(directory, **options)  # type: ignore[arg-type]
    with sensor_thread_cost.powercap_stand_in(directory / "root"):
        polled = sensor_thread_cost.measure_share(directory, **options)  # type: ignore[arg-type]
    counted, _ = call_cost.group_events()
    many = sensor_thread_cost.MANY_PROCESSORS
    with sensor_thread_cost.processors_stand_in(directory / "processors", many):
        wide = sensor_thread_cost.measure_share(directory, **options)  # type: ignore[arg-type]
    return [
        Figure("the sensor thread, this machine's sensors", own, "core", SENSOR_SHARE),
        Figure(
            "the sensor thread, a powercap file each millisecond",
            polled,
            "core",
            SENSOR_SHARE,
            "a plain file stands in for the register",
        ),
        Figure(
            f"the sensor thread, an estimate for {many} processors of {sensor_thread_cost.MANY_PACKAGES} packages",
            wide,
            "core",
            note="plain files stand in for the kernel's, which take longer to read the more processors there are",
        ),
        _pyrapl(directory, options),
        *(_following(directory, count, options, counters=()) for count in NATIVE_THREADS),
        *(_following(directory, count, options, counters=counted) for count in NATIVE_THREADS if counted),
        Figure(
            "a thread that wakes each millisecond and does nothing",
            sensor_thread_cost.measure_sleeper(**options),  # type: ignore[arg-type]
            "core",
            note="what waking costs on this machine",
        ),
    ]


def _following(directory: Path, count: int, options: dict[str, Any], *, counters: tuple[str, ...]) -> Figure:
    what, note = (" and their counters", f"here {', '.join(counters)}") if counters else ("", "")
    return Figure(
        f"the sensor thread, following {count} native threads{what}, over not following any",
        sensor_thread_cost.measure_following(directory, count, counters=counters, **options),
        "core",
        NATIVE_SHARE,
        note,
    )


def _pyrapl(directory: Path, options: dict[str, Any]) -> Figure:
    name, problem = "the thread of sensors in Python, pyRAPL each 20 ms", sensor_thread_cost.pyrapl_problem()
    if problem is not None:
        return _absent(name, "core", None, problem)
    return Figure(name, sensor_thread_cost.measure_pyrapl(directory, **options), "core")


def time_import(directory: Path, rounds: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Start Python with and without `import tprof`, in turn.

    Parameters
    ----------
    directory
        Where the children run, so that no source folder shadows what is installed.
    rounds
        Measured ones; one before them fills the file cache.

    Returns
    -------
    start_ms : (rounds,), Python's own start and end, milliseconds.
    import_ms : (rounds,), what the import adds, milliseconds.
    """
    starts, imports = [], []
    for turn in range(-1, rounds):
        start_ms = _time_child("pass", directory)
        with_tprof_ms = _time_child("import tprof", directory)
        if turn >= 0:
            starts.append(start_ms)
            imports.append(with_tprof_ms - start_ms)
    return tuple(starts), tuple(imports)


def _time_child(code: str, directory: Path) -> float:
    environment = {name: value for name, value in os.environ.items() if name != SESSION}
    begin_ns = time.perf_counter_ns()
    # Without a timeout: waiting with one polls in steps as long as what is measured.
    subprocess.run(  # noqa: S603 - this interpreter and a fixed line
        [sys.executable, "-c", code], check=True, cwd=directory, env=environment
    )
    return (time.perf_counter_ns() - begin_ns) / 1e6


@dataclass(frozen=True)
class Round:
    """One recording of all tasks.

    Attributes
    ----------
    sample_ns : (recording, its start and end and the flush included, less the plain calls) a sample.
    write_ns : writing as many bytes to a file of the same folder by write(2), a sample.
    missing : samples that should be in the trace and are not.
    """

    sample_ns: float
    write_ns: float
    missing: int


def record_tasks(directory: Path, tasks: int) -> Round:
    """Record that many calls of an empty task, and write as many bytes plainly beside it.

    Parameters
    ----------
    directory
        Where the trace is made; it is removed.
    tasks
        Instances; each makes two samples.
    """
    path = directory / "million.tprof"
    samples = SAMPLES_PER_TASK * tasks
    with no_collection():
        plain_ns = time_calls(bare, tasks) * tasks
        begin_ns = time.perf_counter_ns()
        with tprof.record(path, counters="none"):
            time_calls(task, tasks)
        recorded_ns = time.perf_counter_ns() - begin_ns
    missing = samples - count_samples(path)
    shutil.rmtree(path)
    write_ns = _write_plainly(directory / "plain", samples * SAMPLE_BYTES)
    return Round((recorded_ns - plain_ns) / samples, write_ns / samples, missing)


def count_samples(path: Path) -> int:
    """Return the samples of tasks that a trace holds."""
    return sum(int((thread.read()["kind"] != Kind.JOIN).sum()) for thread in load_session(path).threads)


def _write_plainly(path: Path, size_bytes: int) -> int:
    piece = bytes(WRITE_BYTES)
    begin_ns = time.perf_counter_ns()
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // WRITE_BYTES):
            file.write(piece)
    elapsed_ns = time.perf_counter_ns() - begin_ns
    path.unlink()
    return elapsed_ns
