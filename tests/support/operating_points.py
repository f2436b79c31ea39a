"""Measured points of a task as the analysis of operating points takes them, from a law that a test writes down."""

from __future__ import annotations

import numpy as np
from tprof.analysis.operating_points.measured import Measured


def measured(setting, time_s, power_w, *, unit="Hz", workers=None, noise=0.005, waiting=None):
    """Return points; `time_s` and `power_w` are arrays or functions of setting and workers."""
    setting = np.asarray(setting, float)
    workers = np.ones(len(setting), np.int64) if workers is None else np.asarray(workers, np.int64)
    time_s = np.asarray(time_s(setting, workers) if callable(time_s) else time_s, float)
    power_w = np.asarray(power_w(setting, workers) if callable(power_w) else power_w, float)
    error = np.full(len(setting), noise)
    return Measured(
        task="work", unit=unit, setting=setting, workers=workers, time_s=time_s, energy_j=time_s * power_w,
        time_noise=error, energy_noise=error, waiting=waiting, waiting_sd=0.1 if waiting is not None else 0.0,
        quality="simulated",
    )  # fmt: skip


def table(*rows, **columns):
    """Return CSV text of rows (task, setting, workers, energy_j, time_s); `columns` are the same in each row."""
    names = ["task", "setting", "workers", "energy_j", "time_s", *columns]
    lines = [",".join(map(str, [*row, *columns.values()])) for row in rows]
    return "\n".join([",".join(names), *lines]) + "\n"
