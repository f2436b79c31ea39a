"""The situations in which models are validated: what runs, how the package draws, how its sensor is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.virtual import ICE_LAKE, Package, Sensor, Task

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT = (Task("20 µs, 4 W", 20e-6, 4.0), Task("50 µs, 8 W", 50e-6, 8.0), Task("200 µs, 12 W", 200e-6, 12.0))
MIXED = (
    Task("10 µs, 9 W", 10e-6, 9.0),
    Task("100 µs, 5 W", 100e-6, 5.0),
    Task("1 ms, 7 W", 1e-3, 7.0),
    Task("10 ms, 12 W", 10e-3, 12.0),
    Task("100 ms, 3 W", 100e-3, 3.0),
)
UNEVEN = tuple(Task(task.name, task.duration_s, task.power_w, 0.1, 0.1) for task in SHORT)
COARSE = Sensor(ICE_LAKE.gaps_ms, ICE_LAKE.unit_j, poll_s=1e-3)


@dataclass(frozen=True)
class Case:
    """One situation.

    Attributes
    ----------
    name : in words.
    tasks, package, sensor : what runs and how it is read.
    mix : how `random_mix` lays it out.
    """

    name: str
    tasks: tuple[Task, ...] = SHORT
    package: Package = field(default_factory=Package)
    sensor: Sensor = ICE_LAKE
    mix: Mapping[str, Any] = field(default_factory=dict)


CASES = (
    Case("steady mix, all cores busy"),
    Case("changing mix, all cores busy", mix={"changing": True}),
    Case("steady mix, cores half idle", mix={"busy": 0.5}),
    Case("instances differ by 10 % in power", UNEVEN),
    Case("tasks from 10 µs to 100 ms", MIXED),
    Case("static power rises by 1 W", package=Package(drift_w=1.0)),
    Case("sensor polled each millisecond", sensor=COARSE),
    Case("no idle time before the run", mix={"idle_s": 0.0}),
)
