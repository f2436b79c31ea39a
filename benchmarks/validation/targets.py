"""The figures of validation with targets, and whether they were met."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.measured_figures import Figure

from benchmarks.overhead.attribution_speed import fitted_over_cputime
from benchmarks.overhead.sensor_thread_cost import measure_share, powercap_stand_in

from .cases import CASES, TARGET_CASES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

MEAN_ERROR = 0.02
POLLER = 0.01
COVERAGE = (0.93, 0.97)
PAIRS = (0.02, 0.06)
OTHER_FREQUENCY = (0.04, 0.08)
SIMULATED = "simulated"
ENOUGH_RUNS = 100
"""Runs for a coverage that can be compared with a range of four percent."""


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
        fitted_over_cputime(measured=measured).as_plain(),
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
