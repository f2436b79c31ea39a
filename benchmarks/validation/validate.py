"""The measurement behind `scripts/bench validate`: cases and seeds, models side by side, the paper's tables.

Its simulations do not depend on each other and run in processes of their own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import published
from benchmarks.simulator import POLYBENCH, STRESS, Law, Package, redrawn
from benchmarks.validation.processes import run_all

from . import kernel_pairs
from .case_errors import run_case
from .cases import CASES, TARGET_CASES
from .kernel_pairs import calibrate
from .targets import target_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.analysis import Coefficients

    from benchmarks.validation.processes import Progress

    from .case_errors import CaseResult
    from .cases import Case

    Row = dict[str, Any]

PACKAGE = Package(Law())
TABLES_SEED = 1
COVERAGE_SEED = 10_000
"""Of the first run that is counted for coverage: none of those whose errors are printed."""


@dataclass(frozen=True)
class Extent:
    """How much is simulated: runs of each case and seconds of each; the same of the shorter ones for coverage.

    `machine`: whether figures of this machine (the poller, the time of a fit) are measured too.
    """

    seeds: int = 20
    duration_s: float = 5.0
    coverage_seeds: int = 200
    coverage_s: float = 1.0
    machine: bool = True


FULL = Extent()
QUICK = Extent(seeds=2, duration_s=1.0, coverage_seeds=4, machine=False)


def measure(
    extent: Extent = FULL, *, cases: Sequence[Case] = CASES, progress: Progress | None = None
) -> dict[str, Any]:
    """Validate the models.

    Parameters
    ----------
    extent
        `FULL` for figures (some minutes), `QUICK` to see that it works.
    cases
        Which situations.
    progress
        Called with how many simulations are done, and of how many.

    Returns
    -------
    dict
        `effort`, `processor`, and

        - `calibration`: coefficients and errors of the calibrated model on its own runs;
        - `rows`: for each case, task and model the root mean square error of the mean energy above static power over
          seeds (`mean_error`), that of single instances (`instance_error`) and how often the 95 % interval of the mean
          held the truth (`coverage`; None for wall time, which has none); parts of 1;
        - `coverage`: the same of `fitted` from many more and shorter runs, with its uncertainty and the standard
          deviation of errors in units of the claimed standard error (1 where intervals are right);
        - `tables`: "2", "3", "4" of the paper on the virtual processor, "3 on four cores", "3 with turbo", "3 with
          instructions that differ by 30 %", and under
          `published` the paper's own and under `draws` the errors of "3" and "4" where instructions take otherwise;
        - `figures`: those with a target, as `Figure.as_plain`.
    """
    model, goodness = calibrate(PACKAGE)
    targeted = [case for case in cases if case.key in TARGET_CASES]
    results, draws = _run(cases, targeted, extent, model, progress)
    rows = [row for case in cases for row in _rows(case, results[case.key])]
    coverage = [_coverage(case, results[f"{case.key} coverage"]) for case in targeted]
    tables = _tables(model) | {"draws": draws}
    return {
        "effort": asdict(extent),
        "processor": "virtual",
        "calibration": goodness,
        "rows": rows,
        "coverage": coverage,
        "tables": tables,
        "figures": target_figures(rows, coverage, tables, measured=extent.machine),
    }


def _run(
    cases: Sequence[Case], targeted: Sequence[Case], extent: Extent, model: Coefficients, progress: Progress | None
) -> tuple[dict[str, list[list[CaseResult]]], list[Row]]:
    """Return the results of each case's seeds, under `<key> coverage` of the shorter runs of cases with targets; draws.

    All by the same processes: to start them takes seconds of processor time each.
    """
    jobs: list[tuple[str, Case, int, float]] = [
        (case.key, case, seed, extent.duration_s) for case in cases for seed in range(extent.seeds)
    ]
    jobs += [
        (f"{case.key} coverage", replace(case, models=("fitted",)), COVERAGE_SEED + seed, extent.coverage_s)
        for case in targeted
        for seed in range(extent.coverage_seeds)
    ]
    work: list[tuple[object, ...]] = [(_job, case, seed, duration_s, model) for _, case, seed, duration_s in jobs]
    work += [(_draw, seed) for seed in range(extent.seeds)]
    done: list[Any] = run_all(_call, work, progress)
    results: dict[str, list[list[CaseResult]]] = {}
    for (key, *_), result in zip(jobs, done, strict=False):
        results.setdefault(key, []).append(result)
    return results, done[len(jobs) :]


def _call(job: Callable[..., Any], *arguments: object) -> Any:
    return job(*arguments)


def _job(case: Case, seed: int, duration_s: float, model: Coefficients) -> list[CaseResult]:
    return run_case(case, seed=seed, duration_s=duration_s, model=model)


def _rows(case: Case, runs: Sequence[Sequence[CaseResult]]) -> list[Row]:
    rows = []
    for place, model in enumerate(case.models):
        results = [run[place] for run in runs]
        mean_error = _root_mean_square([result.mean_error for result in results])
        instance_error = _root_mean_square([result.instance_error for result in results])
        covered = np.mean([result.covered for result in results], axis=0)
        for number, task in enumerate(case.tasks):
            rows.append(
                {
                    "key": case.key,
                    "case": case.name,
                    "task": task.name,
                    "duration_s": task.duration_s,
                    "model": model,
                    "mean_error": _plain(mean_error[number]),
                    "instance_error": _plain(instance_error[number]),
                    "coverage": None if model == "wall time" else float(covered[number]),
                }
            )
    return rows


def _coverage(case: Case, runs: Sequence[Sequence[CaseResult]]) -> Row:
    scores = np.array([run[0].score for run in runs])
    covered = np.array([run[0].covered for run in runs])
    share = float(covered.mean())
    # Intervals of one run go with each other: the uncertainty is that of runs.
    error = float(covered.mean(axis=1).std() / np.sqrt(len(runs)))
    tasks = [
        {
            "task": task.name,
            "coverage": float(covers.mean()),
            "score_mean": float(of.mean()),
            "score_std": float(of.std()),
        }
        for task, covers, of in zip(case.tasks, covered.T, scores.T, strict=True)
    ]
    return {
        "key": case.key, "coverage": share, "coverage_error": error, "intervals": covered.size,
        "runs": len(runs), "tasks": tasks,
    }  # fmt: skip


def _tables(model: Coefficients) -> dict[str, Any]:
    turbo = replace(PACKAGE, turbo=True)
    harsh = replace(PACKAGE, law=replace(PACKAGE.law, scatter=3 * PACKAGE.law.scatter))
    return {
        "2": kernel_pairs.table_2(PACKAGE, model, seed=TABLES_SEED),
        "3": kernel_pairs.table_3(PACKAGE, model, seed=TABLES_SEED),
        "3 on four cores": kernel_pairs.table_3(PACKAGE, model, cores=4, seed=TABLES_SEED),
        "3 with turbo": kernel_pairs.table_3(turbo, model, seed=TABLES_SEED),
        "3 with instructions that differ by 30 %": kernel_pairs.table_3(harsh, calibrate(harsh)[0], seed=TABLES_SEED),
        "4": kernel_pairs.table_4(PACKAGE, model, seed=TABLES_SEED),
        "published": {"2": published.table_2(), "3": published.table_3(), "4": published.table_4()},
    }


def _draw(seed: int) -> Row:
    """Return the errors of pairs where instructions of each kernel, the calibration's too, take other than they did."""
    random = np.random.default_rng((TABLES_SEED, seed))
    model, _ = calibrate(PACKAGE, redrawn(STRESS, random))
    kernels = redrawn(POLYBENCH, random)
    return {
        "3": [abs(row["slice_error"]) for row in kernel_pairs.table_3(PACKAGE, model, kernels=kernels, seed=seed)],
        "4": [abs(row["slice_error"]) for row in kernel_pairs.table_4(PACKAGE, model, kernels=kernels, seed=seed)],
    }


def _root_mean_square(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.asarray(np.sqrt(np.mean(np.square(values), axis=0)))


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
