"""Sessions of the virtual processor without a sensor: joules are estimated from CPU time in ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from support.traces import set_json

import tprof

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.simulator import Core

IDLE_W, PER_CORE_W = 2.0, 3.0
IDLE_FACTOR, PER_CORE_FACTOR = 2.0, 3.0
READ_S, TICK_S = 0.02, 0.01


def write_estimate(
    path: Path,
    names: Sequence[str],
    cores: Sequence[Core],
    *,
    seed: int,
    others: Sequence[Core] = (),
    parts: Sequence[float] | None = None,
    watts: tuple[float, float] = (IDLE_W, PER_CORE_W),
) -> tprof.Trace:
    """Write the trace of what cores ran; each has a tick that counts the time in which it was busy.

    Parameters
    ----------
    path, names, cores : of the session, of the tasks, and what ran
    seed : of the times of readings and ticks
    others : cores of other programs, which only the ticks show
    parts : of each task, the part of its time that is CPU time; by default all
    watts : idle, and of a busy core
    """
    draw = np.random.default_rng(seed)
    part = np.ones(len(names)) if parts is None else np.array(parts)
    end_s = max(core.end_s[-1] for core in (*cores, *others)) + READ_S
    read_s = np.append(np.cumsum(draw.uniform(0.8, 1.2, int(end_s / READ_S)) * READ_S), end_s)
    read_s = np.append(0.0, np.unique(np.minimum(read_s, end_s)))
    busy_s = np.sum([_ticks_s(core, read_s, part, draw) for core in (*cores, *others)], axis=0)
    energy = (np.round(read_s * 1e9).astype(np.int64), watts[0] * read_s + watts[1] * busy_s)
    before = np.cumsum([0, *(len(core.task) for core in cores)])
    tprof.write_trace(
        path, tasks=list(names),
        threads=[_thread(core, first, part) for core, first in zip(cores, before, strict=False)],
        energy={"package-0": energy}, quality="estimated", static_power_w={"package-0": watts[0]},
    )  # fmt: skip
    factors = {"idle_factor": IDLE_FACTOR, "per_core_factor": PER_CORE_FACTOR}
    set_json(path / "manifest.json", estimate={"idle_w": watts[0], "per_core_w": watts[1], "given": False, **factors})
    return tprof.load(path)


def _ticks_s(core: Core, read_s: Any, part: Any, draw: np.random.Generator) -> Any:
    """Return the seconds of the ticks at which a core was busy, up to each reading."""
    ticks_s = np.arange(draw.uniform(0, TICK_S), read_s[-1], TICK_S)
    last = np.searchsorted(core.begin_s, ticks_s, side="right") - 1
    is_busy = (last >= 0) & (core.end_s[last] > ticks_s)
    is_busy &= draw.random(len(ticks_s)) < part[core.task[last]]
    return TICK_S * np.append(0, np.cumsum(is_busy))[np.searchsorted(ticks_s, read_s, side="right")]


def _thread(core: Core, first: int, part: Any) -> dict[str, Any]:
    count = len(core.task)
    t_s = np.column_stack([core.begin_s, core.end_s]).ravel()
    used_s = np.column_stack([np.zeros(count), (core.end_s - core.begin_s) * part[core.task]]).ravel()
    return {
        "t_ns": np.round(t_s * 1e9).astype(np.int64),
        "instance": np.column_stack([1 + first + np.arange(count), np.zeros(count, np.int64)]).ravel(),
        "task": np.column_stack([core.task, np.full(count, -1)]).ravel(),
        "cpu_ns": np.round(np.cumsum(used_s) * 1e9).astype(np.int64),
    }
