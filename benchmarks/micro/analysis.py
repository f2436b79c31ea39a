"""How fast attribution is, beside `np.argsort` of as many integers in the same run."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution import attribute

from tprof.trace import load, write_trace

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = 5_000_000
_QUANTUM_NS = 1_000_000
_SAMPLE_NS = 1000
_SAMPLE_BYTES = 64
Arrays = dict[str, list[NDArray[np.int64]]]


def measure(samples: int = SAMPLES, *, repeats: int = 3, directory: Path | None = None) -> dict[str, float]:
    """Measure attribution of `samples` samples.

    Returns
    -------
    dict
        Ratios to argsort (medians; each beside its own argsort): `arrays_ratio` and `disk_ratio` on 4
        cores, `arrays_ratio_64`, `disk_ratio_64`; `cores_growth` (disk, 64 over 4 cores),
        `samples_growth` (disk, `samples` over a tenth of them, per sample); `peak_ratio` (peak memory of a
        fresh process over the trace's size); `argsort_s`, `disk_s`, `peak_bytes`, `trace_bytes`.
    """
    with tempfile.TemporaryDirectory(dir=directory) as base:
        numbers = np.random.default_rng(0).integers(0, 2**62, samples)
        out: dict[str, float] = {"samples": float(samples)}
        argsort_s: list[float] = []
        disk_s: dict[tuple[int, int], float] = {}
        for cores, count in ((4, samples), (64, samples), (4, samples // 10)):
            path = Path(base) / f"{cores}-{count}.tprof"
            _in_child(_write, path, cores, count)
            runs = [(_seconds(lambda: np.argsort(numbers)), *_in_child(_profile, path)) for _ in range(repeats)]
            disk_s[cores, count] = statistics.median(run[1] for run in runs)
            argsort_s += [run[0] for run in runs]
            if count != samples:
                continue
            suffix = "" if cores == 4 else f"_{cores}"
            out[f"disk_ratio{suffix}"] = statistics.median(run[1] / run[0] for run in runs)
            out[f"arrays_ratio{suffix}"] = _arrays_ratio(cores, count, numbers, repeats)
            if cores == 4:
                out["peak_bytes"] = max(run[2] for run in runs)
        out["trace_bytes"] = float(samples * _SAMPLE_BYTES)
        out["peak_ratio"] = out["peak_bytes"] / out["trace_bytes"]
        out["argsort_s"] = statistics.median(argsort_s)
        out["disk_s"] = disk_s[4, samples]
        out["cores_growth"] = disk_s[64, samples] / disk_s[4, samples]
        out["samples_growth"] = disk_s[4, samples] / disk_s[4, samples // 10] / 10
        return out


def _times(cores: int, count: int) -> list[NDArray[np.int64]]:
    rng = np.random.default_rng(cores)
    return [np.sort(rng.integers(0, count * _SAMPLE_NS, count // cores)) for _ in range(cores)]


def _readings(count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    edges_ns = np.arange(0, count * _SAMPLE_NS + 1, _QUANTUM_NS)
    return edges_ns, np.random.default_rng(1).random(len(edges_ns)) * 0.05


def _arrays_ratio(cores: int, count: int, numbers: NDArray[np.int64], repeats: int) -> float:
    t_ns = _times(cores, count)
    modelled = [np.diff(lane) * 1e-9 for lane in t_ns]
    edges_ns, energy_j = _readings(count)
    ratios = []
    for _ in range(repeats):
        own_s = _seconds(lambda: attribute(t_ns, modelled, edges_ns, energy_j[1:]))
        ratios.append(own_s / _seconds(lambda: np.argsort(numbers)))
    return statistics.median(ratios)


def _write(path: Path, cores: int, count: int) -> None:
    edges_ns, energy_j = _readings(count)
    threads = []
    for core, t_ns in enumerate(_times(cores, count)):
        size = len(t_ns)
        instance = np.zeros(size, np.uint64)
        instance[::2] = ((core + 1) << 40) + 1 + np.arange((size + 1) // 2)
        instance[-1] = 0
        threads.append(
            {
                "t_ns": t_ns, "instance": instance, "task": np.where(instance > 0, core % 3, -1),
                "cpu": np.full(size, core), "cpu_ns": t_ns, "instructions": t_ns * 5, "cycles": t_ns * 3,
                "llc_misses": t_ns // 100,
            }
        )  # fmt: skip
    write_trace(path, tasks=["a", "b", "c"], threads=threads, energy={"package-0": (edges_ns, np.cumsum(energy_j))})


def _profile(path: Path) -> tuple[float, float]:
    import_module("tprof.analysis")  # loading pandas is no part of the analysis
    trace = load(path)
    begin = time.perf_counter()
    len(trace.profile().tasks)
    seconds = time.perf_counter() - begin
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _in_child(work: Callable[..., object], *arguments: object) -> tuple[float, float]:
    """Run in a fresh process, so that its peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments) or (0.0, 0.0)  # type: ignore[return-value]
