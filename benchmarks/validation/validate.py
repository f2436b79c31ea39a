"""The measurement behind `tprof validate`: every case, many seeds, each model beside the others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .cases import CASES
from .errors import MODELS, run_case

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .cases import Case

TARGET = 0.02
HELD_TO = ("steady mix, all cores busy", "changing mix, all cores busy", "steady mix, cores half idle")


@dataclass(frozen=True)
class Effort:
    """How much is simulated: seeds of each case, and seconds of each run."""

    seeds: int = 20
    duration_s: float = 5.0


FULL = Effort()
QUICK = Effort(seeds=2, duration_s=1.0)


def measure(
    effort: Effort = FULL, *, cases: Sequence[Case] = CASES, progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Validate the models.

    Parameters
    ----------
    effort
        `FULL` for figures (some minutes), `QUICK` to see that it works.
    cases
        Which situations.
    progress
        Told the case that begins.

    Returns
    -------
    dict
        `effort`, and `rows`: for each case, task and model the root mean square error of the mean energy over seeds,
        that of single instances, and how often the 95 % interval held the truth (`fitted` only; a part of 1);
        `target` and `met` where the figure is held to one.
    """
    rows = []
    for case in cases:
        if progress is not None:
            progress(case.name)
        runs = [run_case(case, seed=seed, duration_s=effort.duration_s) for seed in range(effort.seeds)]
        for place, model in enumerate(MODELS):
            results = [run[place] for run in runs]
            mean_error = np.sqrt(np.mean([result.mean_error**2 for result in results], axis=0))
            instance_error = np.mean([result.instance_error for result in results], axis=0)
            covered = np.mean([result.covered for result in results], axis=0)
            for number, task in enumerate(case.tasks):
                held = case.name in HELD_TO and model == "fitted"
                rows.append(
                    {
                        "case": case.name,
                        "task": task.name,
                        "model": model,
                        "mean_error": float(mean_error[number]),
                        "instance_error": float(instance_error[number]),
                        "coverage": float(covered[number]) if model == "fitted" else None,
                        "target": TARGET if held else None,
                        "met": bool(mean_error[number] <= TARGET) if held else None,
                    }
                )
    return {"effort": asdict(effort), "processor": "virtual", "rows": rows}
