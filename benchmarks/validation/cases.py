"""The situations in which models are validated: what runs, how the package draws, how its sensor is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.published import LOWEST_HZ
from benchmarks.simulator import ICE_LAKE, KNIGHTS_LANDING, Law, Mix, Package, Sensor, Task, kernel, stated
from tprof.errors import UsageError

WITHOUT_COUNTERS = ("fitted", "cputime", "wall time")
WITH_COUNTERS = ("fitted + linear", "fitted", "linear", "ipc", "fesc", "cputime", "wall time")
SHORT = (stated("20 µs, 4 W", 20e-6, 4.0), stated("50 µs, 8 W", 50e-6, 8.0), stated("200 µs, 12 W", 200e-6, 12.0))
UNEVEN = tuple(stated(task.name, task.duration_s, task.kernel.unseen_w, power_spread=0.1) for task in SHORT)
MIXED = (
    stated("10 µs, 9 W", 10e-6, 9.0),
    stated("100 µs, 5 W", 100e-6, 5.0),
    stated("1 ms, 7 W", 1e-3, 7.0),
    stated("10 ms, 12 W", 10e-3, 12.0),
    stated("100 ms, 3 W", 100e-3, 3.0),
)
KERNELS = (
    Task("10 µs, mm2", 10e-6, kernel("mm2")),
    Task("100 µs, jacobi1d", 100e-6, kernel("jacobi1d")),
    Task("1 ms, gemver", 1e-3, kernel("gemver")),
    Task("10 ms, adi", 10e-3, kernel("adi")),
    Task("100 ms, gemm", 100e-3, kernel("gemm")),
)
WARMING = Law(
    static_w=10.0, core_w=0.0, ipc_w=0.0, l2_w=0.0, llc_w=0.0, gating=0.0, contention=0.0, leak=0.05, warm_s=5.0
)
HALF = Mix(busy=0.5)
SLOW = Package(Law(), set_hz=LOWEST_HZ)
COARSE = Sensor(ICE_LAKE.gaps_ms, ICE_LAKE.unit_j, poll_s=1e-3)
RECORDED = Sensor(ICE_LAKE.gaps_ms, ICE_LAKE.unit_j, poll_s=1e-3, closely=1 / 8)
SPARED = Sensor(ICE_LAKE.gaps_ms, ICE_LAKE.unit_j, poll_s=4e-3, closely=1 / 8)
NOISY = Sensor(KNIGHTS_LANDING.gaps_ms, KNIGHTS_LANDING.unit_j, noise_j=200e-6)


@dataclass(frozen=True)
class Case:
    """One situation.

    Attributes
    ----------
    key : as `--case` takes it.
    name : in words.
    tasks, package, sensor : what runs and how it is read.
    mix : how `random_mix` lays it out; the extent sets its length.
    models : which are compared; with counters in the trace for those that need them.
    """

    key: str
    name: str
    tasks: tuple[Task, ...] = SHORT
    package: Package = field(default_factory=Package)
    sensor: Sensor = ICE_LAKE
    mix: Mix = field(default_factory=Mix)
    models: tuple[str, ...] = WITHOUT_COUNTERS


AnyCase = TypeVar("AnyCase", bound=Case)
CASES = (
    Case("steady", "steady mix, all cores busy"),
    Case("changing", "changing mix, all cores busy", mix=Mix(changing=True)),
    Case("half-idle", "steady mix, cores half idle", mix=HALF),
    Case("uneven", "instances differ by 10 % in power", UNEVEN),
    Case("lengths", "tasks from 10 µs to 100 ms", MIXED),
    Case("bursts", "bursts of 5 ms, gaps of 10 ms", mix=Mix(burst_s=5e-3, gap_s=10e-3)),
    Case("warming", "static power rises by 1 W", package=Package(WARMING)),
    Case("coarse", "sensor polled each millisecond", sensor=COARSE),
    Case("recorded", "sensor read as a recording reads it", sensor=RECORDED),
    Case("recorded-uneven", "the same, instances differ by 10 % in power", UNEVEN, sensor=RECORDED),
    Case("spared", "the same where waking is dear, half idle", sensor=SPARED, mix=HALF),
    Case("noisy", "15.3 µJ unit, 200 µJ noise", sensor=NOISY),
    Case("no-idle", "no idle time before the run", mix=Mix(idle_s=0.0)),
    Case("kernels", "kernels, 3.3 GHz", KERNELS, Package(Law()), models=WITH_COUNTERS),
    Case("turbo", "kernels, turbo, half idle", KERNELS, Package(Law(), turbo=True), mix=HALF, models=WITH_COUNTERS),
    Case("slow", "kernels, 1.6 GHz, calibrated at 3.3", KERNELS, SLOW, models=WITH_COUNTERS),
)  # fmt: skip
TARGET_CASES = ("steady", "changing", "half-idle")
"""Cases in which `fitted` has targets."""


def chosen(keys: tuple[str, ...]) -> tuple[Case, ...]:
    """Return the cases of these keys, all without any. Raises UsageError."""
    return chosen_of(CASES, keys)


def chosen_of(cases: tuple[AnyCase, ...], keys: tuple[str, ...]) -> tuple[AnyCase, ...]:
    """Return those of these keys, all without any. Raises UsageError."""
    known = [case.key for case in cases]
    for key in keys:
        if key not in known:
            message = f'case must be one of {", ".join(known)}; got "{key}"'
            raise UsageError(message)
    return tuple(case for case in cases if not keys or case.key in keys)
