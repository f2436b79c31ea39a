"""What policies on operating points come to in simulated time: the measurement behind `scripts/bench policy`.

Everything but the loop that decides is simulated: a processor of four cores with the paper's frequencies and its
tasks' printed responses. The loop is the runtime's own (`tprof.runtime.policy.control`); what it costs is measured:
an empty task of the runtime with and without a policy that changes nothing, in real time.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tprof.analysis.operating_points.goals import Edp
from tprof.benchmarks.measured_figures import Figure, result_of
from tprof.runtime import Runtime

import tprof
from benchmarks.simulator.policy_trials import MIXES, Trial
from benchmarks.simulator.simulated_machine import FREQUENCIES_HZ, Machine, Shape
from tprof.sensors.choose import SYSROOT

from .timing import differences, ratios, take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.simulator.policy_trials import Mix, Outcome


TARGET = 1.03
CAP_W, STATIC_W = 40.0, 20.0
PAIR = 2
SIMULATED = "simulated"
HOOK_FREQUENCIES_HZ = (1_600_000_000, 2_600_000_000, 3_600_000_000)
PLAIN = "an empty task without a policy"
MOST_NS = 1_000.0
POLICIES = ("fixed(3.6GHz)", "edp", "power_cap(1000W)")


@dataclass(frozen=True)
class Extent:
    """How much is simulated.

    Attributes
    ----------
    workers : cores.
    stride : step between the frequencies that the search for the best assignment visits.
    tasks, rounds : empty ones in a batch, and batches of each kind, for what the policy's own loop costs.
    """

    workers: int = 4
    stride: int = 1
    tasks: int = 20_000
    rounds: int = 7


FULL = Extent()
QUICK = Extent(workers=2, stride=6, tasks=200, rounds=1)


def measure(extent: Extent = FULL) -> dict[str, Any]:
    """Simulate the policy `edp` on each mix beside the fixed frequencies.

    Returns
    -------
    dict
        `machine`, `effort`, `figures` as `Figure.as_plain`. All are energy times time over that of the best that a
        fixed frequency for each task can do (with more than two tasks one for all), or times under a cap on the power
        over that of the best single frequency that keeps it; all of it simulated.
    """
    kinds = [(mix, shared) for mix in MIXES for shared in (False, True)]
    figures = [figure for mix, shared in kinds for figure in _figures(mix, extent, shared=shared)]
    figures += [figure for mix, shared in kinds for figure in _capped(mix, extent, shared=shared)]
    figures += measure_hook(extent.tasks, extent.rounds)
    return result_of(extent, figures)


def _figures(mix: Mix, extent: Extent, *, shared: bool) -> list[Figure]:
    trial = Trial(mix, extent.workers, shared=shared)
    place = _place(mix, shared=shared)
    hz, single = min(trial.single.items(), key=lambda item: item[1].edp_js)
    best, note = single, f"{SIMULATED}; best is {hz / 1e9:g} GHz for all tasks"
    figures = []
    if len(mix.tasks) == PAIR:
        frequencies_hz = FREQUENCIES_HZ[:: extent.stride]
        chosen, best = min(trial.every_assignment(frequencies_hz).items(), key=lambda item: item[1].edp_js)
        points = ", ".join(f"{task} {hz / 1e9:g} GHz" for task, hz in zip(mix.tasks, chosen, strict=True))
        note = f"{SIMULATED}; best of {len(frequencies_hz) ** PAIR} assignments: {points}"
        figures.append(_figure(f"{place}: best single frequency", single, best, f"{SIMULATED}; {hz / 1e9:g} GHz"))
    highest = trial.single[FREQUENCIES_HZ[-1]]
    table, learnt = trial.from_table(Edp()), trial.learning(Edp())
    return [
        *figures,
        _figure(f"{place}: highest frequency", highest, best, SIMULATED),
        _figure(f"{place}: edp from a sweep", table, best, note, TARGET),
        _figure(f"{place}: edp learnt while running", learnt, best, f"{SIMULATED}; what trying costs is in it"),
    ]


def _capped(mix: Mix, extent: Extent, *, shared: bool) -> list[Figure]:
    """Return times under a cap on the power over that of the best single frequency that keeps it."""
    trial = Trial(mix, extent.workers, shared=shared, static_w=STATIC_W)
    fastest = min((one for one in trial.single.values() if _power_w(one) <= CAP_W), key=lambda one: one.time_s)
    place = f"{_place(mix, shared=shared)}: power_cap({CAP_W:g}W)"
    return [
        Figure(
            f"{place} {how}",
            (found.time_s / fastest.time_s,),
            "time / best",
            note=f"{SIMULATED}; {_power_w(found):.3g} W in the mean, {found.time_s:.3g} s",
        )
        for how, found in (
            ("by the sensor alone", trial.capped(CAP_W)),
            ("from a sweep and the sensor", trial.capped(CAP_W, knows=True)),
        )
    ]


def _power_w(outcome: Outcome) -> float:
    return outcome.energy_j / outcome.time_s


def _place(mix: Mix, *, shared: bool) -> str:
    return f"{mix.name}, {'one frequency for all cores' if shared else 'a frequency each core'}"


def _figure(name: str, outcome: Outcome, best: Outcome, note: str, target: float | None = None) -> Figure:
    details = f"{note}; {outcome.changes:,} changes, {outcome.energy_j:.3g} J in {outcome.time_s:.3g} s"
    return Figure(name, (outcome.edp_js / best.edp_js,), "EDP / best", target, details)


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
        *(figure for one in POLICIES for figure in _hook_figures(one, taken)),
    ]


def _hook_figures(policy: str, taken: dict[str, tuple[float, ...]]) -> list[Figure]:
    note = "the policy loop, a task; empty tasks never change the frequency"
    return [
        Figure(
            f"the same under {policy}, over that without", differences(taken[policy], taken[PLAIN]), "ns", MOST_NS, note
        ),
        Figure(f"{policy}: a task with the policy over one without", ratios(taken[policy], taken[PLAIN]), "×"),
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
    with Machine(folder / "root", Shape(HOOK_FREQUENCIES_HZ, cpus=os.cpu_count() or 1)) as machine:
        os.environ[SYSROOT] = str(machine.root)
        try:
            yield
        finally:
            if former is None:
                del os.environ[SYSROOT]
            else:
                os.environ[SYSROOT] = former
