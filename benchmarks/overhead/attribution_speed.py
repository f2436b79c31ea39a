"""How fast attribution is, beside `np.argsort` of as many integers in the same run, and how large its report.

The model `fitted`, which finds a power for each task, is timed beside `cputime`, which shares by CPU time.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.attribution.segment_energy import attribute
from tprof.benchmarks.machine_description import describe_machine
from tprof.benchmarks.measured_figures import Figure, result_of

from benchmarks.simulator import ICE_LAKE, Mix, Package, Run, random_mix, stated, write
from tprof.trace import load_session, write_trace

from .children import in_child, memory_bytes
from .streamed_speed import over_bytes, recorded_figure, streamed_figures

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from numpy.typing import NDArray

QUANTUM_NS = 1_000_000
SAMPLE_NS = 1000
SAMPLE_BYTES = 64
FEW_CORES, MANY_CORES = 4, 64
TASKS = ("a", "b", "c")
FITTED_OVER_CPUTIME = 3.0
POWERED = tuple(stated(f"task {number}", 20e-6 * 1.2**number, 4.0 + number / 2) for number in range(20))
SHORT_S, ABSENT, ABSENT_OVER_NONE = 4.0, 200, 1.5
"""A short recording, with as many tasks that never ran as a library such as MPI declares."""
PER_SECOND = 117_000.0
"""Samples a second that four busy cores make of these tasks."""


@dataclass(frozen=True)
class Extent:
    """How much is measured: samples of the trace, and rounds of each figure."""

    samples: int = 5_000_000
    rounds: int = 3


FULL = Extent()
QUICK = Extent(samples=20_000, rounds=1)


@dataclass(frozen=True)
class Timed:
    """One profile in a process of its own: `seconds` beside `argsort_s` of the same moment."""

    argsort_s: float
    seconds: float
    peak_bytes: float

    @property
    def ratio(self) -> float:
        """Seconds over argsort's."""
        return self.seconds / self.argsort_s


