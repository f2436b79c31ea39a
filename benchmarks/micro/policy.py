"""What policies on operating points come to in simulated time: the measurement behind `tprof bench policy`.

Everything but the loop that decides is simulated: a processor of four cores with the paper's frequencies and its
tasks' printed responses. The loop is the runtime's own (`tprof.runtime.operating.control`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tprof.benchmarks.figures import Figure
from tprof.benchmarks.machine import describe_machine
from tprof.benchmarks.virtual.operating import FREQUENCIES_HZ, MIXES, Trial
from tprof.runtime.operating.goals import Edp

if TYPE_CHECKING:
    from tprof.benchmarks.virtual.operating import Mix, Outcome

TARGET = 1.03
PAIR = 2
SIMULATED = "simulated"


@dataclass(frozen=True)
class Effort:
    """How much is simulated.

    Attributes
    ----------
    workers : cores.
    stride : every how manieth frequency the search for the best assignment visits.
    """

    workers: int = 4
    stride: int = 1


FULL = Effort()
QUICK = Effort(workers=2, stride=6)


def measure(effort: Effort = FULL) -> dict[str, Any]:
    """Simulate the policy `edp` on each mix beside the fixed frequencies.

    Returns
    -------
    dict
        `machine`, `effort`, `figures` as `Figure.as_plain`. All are energy times time over that of the best that a
        fixed frequency for each task can do (with more than two tasks one for all), all of it simulated.
    """
    figures = [figure for mix in MIXES for shared in (False, True) for figure in _figures(mix, effort, shared=shared)]
    return {
        "machine": describe_machine(),
        "effort": asdict(effort),
        "figures": [figure.as_plain() for figure in figures],
    }


def _figures(mix: Mix, effort: Effort, *, shared: bool) -> list[Figure]:
    trial = Trial(mix, effort.workers, shared=shared)
    place = f"{mix.name}, {'one frequency for all cores' if shared else 'a frequency each core'}"
    hz, single = min(trial.single.items(), key=lambda item: item[1].edp_js)
    best, note = single, f"{SIMULATED}; best is {hz / 1e9:g} GHz for all tasks"
    figures = []
    if len(mix.tasks) == PAIR:
        frequencies_hz = FREQUENCIES_HZ[:: effort.stride]
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


def _figure(name: str, outcome: Outcome, best: Outcome, note: str, target: float | None = None) -> Figure:
    told = f"{note}; {outcome.changes:,} changes, {outcome.energy_j:.3g} J in {outcome.time_s:.3g} s"
    return Figure(name, (outcome.edp_js / best.edp_js,), "EDP / best", target, told)
