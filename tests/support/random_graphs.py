"""Recordings of random graphs of tasks, and how two profiles of one agree on what it waited for."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from support import task_graphs
from support.task_graphs import Flat, Nested

import tprof
from tprof.trace import EventKind, Kind

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from tprof.analysis import Profile

MS = 1_000_000


def flat(path: Path, rng: np.random.Generator, *, count: int = 60, readings: int = 40) -> tprof.Trace:
    """Write a random graph of tasks on three workers, of which some are stolen and some never run."""
    tasks = [
        (int(rng.integers(0, 20)) * MS, {int(one) for one in rng.integers(0, number, 2)} if number else set())
        for number in range(count)
    ]
    lanes = Flat(tasks, workers=3, gap_ns=int(rng.integers(0, 4)) * MS, slow_ns=int(rng.integers(0, 2)) * MS // 2).lanes
    for lane in lanes[1:]:
        for t_ns, instance, kind in lane.samples:
            if kind == Kind.START and rng.random() < 0.2:
                lane.event(t_ns, EventKind.STEAL, instance)
    for number in range(count + 1, count + 4):
        t_ns = int(rng.integers(0, 50)) * MS
        lanes[0].event(t_ns, EventKind.SPAWN, number)
        lanes[0].event(t_ns, EventKind.READY, number)
        if rng.random() < 0.5:
            lanes[0].event(t_ns + MS, EventKind.CANCEL, number)
    return task_graphs.write(path, lanes, readings)


def nested(path: Path, rng: np.random.Generator) -> tprof.Trace:
    """Write instances that spawn others and wait for them."""

    def body(depth: int) -> list[tuple[object, ...]]:
        steps: list[tuple[object, ...]] = []
        for _ in range(int(rng.integers(1, 6))):
            what = rng.random()
            if what < 0.5 or not depth:
                steps.append(("run", int(rng.integers(1, 40)) * MS))
            elif what < 0.8:
                steps.append(("spawn", body(depth - 1), rng.integers(0, 5, 2).tolist()))
            else:
                steps.append(("wait",))
        return steps

    delays = itertools.cycle((rng.integers(0, 5, 6) * MS).tolist())
    return task_graphs.write(path, Nested(body(3), delays).lanes, 40)


def keyed(path: Path, rng: np.random.Generator, *, count: int = 60) -> tprof.Trace:
    """Write tasks of an engine, of which some are tried again, need what never ran, or have no key."""
    waits_for = [{int(one) for one in rng.integers(0, number, 2)} if number else set() for number in range(count)]
    tasks = [(int(rng.integers(0, 20)) * MS, waited) for waited in waits_for]
    lanes = Flat(tasks, workers=3, gap_ns=MS).lanes
    for lane in lanes:
        lane.events.clear()
    trace = task_graphs.write(path, lanes, 40)
    names = [f"('sum-{number // 7}', {number - number % 2})" for number in range(count)]
    lines = [
        {
            "instance": number + 1,
            "key": names[number],
            "needs": [names[one] for one in waited] + ["gone"] * (number == 9),
        }
        for number, waited in enumerate(waits_for)
        if number % 11
    ]
    (path / "keys").mkdir()
    texts = [json.dumps(lines[place]) + "\n" for place in rng.permutation(len(lines))]
    (path / "keys/00000000.jsonl").write_text("".join([*texts, texts[0], "{}\n"]))
    return tprof.load(trace.path)


def assert_same_chains(whole: Profile, parts: Profile) -> None:
    """Compare what profiles say of dependences."""
    pd.testing.assert_frame_equal(parts.dependences, whole.dependences)
    ours, theirs = parts.critical_path(), whole.critical_path()
    assert ours.facts() == pytest.approx(theirs.facts(), rel=1e-9, nan_ok=True)
    for name in ("chain", "heaviest", "observed"):
        pd.testing.assert_frame_equal(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-12)


def assert_same_runtime(whole: Profile, parts: Profile) -> None:
    """Compare what profiles say of a task runtime."""
    assert_same_chains(whole, parts)
    for table in (lambda one: one.waits(), lambda one: one.starvation):
        pd.testing.assert_frame_equal(table(parts), table(whole), rtol=1e-9, atol=1e-12)
    assert parts.runtime == pytest.approx(whole.runtime, rel=1e-9, nan_ok=True)