def measure(extent: Extent = FULL, *, directory: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Measure attribution.

    Parameters
    ----------
    extent
        `FULL` for figures (a minute), `QUICK` to see that it works.
    directory
        Where traces are made and removed; by default the folder for temporary files.

    Returns
    -------
    dict
        `machine` (as `describe_machine`), `effort`, and `figures`: plain values as `Figure.as_plain`.
    """
    machine = describe_machine()
    numbers = np.random.default_rng(0).integers(0, 2**62, extent.samples)
    with tempfile.TemporaryDirectory(prefix="tprof-analysis-", dir=directory) as base:
        figures = _measure(Path(base), extent, numbers)
    return result_of(extent, figures, machine)


def _measure(base: Path, extent: Extent, numbers: NDArray[np.int64]) -> list[Figure]:
    few, few_path = _profile_rounds(base, FEW_CORES, extent.samples, extent.rounds, numbers)
    report_mb, report_s = in_child(_report, few_path, base / "report.html")
    many, many_path = _profile_rounds(base, MANY_CORES, extent.samples, extent.rounds, numbers)
    tenth, tenth_path = _profile_rounds(base, FEW_CORES, extent.samples // 10, extent.rounds, numbers)
    label = f"{extent.samples:,} samples"
    trace_bytes = extent.samples * SAMPLE_BYTES
    return [
        Figure(f"{label}, arrays to energies, 4 cores", _arrays(FEW_CORES, extent, numbers), "× argsort", 5),
        Figure(f"{label}, arrays to energies, 64 cores", _arrays(MANY_CORES, extent, numbers), "× argsort", 5),
        Figure(f"{label}, disk to profile.tasks, 4 cores", tuple(run.ratio for run in few), "× argsort", 10),
        Figure(f"{label}, disk to profile.tasks, 64 cores", tuple(run.ratio for run in many), "× argsort", 10),
        Figure("64 cores over 4 cores", _ratios(many, few), "×", 1.3),
        Figure(
            f"a sample of {extent.samples:,} over one of {extent.samples // 10:,}",
            tuple(value / 10 for value in _ratios(few, tenth)),
            "×",
            note="1: time grows as the number of samples",
        ),
        Figure("peak memory, 4 cores", tuple(run.peak_bytes / trace_bytes for run in few), "× trace", 3),
        *streamed_figures(few_path, tenth_path, extent.samples, extent.rounds),
        over_bytes(f"{label} of {MANY_CORES} threads", many_path, extent.rounds),
        recorded_figure(base, extent.samples, extent.rounds),
        fitted_over_cputime(extent, directory=base),
        _fitted_with_absent(base, extent),
        Figure("np.argsort of as many int64", tuple(run.argsort_s for run in few), "s"),
        Figure(f"report of {extent.samples // 2:,} tasks besides the plot library", (report_mb,), "MB", 10),
        Figure("writing that report", (report_s,), "s"),
    ]


def fitted_over_cputime(extent: Extent = FULL, *, measured: bool = True, directory: Path | None = None) -> Figure:
    """Return the time of `fitted` over that of `cputime`, in each round; no values if it is not to be measured."""
    name = f"fitted over cputime, {extent.samples:,} samples of {len(POWERED)} tasks"
    figure = Figure(name, (), "×", FITTED_OVER_CPUTIME)
    if not measured:
        return figure
    with tempfile.TemporaryDirectory(prefix="tprof-analysis-", dir=directory) as folder:
        path = Path(folder) / "powered.tprof"
        written = _write_powered(path, extent.samples / PER_SECOND)
        for model in ("cputime", "fitted"):
            _seconds_with(path, model)  # what is loaded on first use is no part of either
        ratios = tuple(_seconds_with(path, "fitted") / _seconds_with(path, "cputime") for _ in range(extent.rounds))
    return replace(figure, values=ratios, note=f"{written:,} samples, disk to profile.tasks")


def _fitted_with_absent(base: Path, extent: Extent) -> Figure:
    """Return the time of `fitted` on a short recording with many tasks that never ran, over that without them."""
    without, beside = base / "ran.tprof", base / "absent.tprof"
    length_s = min(extent.samples / PER_SECOND, SHORT_S)
    _write_powered(without, length_s)
    _write_powered(beside, length_s, absent=ABSENT)
    _seconds_with(without, "fitted")  # as above
    ratios = tuple(_seconds_with(beside, "fitted") / _seconds_with(without, "fitted") for _ in range(extent.rounds))
    name = f"fitted with {ABSENT} declared tasks that never ran, over none"
    return Figure(name, ratios, "×", ABSENT_OVER_NONE, note=f"{length_s:.1f} s of {len(POWERED)} tasks")


def _write_powered(path: Path, length_s: float, *, absent: int = 0) -> int:
    """Write a simulated run of the tasks of known power; returns the number of its samples."""
    mix = Mix(duration_s=length_s)
    run = Run(Package(), [task.kernel for task in POWERED], random_mix(POWERED, mix, seed=0), mix.idle_s + length_s)
    names = [*(task.name for task in POWERED), *(f"absent {number}" for number in range(absent))]
    write(path, names, run, sensor=ICE_LAKE, seed=0, counters=False)
    return sum(thread.count for thread in load_session(path).threads)


def _seconds_with(path: Path, model: str) -> float:
    return _seconds(lambda: len(load_session(path).profile(model=model).tasks))


def _ratios(above: list[Timed], below: list[Timed]) -> tuple[float, ...]:
    return tuple(one.seconds / other.seconds for one, other in zip(above, below, strict=True))


def _profile_rounds(
    base: Path, cores: int, samples: int, rounds: int, numbers: NDArray[np.int64]
) -> tuple[list[Timed], Path]:
    path = base / f"{cores}-{samples}.tprof"
    in_child(write_synthetic, path, cores, samples)
    return [Timed(_seconds(lambda: np.argsort(numbers)), *in_child(_profile, path)) for _ in range(rounds)], path


def _arrays(cores: int, extent: Extent, numbers: NDArray[np.int64]) -> tuple[float, ...]:
    t_ns = _times(cores, extent.samples)
    modelled = [np.diff(thread_ns) * 1e-9 for thread_ns in t_ns]
    edges_ns, energy_j = _readings(extent.samples)
    return tuple(
        _seconds(lambda: attribute(t_ns, modelled, edges_ns, energy_j[1:])) / _seconds(lambda: np.argsort(numbers))
        for _ in range(extent.rounds)
    )


def _times(cores: int, samples: int) -> list[NDArray[np.int64]]:
    rng = np.random.default_rng(cores)
    return [np.sort(rng.integers(0, samples * SAMPLE_NS, samples // cores)) for _ in range(cores)]


def _readings(samples: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    edges_ns = np.arange(0, samples * SAMPLE_NS + 1, QUANTUM_NS)
    return edges_ns, np.random.default_rng(1).random(len(edges_ns)) * 0.05


def write_synthetic(path: Path, cores: int, samples: int) -> tuple[float, float]:
    """Write a trace of so many cores and samples, each a microsecond after the other."""
    edges_ns, energy_j = _readings(samples)
    threads = [_thread(core, t_ns) for core, t_ns in enumerate(_times(cores, samples))]
    write_trace(path, tasks=TASKS, threads=threads, energy={"package-0": (edges_ns, np.cumsum(energy_j))})
    return 0.0, 0.0


def _thread(core: int, t_ns: NDArray[np.int64]) -> dict[str, Any]:
    size = len(t_ns)
    instance = np.zeros(size, np.uint64)
    instance[::2] = ((core + 1) << 40) + 1 + np.arange((size + 1) // 2)
    instance[-1] = 0
    return {
        "t_ns": t_ns,
        "instance": instance,
        "task": np.where(instance > 0, core % len(TASKS), -1),
        "cpu": np.full(size, core),
        "cpu_ns": t_ns,
        "instructions": t_ns * 5,
        "cycles": t_ns * 3,
        "llc_misses": t_ns // 100,
    }


def _profile(path: Path) -> tuple[float, float]:
    import_module("tprof.analysis.profile")  # loading pandas is no part of the analysis
    trace = load_session(path)
    begin_s = time.perf_counter()
    len(trace.profile().tasks)
    seconds = time.perf_counter() - begin_s
    return seconds, memory_bytes("VmHWM")


def _report(path: Path, target: Path) -> tuple[float, float]:
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - in the child process only

    profile = load_session(path).profile()
    seconds = _seconds(lambda: profile.to_html(target))
    return (target.stat().st_size - len(get_plotlyjs().encode())) / 1e6, seconds


def _seconds(work: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    work()
    return time.perf_counter() - begin_s
