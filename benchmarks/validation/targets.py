"""The figures of validation with targets, whether they were met, and how long `fitted` takes beside `cputime`."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.measured_figures import Figure
from tprof.benchmarks.overhead.sensor_thread_cost import measure_share, powercap_stand_in
from tprof.benchmarks.simulator import ICE_LAKE, Mix, Package, Run, random_mix, stated, write

from tprof.trace import load

from .cases import CASES, TARGET_CASES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

MEAN_ERROR = 0.02
POLLER = 0.01
COVERAGE = (0.93, 0.97)
PAIRS = (0.02, 0.06)
OTHER_FREQUENCY = (0.04, 0.08)
SPEED = 3.0
SIMULATED = "simulated"
ENOUGH_RUNS = 100
"""Runs for a coverage that can be compared with a range of four percent."""
TASKS = tuple(stated(f"task {number}", 20e-6 * 1.2**number, 4.0 + number / 2) for number in range(20))
SAMPLES = 5_000_000
PER_SECOND = 117_000.0
"""Samples a second that four busy cores make of these tasks."""


def target_figures(
    rows: Sequence[Row], coverage: Sequence[Row], tables: Mapping[str, Any], *, measured: bool
) -> list[dict[str, Any]]:
    """Return the figures as plain values; `measured`: whether those that need minutes of this machine are."""
    return [
        *_mean_errors(rows),
        *_coverages(coverage),
        *_sliced("pairs of kernels, calibrated (table 3)", [draw["3"] for draw in tables["draws"]], PAIRS),
        *_sliced(
            "pairs at 1.6 GHz, calibrated at 3.3 (table 4)", [draw["4"] for draw in tables["draws"]], OTHER_FREQUENCY
        ),
        _poller(measured=measured),
        _speed(measured=measured),
    ]


def _mean_errors(rows: Sequence[Row]) -> list[dict[str, Any]]:
    targeted = [row for row in rows if row["model"] == "fitted" and row["key"] in TARGET_CASES]
    return [
        Figure(f"{row['case']}: {row['task']}", (row["mean_error"],), "part", MEAN_ERROR, SIMULATED).as_plain()
        for row in targeted
    ]


def _coverages(coverage: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the coverage of each case's intervals; too high is as wrong as too low."""
    names = {case.key: case.name for case in CASES}
    low, high = COVERAGE
    plain = []
    for row in coverage:
        note = f"at least {low:g} as well; ± {row['coverage_error']:.3f} from {row['intervals']} intervals; {SIMULATED}"
        figure = Figure(f"95 % intervals hold the truth: {names[row['key']]}", (row["coverage"],), "part", high, note)
        met = bool(low <= row["coverage"] <= high) if row["runs"] >= ENOUGH_RUNS else None
        plain.append(figure.as_plain() | {"met": met})
    return plain


def _sliced(name: str, draws: Sequence[Sequence[float]], targets: tuple[float, float]) -> list[dict[str, Any]]:
    """Return how wrong the slices are, over draws of what the instructions of each kernel take."""
    mean, worst = (tuple(float(of(errors)) for errors in draws) for of in (np.mean, np.max))
    note = f"median of {len(draws)} draws of kernels; {SIMULATED}"
    return [
        Figure(f"{name}, mean error", mean, "part", targets[0], note).as_plain(),
        Figure(f"{name}, worst error", worst, "part", targets[1], note).as_plain(),
    ]


def _poller(*, measured: bool) -> dict[str, Any]:
    figure = Figure("the thread that polls the sensor", (), "core", POLLER, "a tree of files stands in for powercap")
    if measured:
        with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder, powercap_stand_in(Path(folder)):
            figure = replace(figure, values=measure_share(Path(folder), duration_s=2.0, rounds=3))
    return figure.as_plain()


def _speed(*, measured: bool) -> dict[str, Any]:
    figure = Figure("fitted over cputime, 5 million samples of 20 tasks", (), "×", SPEED)
    if measured:
        samples, ratios = measure_speed()
        figure = replace(figure, values=ratios, note=f"{samples:,} samples, disk to profile.tasks")
    return figure.as_plain()


def measure_speed(samples: int = SAMPLES, *, rounds: int = 3) -> tuple[int, tuple[float, ...]]:
    """Return how many samples there were, and the time of `fitted` over that of `cputime` in each round."""
    mix = Mix(duration_s=samples / PER_SECOND)
    run = Run(Package(), [task.kernel for task in TASKS], random_mix(TASKS, mix, seed=0), mix.idle_s + mix.duration_s)
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        path = Path(folder) / "long.tprof"
        write(path, [task.name for task in TASKS], run, sensor=ICE_LAKE, seed=0, counters=False)
        del run
        found = load(path)
        written = sum(thread.count for thread in found.threads)
        _seconds(path, "cputime")  # what is loaded on first use is no part of either
        return written, tuple(_seconds(path, "fitted") / _seconds(path, "cputime") for _ in range(rounds))


def _seconds(path: Path, model: str) -> float:
    begin_s = time.perf_counter()
    len(load(path).profile(model=model).tasks)
    return time.perf_counter() - begin_s
