"""How good advice on operating points is: on responses that are known, and on public measurements where they are.

The environment variable TPROF_PUBLIC_DATA names the folder of the public measurements; without it their figures are
not measured, and are labelled so.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.benchmarks.machine_description import describe_machine
from tprof.benchmarks.measured_figures import Figure

from benchmarks.published import public_measurements

from . import advice_trials, known_responses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.published.public_measurements import Response

    from .advice_trials import Noise, Try

FOLDER = "TPROF_PUBLIC_DATA"
PERCENT = "%"
OTHERS = 12
"""Tasks of the same table that are known whole."""
MIDDLE = 1 / 2
"""Where, in logarithms, the third number of cores lies between the fewest and the most."""


@dataclass(frozen=True)
class Extent:
    """How many responses of each kind are tried (None: all), and how many tables of noisy runs."""

    responses: int | None = None
    tables: int = 300


FULL = Extent()
QUICK = Extent(responses=3, tables=3)


def measure(extent: Extent = FULL, *, folder: Path | None = None) -> dict[str, Any]:
    """Measure how good advice is.

    Parameters
    ----------
    extent
        `FULL` for figures (one to two minutes), `QUICK` to see that it works.
    folder
        Of public measurements; by default what TPROF_PUBLIC_DATA names.

    Returns
    -------
    dict
        `machine` (as `describe_machine`), `effort`, and `figures`: plain values as `Figure.as_plain`.
    """
    named = os.environ.get(FOLDER)
    folder = folder or (Path(named) if named else None)
    figures = [
        *_frequency("the paper's responses", _some(known_responses.papers(), extent), 4.0),
        *_frequency("the same with a voltage floor", _some(known_responses.papers(floor=True), extent), None),
        *_frequency("kernels on the virtual processor", _some(known_responses.virtual(), extent), 4.0),
        *(figure for kind in advice_trials.KINDS for figure in _noisy(kind, extent.tables)),
        *_public(folder, public_measurements.SWEEPS, public_measurements.frequencies, over_frequencies, extent),
        *_public(folder, public_measurements.ZEUS, public_measurements.power_limits, _limits, extent),
        *_public(folder, public_measurements.CORES, public_measurements.cores, _cores, extent),
    ]
    return {"machine": describe_machine(), "effort": asdict(extent), "figures": [one.as_plain() for one in figures]}


def _frequency(kind: str, tasks: Sequence[Response], target: float | None) -> list[Figure]:
    exact = advice_trials.EXACT_NOISE
    two = [advice_trials.attempt(one, advice_trials.ends(one), by="edp", noise=exact) for one in tasks]
    every = [advice_trials.attempt(one, range(len(one.time_s)), by="edp", noise=exact) for one in tasks]
    asked = [advice_trials.until_sure(one, 3, by="edp", noise=exact) for one in tasks]
    how = f"{kind}, {len(tasks)} tasks, 19 frequencies"
    held_to = None if target is None else 0.0
    return [
        Figure(f"{how}: energy predicted from the ends, error", (_error(two),), PERCENT, target, "median"),
        Figure("… 95 % intervals that hold it", (_coverage(two),), PERCENT),
        Figure("… EDP-optimal not found, all measured", (_missed(every),), "tasks", held_to, _worst(every)),
        Figure("… EDP-optimal not found, only the ends measured", (_missed(two),), "tasks", note=_worst(two)),
        Figure("… EDP-optimal not found, what it asks for measured", (_missed(asked),), "tasks", note=_worst(asked)),
    ]


def _noisy(noise: Noise, tables: int) -> list[Figure]:
    tried = advice_trials.try_noise(noise, tables)
    how = f"{tables} tables of {noise.repeats} runs at 4 frequencies, energies known to {noise.energy:.1%}, times to"
    return [
        Figure(f"{how} {noise.time:.0%}: intervals that hold the saving", (100 * tried.covered,), PERCENT),
        Figure("… choices under a cap on the power that break it", (100 * tried.broken,), PERCENT),
    ]


def over_frequencies(tasks: Sequence[Response]) -> list[Figure]:
    """Return how good advice on tasks over frequencies is, of each half; processors are named "half/processor"."""
    figures = []
    for half in ("design", "held out"):
        some = [one for one in tasks if one.name.startswith(f"{half}/")]
        if some:
            figures += _of_half(half, some)
    return figures


def _of_half(half: str, tasks: Sequence[Response]) -> list[Figure]:
    alone = [advice_trials.attempt(one, advice_trials.ends(one)) for one in tasks]
    among = advice_trials.among_others(tasks, most=OTHERS)
    plain = [
        100 * float(np.median(np.abs(advice_trials.plain_energies(one) / one.energy_j - 1)[1:-1])) for one in tasks
    ]
    figures = [
        Figure(
            f"{half}, {len(tasks)} pairs of task and processor: plain fit, error", (float(np.median(plain)),), PERCENT
        )
    ]
    for how, tries in (("alone", alone), (f"with {OTHERS} other tasks known", among)):
        figures += [
            Figure(f"… {how}, from the ends: energy, error", (_median_error(tries),), PERCENT, note="median"),
            Figure("… 95 % intervals that hold it", (_coverage(tries),), PERCENT),
            Figure("… worst processor", (_worst_coverage(tries),), PERCENT),
            Figure("… energy lost", (_loss(tries),), PERCENT),
            Figure("… that it expects", (_mean([one.expected for one in tries]),), PERCENT),
        ]
    return figures


def _median_error(tries: Sequence[Try]) -> float:
    """Return the median over tasks of their median errors."""
    return 100 * float(np.median([np.median(np.abs(one.error)) for one in tries]))


def _worst_coverage(tries: Sequence[Try]) -> float:
    processors: dict[str, list[float]] = {}
    for one in tries:
        processors.setdefault(one.name.split(": ")[0], []).append(float(one.covered.mean()))
    return 100 * min(float(np.mean(of)) for of in processors.values())


def _limits(jobs: Sequence[Response]) -> list[Figure]:
    two = [advice_trials.attempt(one, advice_trials.ends(one), unit="W") for one in jobs]
    three = [advice_trials.until_sure(one, 1, unit="W") for one in jobs]
    crossed, crossed_once = (advice_trials.without_own_kind(jobs, unit="W", most=most) for most in (0, 1))
    asked = sum(one.proposed is not None for one in two)
    how = f"{len(jobs)} jobs on a V100, 7 power limits: energy lost"
    return [
        Figure(f"{how}, advised from the ends", (_loss(two),), PERCENT, 3.5, "mean, against the best of the seven"),
        Figure("… with what it asks for measured, once", (_loss(three),), PERCENT, 1.5, f"it asks for {asked} jobs"),
        Figure("… from the ends, prior chosen from other networks' jobs", (_loss(crossed),), PERCENT, 3.5),
        Figure("… with what that asks for measured, once", (_loss(crossed_once),), PERCENT, 1.5),
        Figure("… by a plain fit through the ends", (_mean([advice_trials.plain_fit(one) for one in jobs]),), PERCENT),
        Figure("… always at the highest limit", (_mean([advice_trials.always(one, -1) for one in jobs]),), PERCENT),
        Figure("… always at the lowest", (_mean([advice_trials.always(one, 0) for one in jobs]),), PERCENT),
        Figure("… that advice from the ends expects", (_mean([one.expected for one in two]),), PERCENT),
        Figure("energy predicted from the ends, error", (_error(two),), PERCENT, note="median"),
        Figure("… 95 % intervals that hold it", (_coverage(two),), PERCENT),
        Figure("… the same, prior chosen from other networks' jobs", (_coverage(crossed),), PERCENT),
    ]


def _cores(programs: Sequence[Response]) -> list[Figure]:
    two = [advice_trials.attempt(one, advice_trials.ends(one)) for one in programs]
    three = [advice_trials.attempt(one, sorted({*advice_trials.ends(one), _middle(one)})) for one in programs]
    asked = [advice_trials.until_sure(one, 2) for one in programs]
    how = f"{len(programs)} programs on 7 machines over cores: energy lost"
    return [
        Figure(f"{how}, advised from the ends", (_loss(two),), PERCENT, note="mean, against the best count"),
        Figure("… from the ends and one between", (_loss(three),), PERCENT),
        Figure("… from the ends and what it asks for, twice", (_loss(asked),), PERCENT),
        Figure("… always on all cores", (_mean([advice_trials.always(one, -1) for one in programs]),), PERCENT),
        Figure("energy predicted from the ends and one between, error", (_error(three),), PERCENT, note="median"),
        Figure("time predicted from the ends and one between, error", (_time_error(three),), PERCENT, note="median"),
        Figure("… 95 % intervals that hold the energy", (_coverage(three),), PERCENT),
    ]


def _public(
    folder: Path | None,
    name: str,
    read: Callable[[Path], list[Response]],
    figures: Callable[[Sequence[Response]], list[Figure]],
    extent: Extent,
) -> list[Figure]:
    if folder is None or not (folder / name).is_file():
        return [Figure(name, (), PERCENT, note=f"not there; set {FOLDER} to the folder that holds it")]
    return figures(_some(read(folder), extent))


def _some(found: list[Response], extent: Extent) -> list[Response]:
    """Return as many as `extent.responses`, of all kinds, since they are sorted."""
    if extent.responses is None:
        return found
    return [found[place] for place in np.linspace(0, len(found) - 1, extent.responses).astype(int)]


def _middle(one: Response) -> int:
    logs = np.log(one.workers)
    return int(np.argmin(np.abs(logs - logs[0] - MIDDLE * np.ptp(logs))))


def _mean(parts: Sequence[float]) -> float:
    return 100 * float(np.mean(parts))


def _loss(tries: Sequence[Try]) -> float:
    return _mean([one.loss for one in tries])


def _coverage(tries: Sequence[Try]) -> float:
    return 100 * float(np.mean(np.concatenate([one.covered for one in tries])))


def _error(tries: Sequence[Try]) -> float:
    return 100 * float(np.median(np.abs(np.concatenate([one.error for one in tries]))))


def _time_error(tries: Sequence[Try]) -> float:
    return 100 * float(np.median(np.abs(np.concatenate([one.time_error for one in tries]))))


def _missed(tries: Sequence[Try]) -> float:
    return float(sum(one.off > 0 for one in tries))


def _worst(tries: Sequence[Try]) -> str:
    return (
        f"at most {max(one.off for one in tries)} steps off, {100 * max(one.loss for one in tries):.2g} % of EDP lost"
    )
