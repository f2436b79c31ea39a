"""Public measurements of operating points, read from a folder that the user names; none is part of tprof.

`zeus/summary_power_v100.csv` (ml-energy/zeus, Apache-2.0): jobs on a V100 at seven power limits, each run once.
`dloghin_time_energy/raw_merged.csv` (dloghin/multicores-time-energy, CC-BY-4.0): programs on seven machines over their
numbers of cores, energy by a meter.
`frequencies/sweeps.csv`: tasks over frequencies, with the columns of `SWEEPS`, gathered from what several have
published; docs/operating-points.md names the sources and how each is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.models.calibration.measured_runs import numbers, read_csv

from tprof.errors import UsageError
from tprof.trace.plain_values import listed

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

ZEUS = "zeus/summary_power_v100.csv"
CORES = "dloghin_time_energy/raw_merged.csv"
SWEEPS = "frequencies/sweeps.csv"
JOB = ("network", "dataset", "batch_size", "optimizer")
LEAST_COUNTS = 4
"""Numbers of cores that a response needs, so that some remain to test the advice."""


@dataclass(frozen=True)
class Response:
    """A task's true time and energy over operating points; (m,) each."""

    name: str
    setting: NDArray[np.float64]
    workers: NDArray[np.int64]
    time_s: NDArray[np.float64]
    energy_j: NDArray[np.float64]


def power_limits(folder: Path) -> list[Response]:
    """Return a response for each job, named "network: data, batch, optimizer". Raises UsageError."""
    rows = _read(folder / ZEUS, ("power_limit", "time_per_epoch", "average_power"), JOB)
    found = []
    for (network, data, batch, optimizer), of_job in rows.groupby(list(JOB)):
        job = of_job.sort_values("power_limit")
        time_s, power_w = job["time_per_epoch"].to_numpy(float), job["average_power"].to_numpy(float)
        limit_w = job["power_limit"].to_numpy(float)
        name = f"{network}: {data}, {batch}, {optimizer}"
        found.append(Response(name, limit_w, np.ones(len(job), np.int64), time_s, time_s * power_w))
    return found


def frequencies(folder: Path) -> list[Response]:
    """Return a response for each processor and task, named "processor: kernel: task". Raises UsageError."""
    rows = _read(folder / SWEEPS, ("hz", "time_s", "energy_j"), ("processor", "kernel", "task"))
    found = []
    for names, of_task in rows.groupby(["processor", "kernel", "task"]):
        run = of_task.sort_values("hz")
        if len(run) >= LEAST_COUNTS:
            columns = (run[name].to_numpy(float) for name in ("time_s", "energy_j"))
            found.append(
                Response(": ".join(map(str, names)), run["hz"].to_numpy(float), np.ones(len(run), np.int64), *columns)
            )
    return found


def cores(folder: Path) -> list[Response]:
    """Return a response for each machine and program, named "machine: program". Raises UsageError."""
    rows = _read(folder / CORES, ("Cores", "Time[s]", "Energy[J]"), ("file",))
    means = rows.groupby(["file", "Cores"])[["Time[s]", "Energy[J]"]].mean().reset_index()
    found = []
    for file, rows_of_file in means.groupby("file"):
        run = rows_of_file[(rows_of_file["Time[s]"] > 0) & (rows_of_file["Energy[J]"] > 0)].sort_values("Cores")
        if len(run) < LEAST_COUNTS:
            continue
        machine, _, program = str(file).partition("/")
        setting = np.full(len(run), np.nan)
        found.append(
            Response(
                f"{machine}: {program}", setting, run["Cores"].to_numpy(np.int64), run["Time[s]"].to_numpy(float),
                run["Energy[J]"].to_numpy(float),
            )
        )  # fmt: skip
    return found


def _read(path: Path, figures: tuple[str, ...], texts: tuple[str, ...]) -> pd.DataFrame:
    rows = read_csv(path)
    missing = [name for name in texts if name not in rows]
    if missing:
        raise UsageError(f"{path} has no column {missing[0]}: its columns are {listed(rows.columns)}")
    return rows.assign(**{name: numbers(rows, name) for name in figures})
