"""What a policy costs where it changes nothing: an empty task of the runtime with and without one, in real time."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tprof.benchmarks.figures import Figure
from tprof.benchmarks.virtual.machine import Machine
from tprof.benchmarks.virtual.machine.tree import Shape
from tprof.runtime import Runtime

import tprof
from tprof.sensors.choose import SYSROOT

from .timing import differences, take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

FREQUENCIES_HZ = (1_600_000_000, 2_600_000_000, 3_600_000_000)
PLAIN = "an empty task without a policy"
POLICIES = ("fixed(3.6GHz)", "edp", "power_cap(1000W)")


@tprof.task(name="empty")
def empty() -> None:
    """Do nothing."""


def measure_hook(tasks: int, rounds: int) -> list[Figure]:
    """Measure batches of empty tasks on one worker, on files that stand in for the processor's."""
    with TemporaryDirectory(prefix="tprof-policy-") as folder, _machine(Path(folder)):
        taken = take_turns(
            {PLAIN: partial(_empty_ns, None, tasks)} | {one: partial(_empty_ns, one, tasks) for one in POLICIES},
            rounds=rounds,
        )
    note = f"{tasks:,} tasks in a row on one worker; measured, on a simulated sensor and cpufreq"
    return [
        Figure(PLAIN, taken[PLAIN], "ns", note=note),
        *(
            Figure(
                f"the same under {one}, over that without",
                differences(taken[one], taken[PLAIN]),
                "ns",
                note="two calls into the policy's loop; empty tasks never change the frequency",
            )
            for one in POLICIES
        ),
    ]


def _empty_ns(policy: str | None, tasks: int) -> float:
    with Runtime(workers=1, policy=policy) as runtime:
        begin_s = time.perf_counter()
        for _ in range(tasks):
            empty()
        runtime.wait()
        return (time.perf_counter() - begin_s) * 1e9 / tasks


@contextmanager
def _machine(folder: Path) -> Iterator[None]:
    former = os.environ.get(SYSROOT)
    with Machine(folder / "root", Shape(FREQUENCIES_HZ, cpus=os.cpu_count() or 1)) as machine:
        os.environ[SYSROOT] = str(machine.root)
        try:
            yield
        finally:
            if former is None:
                del os.environ[SYSROOT]
            else:
                os.environ[SYSROOT] = former
