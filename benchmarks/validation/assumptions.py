"""Cases in which the assumptions of `fitted` are true, and cases in which its intervals must hold or it must warn.

Each case is a simulated program, package and sensor. `causes` are the kinds of findings that name what is wrong. A case
without any is clean: whatever is found there is a false warning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.simulator import (
    BROADWELL,
    ICE_LAKE,
    KNIGHTS_LANDING,
    Beside,
    Drift,
    Effects,
    Hidden,
    Law,
    Mix,
    Package,
    Task,
    stated,
)

from .cases import COARSE, HALF, KERNELS, NOISY, RECORDED, SHORT, WARMING, Case, chosen_of

SPREAD = 0.05
"""By how much instances of a task differ in power, unless the case says otherwise."""
OFTEN = Mix(as_often=True)
EVEN = tuple(replace(task, power_spread=SPREAD) for task in SHORT)
UNEVEN = tuple(replace(task, power_spread=0.3) for task in SHORT)
BY_LENGTH = tuple(replace(task, power_spread=SPREAD, duration_spread=0.5, length_exponent=0.3) for task in SHORT)
IN_RATIO = (*(replace(task, duration_spread=0.0) for task in EVEN[:2]), EVEN[2])
LONG = (
    stated("2 ms, 4 W", 2e-3, 4.0, SPREAD),
    stated("5 ms, 8 W", 5e-3, 8.0, SPREAD),
    stated("20 ms, 12 W", 20e-3, 12.0, SPREAD),
)
LATE = replace(ICE_LAKE, late_s=0.5e-3)
LATE_TAIL = replace(ICE_LAKE, late_s=0.2e-3, late_tail=True)
EACH_OTHER = tuple(Beside(task, other, 0.10) for task in range(3) for other in range(3) if task != other)
SHARED = ("contention",)
INSEPARABLE = ("ratio", "unresolved")
SENSORS = (ICE_LAKE, BROADWELL, KNIGHTS_LANDING, RECORDED)


@dataclass(frozen=True, kw_only=True)
class AssumptionCase(Case):
    """A case with how long it runs, and the kinds of findings that name what is wrong.

    `is_drawn`: whether tasks, cores and sensor are other ones in each run.
    """

    tasks: tuple[Task, ...] = EVEN
    mix: Mix = OFTEN
    models: tuple[str, ...] = ("fitted",)
    duration_s: float = 2.5
    causes: tuple[str, ...] = ()
    is_drawn: bool = False

    def of_run(self, seed: int) -> AssumptionCase:
        """Return the case as it is in the run of this seed."""
        if not self.is_drawn:
            return self
        random = np.random.default_rng((seed, 3))
        lengths_s = 10 ** random.uniform(-5, -2.3, random.integers(2, 9))
        tasks = tuple(
            stated(f"task {number}", float(length_s), float(random.uniform(2, 15)), SPREAD)
            for number, length_s in enumerate(lengths_s)
        )
        mix = Mix(cores=int(random.integers(2, 9)), busy=float(random.uniform(0.4, 1)))
        return replace(self, tasks=tasks, mix=mix, sensor=SENSORS[random.integers(len(SENSORS))])


def many(count: int) -> tuple[Task, ...]:
    """Return tasks of 20 µs to 2 ms whose powers do not go with their lengths."""
    ratio = 100.0 ** (1 / (count - 1))
    powers_w = [4.0 + 8.0 * (number * 7 % count) / (count - 1) for number in range(count)]
    return tuple(
        stated(f"{20 * ratio**number:.0f} µs, {power_w:.1f} W", 20e-6 * ratio**number, power_w, SPREAD)
        for number, power_w in enumerate(powers_w)
    )


def contending(*beside: Beside) -> Package:
    """Return a package on which tasks draw more beside others."""
    return Package(effects=Effects(beside=beside))


def drifting(drift: Drift) -> Package:
    """Return a package on which powers of tasks drift."""
    return Package(effects=Effects(drift=drift))


CLEAN = (
    AssumptionCase(key="clean", name="powers constant, all cores busy, 5 s", duration_s=5.0),
    AssumptionCase(key="half-idle", name="cores half idle", mix=replace(OFTEN, busy=0.5)),
    AssumptionCase(key="changing", name="the mix changes", mix=Mix(changing=True)),
    AssumptionCase(key="uneven", name="instances differ by 30 % in power", tasks=UNEVEN),
    AssumptionCase(key="ten", name="ten tasks, 20 µs to 2 ms", tasks=many(10), mix=Mix()),
    AssumptionCase(key="thirty", name="thirty tasks, 20 µs to 2 ms, 5 s", tasks=many(30), mix=Mix(), duration_s=5.0),
    AssumptionCase(key="sixteen-cores", name="16 cores, 1.5 s", mix=replace(OFTEN, cores=16), duration_s=1.5),
    AssumptionCase(key="long", name="tasks over several quanta", tasks=LONG, mix=Mix()),
    AssumptionCase(key="recorded", name="sensor read as a recording reads it", sensor=RECORDED),
    AssumptionCase(key="coarse", name="sensor polled each millisecond", sensor=COARSE),
    AssumptionCase(key="gaps", name="20 ms of work, 30 ms of rest", mix=replace(OFTEN, burst_s=20e-3, gap_s=30e-3)),
    AssumptionCase(key="noisy", name="15.3 µJ unit, 200 µJ noise", sensor=NOISY),
    AssumptionCase(key="drawn", name="tasks, cores and sensor drawn anew", is_drawn=True),
)
BROKEN = (
    AssumptionCase(
        key="contention", name="200 µs draws 15 % more beside 50 µs", package=contending(Beside(2, 1, 0.15)),
        causes=SHARED,
    ),
    AssumptionCase(
        key="contention-weak", name="the same, 3.75 %", package=contending(Beside(2, 1, 0.0375)), causes=SHARED
    ),
    AssumptionCase(
        key="contention-faint", name="the same, 1.5 %", package=contending(Beside(2, 1, 0.015)), causes=SHARED
    ),
    AssumptionCase(
        key="contention-short", name="50 µs draws 15 % more beside 200 µs", package=contending(Beside(1, 2, 0.15)),
        causes=SHARED,
    ),
    AssumptionCase(
        key="contention-all", name="each draws 10 % more beside each other", package=contending(*EACH_OTHER),
        causes=SHARED,
    ),
    AssumptionCase(
        key="contention-ten", name="one of ten draws 15 % more beside another", tasks=many(10), mix=Mix(),
        package=contending(Beside(8, 4, 0.15)), causes=SHARED,
    ),
    AssumptionCase(
        key="drift", name="powers rise by 10 % over the run", package=drifting(Drift(linear=0.10)), causes=("drift",)
    ),
    AssumptionCase(
        key="step", name="powers rise by 10 % at half time", package=drifting(Drift(step=0.10)), causes=("drift",)
    ),
    AssumptionCase(
        key="walk", name="each power walks by 5 %", package=drifting(Drift(walk=0.05)), causes=("drift",)
    ),
    AssumptionCase(key="length", name="power ∝ length^0.3, which differs by 50 %", tasks=BY_LENGTH, causes=("length",)),
    AssumptionCase(key="late", name="sensor up to 0.5 ms late", sensor=LATE, causes=("lateness",)),
    AssumptionCase(key="late-tail", name="sensor 0.2 ms late, exponential", sensor=LATE_TAIL, causes=("lateness",)),
    AssumptionCase(
        key="unlike-cores", name="two cores draw 30 % less", package=Package(effects=Effects(cores=(1, 1, 0.7, 0.7))),
        causes=("cores",),
    ),
    AssumptionCase(key="warming", name="static power rises by 1 W", package=Package(WARMING), causes=("static",)),
    AssumptionCase(
        key="hidden", name="bursts of 6 W that no sample shows",
        package=Package(effects=Effects(hidden=Hidden(6.0, 5e-3, 30e-3))), causes=("unexplained",),
    ),
    AssumptionCase(
        key="alternating", name="tasks alternate on one core", mix=Mix(cores=1, groups=((0, 1, 2),)),
        causes=INSEPARABLE,
    ),
    AssumptionCase(
        key="ratio", name="two tasks in fixed ratio", tasks=IN_RATIO, mix=replace(OFTEN, groups=((0, 1), (2,))),
        causes=INSEPARABLE,
    ),
    AssumptionCase(
        key="no-idle", name="no idle time before the run", mix=replace(OFTEN, idle_s=0.0),
        causes=("static", "unresolved"),
    ),
    AssumptionCase(
        key="kernels", name="kernels that share a cache", tasks=KERNELS, package=Package(Law()), mix=Mix(),
        causes=(*SHARED, "static"),
    ),
    AssumptionCase(
        key="turbo", name="kernels with turbo, half idle", tasks=KERNELS, package=Package(Law(), turbo=True), mix=HALF,
        causes=(*SHARED, "static"),
    ),
)  # fmt: skip
ASSUMPTION_CASES = CLEAN + BROKEN


def chosen_assumptions(keys: tuple[str, ...]) -> tuple[AssumptionCase, ...]:
    """Return the cases of these keys, all without any. Raises UsageError."""
    return chosen_of(ASSUMPTION_CASES, keys)
