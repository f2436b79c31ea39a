"""The paper's tables 2, 3 and 4 on the virtual processor: what the model gave each kernel beside what it drew.

The model is equation 1, fitted to stress kernels that run on several virtual cores at once, a phase each.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.models.calibration import fit, observe

from benchmarks import published
from benchmarks.simulator import ICE_LAKE, POLYBENCH, STRESS, Run, length_s, side_by_side, write
from benchmarks.simulator.schedule import IDLE_S
from tprof.trace import load_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray
    from tprof.analysis import Coefficients, Profile
    from tprof.analysis.models.calibration import Observations

    from benchmarks.simulator import Kernel, Package, Truth
    from tprof.trace import Trace

    Row = dict[str, Any]
    Kernels = tuple[Kernel, ...]

RUN_S = 2.0
INSTANCE_S = 0.01
PHASE_S = 0.25
SEED = 1000


def _pairs_of(rows: Sequence[Row]) -> tuple[tuple[str, ...], ...]:
    """Return the kernels of each pair of a published table."""
    numbers = dict.fromkeys(row["pair"] for row in rows)
    return tuple(tuple(str(row["kernel"]) for row in rows if row["pair"] == number) for number in numbers)


TABLE_3, TABLE_4 = _pairs_of(published.table_3()), _pairs_of(published.table_4())


def table_2(package: Package, model: Coefficients, *, seed: int) -> list[Row]:
    """Return by how much the model misses the package's power with one and with four cores."""
    kernels = POLYBENCH[: len(published.table_2())]
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        seen = Phases(kernels, busy=(1, 4)).observed(Path(folder) / "kernels.tprof", package, seed=seed)
    error = np.abs(predicted_w(model, seen) / seen.power_w - 1).reshape(-1, 2)
    return [
        {"kernel": one.name, "single_core_error": float(single), "quad_core_error": float(quad)}
        for one, (single, quad) in zip(kernels, error, strict=True)
    ]


def table_3(
    package: Package, model: Coefficients, *, cores: int = 2, kernels: Kernels = POLYBENCH, seed: int
) -> list[Row]:
    """Return what each kernel of the five pairs drew and was given, on two cores, or twice each on four."""
    return _paired(package, model, _named(TABLE_3, kernels), cores=cores, seed=seed)


def table_4(
    package: Package, model: Coefficients, *, cores: int = 2, kernels: Kernels = POLYBENCH, seed: int
) -> list[Row]:
    """Return the same at the lowest frequency, by the model of the highest."""
    slow = replace(package, set_hz=published.LOWEST_HZ)
    return _paired(slow, model, _named(TABLE_4, kernels), cores=cores, seed=seed)


def _named(pairs: Sequence[tuple[str, ...]], kernels: Kernels) -> list[Kernels]:
    by_name = {one.name: one for one in kernels}
    return [tuple(by_name[name] for name in pair) for pair in pairs]


def _paired(package: Package, model: Coefficients, pairs: Sequence[Kernels], *, cores: int, seed: int) -> list[Row]:
    rows: list[Row] = []
    for number, pair in enumerate(pairs, 1):
        found = _pair(package, model, pair, cores=cores, seed=seed + number)
        rows.extend({"pair": number, **row} for row in found)
    return rows


def _pair(package: Package, model: Coefficients, pair: Kernels, *, cores: int, seed: int) -> list[Row]:
    runs = [[place % len(pair) for place in range(cores)]]
    schedule = side_by_side(runs, instance_s=INSTANCE_S, phase_s=RUN_S, idle_s=IDLE_S)
    run = Run(package, pair, schedule, length_s(1, RUN_S, IDLE_S))
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        path = Path(folder) / "pair.tprof"
        truth = write(path, [one.name for one in pair], run, sensor=ICE_LAKE, seed=seed)
        profile = load_session(path).profile(model="linear", coefficients=model)
    return [_row(one.name, place, profile, truth, model) for place, one in enumerate(pair)]


