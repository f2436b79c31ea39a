"""The paper's table 3 on this machine: PolyBench's kernels alone, then in pairs, and how their slices compare.

What is real is what the package draws above its static power while a kernel runs alone; a slice is what the model gives
it of the package's joules while another kernel runs on the next core. Kernels that contend for caches or memory do not
draw beside another what they draw alone, and a core that is alone may run at a higher frequency: both count as errors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.calibration.calibration_run import record_parts
from tprof.benchmarks.calibration.phases import Part
from tprof.benchmarks.polybench import loads

from tprof.errors import SensorError, UsageError
from tprof.sensors.topology import describe_host
from tprof.trace.power_model import read_model

from .kernel_pairs import TABLE_3

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tprof.analysis import Coefficients

    from tprof.trace import Trace

    Progress = Callable[[str, int, int], None]
    Row = dict[str, Any]

WHAT = "measuring pairs of kernels"


def record_pairs(
    directory: Path,
    *,
    seconds_each: float = 2.0,
    progress: Progress | None = None,
    energy: str = "auto",
    counters: Sequence[str] | str | None = None,
) -> Path:
    """Run each kernel of table 3 alone and each pair on two cores, under a recording.

    Parameters
    ----------
    directory, seconds_each, progress, energy, counters
        As of `record_parts`, for the session `pairs.tprof`.

    Returns
    -------
    Path
        The session's.

    Raises
    ------
    SensorError
        If no sensor measures here, there are no counters, or one core only. Nothing has run in that case.
    UsageError
        If this machine is not calibrated.
    """

    def plan(_: Path, cpus: Sequence[int]) -> list[list[Part]]:
        if len(cpus) < 2:
            message = f"{WHAT} needs two cores of a package; got 1"
            raise SensorError(message)
        _check_calibrated()
        return plan_runs(cpus)

    path = directory / "pairs.tprof"
    return record_parts(
        path, plan, WHAT, seconds_each=seconds_each, progress=progress, energy=energy, counters=counters
    )


def plan_runs(cpus: Sequence[int]) -> list[list[Part]]:
    """Return each kernel alone, on the core that it has in its first pair, and each pair."""
    kernels = {load.name: load for load in loads()}
    runs: dict[str, list[Part]] = {}
    for pair in TABLE_3:
        for name, cpu in zip(pair, cpus, strict=False):
            runs.setdefault(name, [Part(alone(name), kernels[name], cpu)])
    pairs = [
        [Part(beside(*names), kernels[names[0]], cpu) for names, cpu in zip((pair, pair[::-1]), cpus, strict=False)]
        for pair in TABLE_3
    ]
    return [*runs.values(), *pairs]


def alone(name: str) -> str:
    """Return the name of the task."""
    return f"{name} alone"


def beside(name: str, other: str) -> str:
    """Return the name of the first one's task."""
    return f"{name} beside {other}"


def slice_pairs(trace: Trace, coefficients: Coefficients | None = None) -> list[Row]:
    """Return what each kernel of each pair drew alone and was given beside the other.

    Parameters
    ----------
    trace
        Of `record_pairs`.
    coefficients
        Of equation 1; by default the calibrated model that the session carries.

    Returns
    -------
    list of dict
        `pair`, `kernel`, `real_w`, `slice_w`, `share` of both slices, and `slice_error`, a part of 1. What was not
        resolved is None.
    """
    tasks = trace.profile(model="linear", coefficients=coefficients).tasks
    drawn = tasks.groupby(tasks["task"].astype(str))[["dynamic_j", "duration_s"]].sum(min_count=1)
    watts = (drawn["dynamic_j"] / drawn["duration_s"]).to_dict()
    rows = []
    for number, pair in enumerate(TABLE_3, 1):
        slices_w = [watts[beside(*names)] for names in (pair, pair[::-1])]
        for name, slice_w in zip(pair, slices_w, strict=True):
            real_w = watts[alone(name)]
            share, relative = _part(slice_w, sum(slices_w)), _part(slice_w, real_w)
            error = None if relative is None else relative - 1
            watt = {"real_w": _known(real_w), "slice_w": _known(slice_w)}
            rows.append({"pair": number, "kernel": name, **watt, "share": share, "slice_error": error})
    return rows


def _part(value: float, of: float) -> float | None:
    return _known(value / of) if of else None


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _check_calibrated() -> None:
    model, note = read_model(describe_host()["processor"])
    if model is None:
        message = note or f'{WHAT} needs a calibrated model to share their energy: run "tprof calibrate" first'
        raise UsageError(message)
