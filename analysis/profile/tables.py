"""The tables of a profile as pandas frames, with units as suffixes of column names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.names import places, shown

from tprof.trace.layout import NO_CPU
from tprof.trace.metadata import packages_of_cpus

from .intervals import widened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.instances import Ended
    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Thread, Trace
    from tprof.trace.decisions import Decision
    from tprof.trace.estimate import WattsError

DECISION_COLUMNS = (
    "kind",
    "policy",
    "why",
    "task",
    "frequency_hz",
    "former_hz",
    "cpus",
    "workers",
    "energy_j",
    "instance_s",
    "quality",
)

_JOULES = {
    "energy_j": "energy_j",
    "dynamic_j": "dynamic_j",
    "static_j": "static_j",
    "energy_low_j": "low_j",
    "energy_high_j": "high_j",
}
"""Columns of the table, and what they are among an instance's joules."""
_OPTIONAL = ("native_cpu_s", "native_j", "native_high_j", "spin_j", "gpu_j")


def settled_joules(ended: Ended, watts: WattsError, most_w: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the joules of instances, NaN where not resolved; their `low_j` and `high_j` become bounds.

    `most_w` is what an instance's own thread draws at most while it runs it, infinite if unknown. Also returns half the
    width of the bounds that the sensor alone gives.
    """
    of = ended.joules
    energy_j = of["dynamic_j"] + of["static_j"]
    # Rounding may move a bound to the wrong side by the last digit.
    low_j = np.clip(energy_j + of["low_j"], 0.0, energy_j)
    high_j = energy_j + of["high_j"]
    if np.isfinite(most_w):
        high_j = np.minimum(high_j, most_w * ended.column("own_s") + of.get("native_j", 0.0))
    high_j = np.maximum(high_j, energy_j)
    half_j = (high_j - low_j) / 2
    if "native_j" in of:
        # Bounds of runs hold what they took in all windows, which other pools may have given them.
        native_j, of["native_high_j"] = of["native_j"], np.maximum(of["native_high_j"], of["native_j"])
        low_j = np.maximum(low_j - np.maximum(native_j - of["native_low_j"], 0.0), 0.0)
        high_j = high_j + (of["native_high_j"] - native_j)
    if "gpu_j" in of:
        energy_j, of["dynamic_j"] = energy_j + of["gpu_j"], of["dynamic_j"] + of["gpu_j"]
        low_j, high_j = low_j + of["gpu_low_j"], high_j + of["gpu_high_j"]
        half_j = half_j + (of["gpu_high_j"] - of["gpu_low_j"]) / 2
    if not watts.is_none:
        low_j, high_j = widened(low_j, high_j, of["static_j"], watts)
    of["energy_j"], of["low_j"], of["high_j"] = energy_j, low_j, high_j
    if not of["covered"].all():
        for name in {*_JOULES.values(), *_OPTIONAL} - {"native_cpu_s"}:
            if name in of:
                of[name][~of["covered"]] = np.nan
    return energy_j, half_j


def tasks_table(
    trace: Trace, threads: Sequence[Thread], ended: Ended, watts: WattsError, most_w: float
) -> pd.DataFrame:
    """Build the table of instances; `watts` and `most_w` are those of `settled_joules`, which changes their joules."""
    energy_j, _ = settled_joules(ended, watts, most_w)
    of, records, counts = ended.joules, ended.records, ended.counts
    thread, cpu, own_s = records["thread"], records["cpu"], records["own_s"]
    power_w = divided(energy_j, own_s)
    if "gpu_j" in of:
        # What a GPU drew, it drew in another time than that of the instance's thread.
        power_w = np.where(of["gpu_j"] > 0, np.nan, power_w)
    columns: dict[str, object] = {
        "task": _names(records["task"], [shown(entry.name) for entry in trace.tasks]),
        "instance": ended.column("instance"),
        "parent": ended.column("parent"),
        **{name: np.array([getattr(one, name) for one in threads], np.int64)[thread] for name in ("pid", "tid")},
        "thread": _names(thread, [shown(t.name) or f"thread-{t.ordinal}" for t in threads]),
        "cpu": np.where(cpu == NO_CPU, np.int32(-1), cpu).astype(np.int32),
        "package": ended.column("package") if ended.has_packages else _only_package(trace, len(ended)),
        "start_s": (records["start_ns"] - trace.start_ns) * 1e-9,
        "duration_s": (records["end_ns"] - records["start_ns"]) * 1e-9,
        "cpu_s": ended.column("cpu_s"),
        **{name: of[place] for name, place in _JOULES.items()},
        "power_w": power_w,
        **{name: of[name] for name in _OPTIONAL if name in of},
        **counts,
    }
    unknown = np.full(len(ended), np.nan)
    columns["ipc"] = divided(counts.get("instructions", unknown), counts.get("cycles", unknown))
    columns["failed"] = ended.column("failed")
    return pd.DataFrame(columns | _labels(trace, threads, thread), copy=False)


def _labels(trace: Trace, threads: Sequence[Thread], thread: NDArray[Any]) -> dict[str, object]:
    """Return a column for each name of a label, missing where a process has none."""
    columns: dict[str, object] = {}
    of_threads = [trace.labels.get(one.process, {}) for one in threads]
    for name in sorted({name for labels in trace.labels.values() for name in labels}) if threads else ():
        # Two values may be shown alike.
        values = sorted({labels[name] for labels in of_threads if name in labels})
        texts = pd.Index(list(dict.fromkeys(map(shown, values))), dtype=object)
        known = [shown(labels[name]) if name in labels else None for labels in of_threads]
        columns[f"label_{name}"] = pd.Categorical(known, categories=texts).take(thread)
    return columns


def divided(above: NDArray[Any], below: NDArray[Any], none: float = np.nan) -> NDArray[np.float64]:
    """Return ratios, and another value where there is nothing to divide by."""
    out = np.full(len(above), none)
    np.divide(above, below, out=out, where=below > 0)
    return out


def _names(codes: NDArray[Any], names: Sequence[str]) -> pd.Categorical:
    """Make a categorical; tasks of the same name share a category, unknown ones are missing."""
    unique, number = places(names)
    kind = np.int16 if len(unique) < 1 << 15 else np.int32
    lookup = np.append(number, -1).astype(kind)
    return pd.Categorical.from_codes(lookup[np.minimum(codes, len(names))], categories=pd.Index(unique, dtype=object))


def _only_package(trace: Trace, count: int) -> NDArray[np.int16]:
    packages = {*packages_of_cpus(trace.manifest).tolist()} - {-1}
    packages |= {r.package for r in trace.readings.values() if r.quantity == "energy" and r.package is not None}
    return np.full(count, packages.pop() if len(packages) == 1 else -1, np.int16)


def binned(power: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return a table of watts in at most so many rows, each the mean of some of its rows."""
    watts = [str(name) for name in power if name not in ("time_s", "duration_s")]
    joules = power.assign(**power[watts].mul(power["duration_s"], axis=0))
    steps = joules.groupby(np.arange(len(power)) * most // max(len(power), most))
    found = steps.agg({"time_s": "first", **dict.fromkeys(["duration_s", *watts], whole_sum)})
    return found.assign(**found[watts].div(found["duration_s"], axis=0))


def whole_sum(values: pd.Series[Any]) -> Any:
    """Return the sum, NaN where one of the values is not known."""
    return values.sum(skipna=False)


def power_table(quanta: Sequence[Quanta], start_ns: int) -> pd.DataFrame:
    """Return watts over time on the quanta of the first counted domain that is about as fine as any, GPUs last.

    `time_s` (begin of the quantum, from the begin of the recorded block), `duration_s`, and `<domain>_w` of each
    domain: its mean over that time, NaN where a reading is invalid or lacking.
    """
    resolved = [q for q in quanta if len(q)]
    counted = sorted([q for q in resolved if q.counted] or resolved, key=lambda q: q.scope == "gpu")
    edges_ns = next((q.edges_ns for q in counted if 2 * len(q) >= max(map(len, counted))), np.empty(0, np.int64))
    seconds = np.diff(edges_ns) * 1e-9
    columns = {"time_s": (edges_ns[:-1] - start_ns) * 1e-9, "duration_s": seconds}
    for domain in resolved:
        if domain.edges_ns is edges_ns:
            energy_j, lost = domain.energy_j, ~domain.valid
        else:
            energy_j, lost = _joules_between(domain, edges_ns)
        columns[f"{domain.name}_w"] = np.where(lost, np.nan, energy_j / seconds)
    return pd.DataFrame(columns)


def _joules_between(domain: Quanta, edges_ns: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return a domain's joules between some edges, NaN where it has none, and where some of the time is invalid."""
    total_j = np.concatenate(([0.0], np.cumsum(domain.energy_j)))
    bad_s = np.concatenate(([0.0], np.cumsum(~domain.valid * np.diff(domain.edges_ns) * 1e-9)))
    energy_j = np.diff(np.interp(edges_ns, domain.edges_ns, total_j, left=np.nan, right=np.nan))
    return energy_j, np.diff(np.interp(edges_ns, domain.edges_ns, bad_s)) > 0


def decisions_table(decisions: Iterable[Decision], start_ns: int) -> pd.DataFrame:
    """Return one row per decision, in order of time.

    Returns
    -------
    DataFrame
        time_s (from the begin of the recorded block), process; kind: ``chosen`` (a frequency is best for a task),
        ``set`` (processors got a frequency), ``allowed`` (the highest that a cap on the power leaves), ``workers`` (so
        many are active), ``released`` (nothing is held any more), ``acted`` (what a budget did), ``cut``
        (what follows was not written);
        policy, why, task, frequency_hz, former_hz, cpus (numbers with spaces between), workers, and energy_j and
        instance_s of a mean instance as the policy knew it, with the quality of these joules. What does not belong to
        a kind is NaN or empty.
    """
    rows = [
        {name: getattr(one, name, None) for name in DECISION_COLUMNS}
        | {name: shown(getattr(one, name) or "") for name in ("policy", "why", "task", "quality")}
        | {"time_s": (one.t_ns - start_ns) * 1e-9, "process": one.process, "instance_s": one.time_s}
        | {"cpus": " ".join(map(str, one.cpus))}
        for one in decisions
    ]
    table = pd.DataFrame(rows, columns=["time_s", "process", *DECISION_COLUMNS])
    numbers = ["frequency_hz", "former_hz", "workers", "energy_j", "instance_s"]
    return table.astype(dict.fromkeys(numbers, float))
