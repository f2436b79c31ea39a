"""The frame of instances, one row each, in the order in which they began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import numpy.typing as npt

    from tprof.trace import Trace

    from .energies import InstanceEnergies
    from .instances import Instances

LOST = "<lost name>"


def tasks_frame(trace: Trace, instances: Instances, energies: InstanceEnergies) -> pd.DataFrame:
    """Make `Profile.tasks`.

    Parameters
    ----------
    trace
        For names and for where time begins.
    instances, energies
        Columns by row; rows that stand for nobody are left out.
    """
    keep = np.flatnonzero(instances.known())
    start_ns = instances.start_ns[keep]
    if (np.diff(start_ns) < 0).any():
        keep = keep[np.argsort(start_ns, kind="stable")]
        start_ns = instances.start_ns[keep]
    thread = instances.thread[keep]
    duration_s = (instances.end_ns[keep] - start_ns) * 1e-9
    unresolved = ~energies.covered[keep]
    dynamic_j, static_j = energies.dynamic_j[keep], energies.static_j[keep]
    dynamic_j[unresolved] = static_j[unresolved] = np.nan
    energy_j = dynamic_j + static_j
    low_j, high_j = energies.low_j[keep], energies.high_j[keep]
    low_j[unresolved] = high_j[unresolved] = np.nan
    columns: dict[str, object] = {
        "task": _names(trace, instances.task[keep]),
        "instance": instances.number[keep],
        "parent": instances.parent[keep],
        "pid": _by_thread([one.pid for one in trace.threads], thread, np.int32),
        "tid": _by_thread([one.tid for one in trace.threads], thread, np.int32),
        "thread": _categories([one.name or str(one.tid) for one in trace.threads], thread),
        "cpu": instances.cpu[keep].astype(np.int32),
        "package": instances.package[keep],
        "start_s": (start_ns - trace.start_ns) * 1e-9,
        "duration_s": duration_s,
        "cpu_s": instances.cpu_s[keep],
        "energy_j": energy_j,
        "dynamic_j": dynamic_j,
        "static_j": static_j,
        "energy_low_j": np.minimum(low_j, energy_j),
        "energy_high_j": np.maximum(high_j, energy_j),
        "power_w": _divide(energy_j, instances.own_s[keep]),
    }
    columns |= {name: values[keep] for name, values in instances.counters.items()}
    if {"instructions", "cycles"} <= columns.keys():
        columns["ipc"] = _divide(instances.counters["instructions"][keep], instances.counters["cycles"][keep])
    columns["failed"] = instances.failed[keep]
    return pd.DataFrame(columns, copy=False)


def _divide(above: npt.NDArray[np.float64], below: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def _names(trace: Trace, task: npt.NDArray[np.uint32]) -> pd.Categorical:
    names = [entry.name for entry in trace.tasks] + [LOST]
    return _categories(names, np.minimum(task, len(names) - 1).astype(np.int32))


def _categories(names: list[str], codes: npt.NDArray[np.int32]) -> pd.Categorical:
    """Return a categorical; places that share a name share a category."""
    distinct = list(dict.fromkeys(names))
    index = {name: code for code, name in enumerate(distinct)}
    lookup = np.array([index[name] for name in names], np.int32)
    return pd.Categorical.from_codes(lookup[codes] if len(codes) else codes, pd.Index(distinct, dtype=object))  # type: ignore[arg-type]


def _by_thread(values: list[int], thread: npt.NDArray[np.int32], dtype: type) -> npt.NDArray[np.int32]:
    table = np.array([value & 0x7FFF_FFFF for value in values] or [0], dtype)
    return table[thread]