def _row(name: str, place: int, profile: Profile, truth: Truth, model: Coefficients) -> Row:
    table = profile.tasks
    own = table[table["task"] == name]
    here = truth.task == place
    time_s = truth.duration_s[here].sum()
    real_w = truth.dynamic_j[here].sum() / time_s
    share = own["dynamic_j"].sum() / table["dynamic_j"].sum()
    slice_w = own["dynamic_j"].sum() / time_s
    return {
        "kernel": name,
        "real_w": float(real_w),
        "share": float(share),
        "slice_w": float(slice_w),
        "slice_error": float(slice_w / real_w - 1),
        "share_error": float(share / (truth.dynamic_j[here].sum() / truth.dynamic_j.sum()) - 1),
        "model_w": _model_w(own, model),
        "model_error": _model_w(own, model) / float(real_w) - 1,
    }


def _model_w(own: pd.DataFrame, model: Coefficients) -> float:
    """Return the per-core term of equation 1 from what was counted, without the sensor."""
    time_s = own["duration_s"].sum()
    ipc = own["instructions"].sum() / own["cycles"].sum()
    l2_gbs, llc_gbs = (own[name].sum() * 64e-9 / time_s for name in ("l2_refs", "llc_refs"))
    return float(model.c1 + model.a * ipc + model.b * l2_gbs + model.c * llc_gbs)


@dataclass(frozen=True)
class Phases:
    """A session of phases: each kernel on each number of cores."""

    kernels: Sequence[Kernel]
    busy: Sequence[int] = (1, 2, 3, 4)
    phase_s: float = PHASE_S

    @property
    def names(self) -> list[str]:
        """Of the tasks."""
        return [f"{kernel.name}@{busy}" for kernel in self.kernels for busy in self.busy]

    def observed(self, path: Path, package: Package, *, seed: int) -> Observations:
        """Run them and return what was observed, the idle time before them left out."""
        seen = observe(self.record(path, package, seed=seed))
        return seen.where(seen.active_cores > 0)

    def record(self, path: Path, package: Package, *, seed: int) -> Trace:
        """Run them on a package and write the trace."""
        runs = [[place] * busy for place, busy in enumerate(list(self.busy) * len(self.kernels))]
        cores = side_by_side(runs, instance_s=self.phase_s, phase_s=self.phase_s, idle_s=IDLE_S)
        kernels = [kernel for kernel in self.kernels for _ in self.busy]
        run = Run(package, kernels, cores, length_s(len(runs), self.phase_s, IDLE_S))
        write(path, self.names, run, sensor=ICE_LAKE, seed=seed)
        return load_session(path)


def predicted_w(model: Coefficients, seen: Observations) -> NDArray[np.float64]:
    """Return the package's power by equation 1."""
    return np.asarray(
        model.a * seen.ipc + model.b * seen.l2_gbs + model.c * seen.llc_gbs + model.c1 * seen.active_cores + model.c2
    )


def calibrate(package: Package, kernels: Sequence[Kernel] = STRESS) -> tuple[Coefficients, dict[str, Any]]:
    """Calibrate on stress kernels, none of which is validated; returns the model and how well it fits, plain."""
    with tempfile.TemporaryDirectory(prefix="tprof-validate-") as folder:
        seen = Phases(kernels).observed(Path(folder) / "calibration.tprof", package, seed=SEED)
    calibration = fit(seen)
    model = calibration.coefficients
    error = predicted_w(model, seen) / seen.power_w - 1
    goodness = {
        "a": model.a, "b": model.b, "c": model.c, "C1": model.c1, "C2": model.c2,
        "runs": len(seen), "mean_error": float(np.abs(error).mean()), "worst_error": float(np.abs(error).max()),
        "left_out_error": calibration.goodness.left_out_error,
    }  # fmt: skip
    return model, goodness
