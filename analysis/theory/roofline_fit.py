"""Finds a machine from runs of known flops and bytes: times by equation (3), joules by equation (9).

Times: runs well below the balance point are memory's, those well above the flops'; of each group the median counts,
since what disturbs a run only ever slows it. Runs within a factor of two of the balance point are left out: real
machines overlap worst there (the paper's section IV-B). Where the point lies follows from the result, so this is
repeated until it stays.

Joules: E/W = eps + eps_mem Q/W + pi0 T/W, with eps of the run's precision (the paper has that of single precision and
what double adds), by least squares of relative errors, none of them negative. pi0 is separable only by runs
on both sides of the balance point: on each side alone T follows Q or W.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import lsq_linear
from scipy.stats import median_abs_deviation
from scipy.stats import t as student

from tprof.errors import UsageError
from tprof.trace.plain_values import counted

from .roofline import Machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .roofline import Floats

RIDGE = 2.0
ROUNDS = 20
MEDIAN_ERROR = (np.pi / 2) ** 0.5  # of the median, in errors of the mean
LEAST_SPARE = 3
"""Runs with an energy that there must be beyond the number of coefficients."""


@dataclass(frozen=True)
class Runs:
    """The runs; all (n,).

    Attributes
    ----------
    flops, traffic_bytes : W and Q.
    time_s : how long it took.
    energy_j : what it took; NaN where no sensor measured it.
    double : whether in double precision (the paper's R).
    """

    flops: Floats
    traffic_bytes: Floats
    time_s: Floats
    energy_j: Floats
    double: NDArray[np.bool_]

    def __len__(self) -> int:
        """Count them."""
        return len(self.flops)

    def where(self, kept: NDArray[np.bool_]) -> Runs:
        """Return those that are kept."""
        return Runs(*(getattr(self, field.name)[kept] for field in fields(self)))


@dataclass(frozen=True)
class Estimate:
    """A coefficient with its 95 % interval; `low` and `high` are NaN if a single run determines it."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fitted:
    """A fitted machine, and the uncertainty of the fit.

    Attributes
    ----------
    machine : without energies where no run had any.
    estimates : of its numbers.
    time_error, energy_error : root mean square relative errors of the model on these runs; energy_error None without.
    r2 : of equation (9), E/W; None without energies.
    runs, energy_runs : how many were fitted.
    warnings : what a reader must know.
    """

    machine: Machine
    estimates: tuple[Estimate, ...]
    time_error: float
    energy_error: float | None
    r2: float | None
    runs: int
    energy_runs: int
    warnings: tuple[str, ...]


def fit_machine(runs: Runs, name: str = "this machine", *, cap_w: float | None = None) -> Fitted:
    """Fit a machine to runs.

    Parameters
    ----------
    runs
        In one or both precisions, with intensities on both sides of the balance point.
    name, cap_w
        Of the machine.

    Raises
    ------
    UsageError
        If a time, a number of flops or of bytes is not positive, or all intensities lie on one side.
    """
    _check(runs)
    times = _fit_times(runs)
    taus = {key: one.value for key, one in times.items()}
    machine = Machine(
        name,
        taus["tau_mem_s"],
        taus.get("tau_single_s"),
        taus.get("tau_double_s"),
        cap_w=cap_w,
        precision="double" if runs.double.any() else "single",
    )
    time_error = _rms(np.concatenate([_model_s(machine, part, one) / part.time_s - 1 for one, part in _parts(runs)]))
    fitted = Fitted(machine, tuple(times.values()), time_error, None, None, len(runs), 0, ())
    measured = runs.where(np.isfinite(runs.energy_j) & (runs.energy_j > 0))
    return _with_energies(fitted, measured) if len(measured) else fitted


def _check(runs: Runs) -> None:
    for name in ("flops", "traffic_bytes", "time_s"):
        values = getattr(runs, name)
        if not len(values) or not (np.isfinite(values) & (values > 0)).all():
            raise UsageError(f"a fit needs runs whose {name} are all above 0")


def _parts(runs: Runs) -> list[tuple[str, Runs]]:
    both = [("single", runs.where(~runs.double)), ("double", runs.where(runs.double))]
    return [(name, part) for name, part in both if len(part)]


def _model_s(machine: Machine, part: Runs, precision: str) -> Floats:
    return machine.at(precision).time_s(part.flops, part.traffic_bytes)


def _fit_times(runs: Runs) -> dict[str, Estimate]:
    """Return tau_mem_s and the tau of each precision that there is."""
    parts = _parts(runs)
    tau_mem = float((runs.time_s / runs.traffic_bytes).min())
    tau = {name: float((part.time_s / part.flops).min()) for name, part in parts}
    for _ in range(ROUNDS):
        memory, compute = [], {}
        for name, part in parts:
            # Intensity of a run relative to the balance point.
            at = part.flops / part.traffic_bytes * tau[name] / tau_mem
            memory.append((part.time_s / part.traffic_bytes)[at < 1 / RIDGE])
            compute[name] = (part.time_s / part.flops)[at > RIDGE]
        _check_sides(np.concatenate(memory), compute)
        found = {"tau_mem_s": _middle("tau_mem_s", np.concatenate(memory))}
        found |= {f"tau_{name}_s": _middle(f"tau_{name}_s", values) for name, values in compute.items()}
        before = (tau_mem, *tau.values())
        tau_mem, tau = found["tau_mem_s"].value, {name: found[f"tau_{name}_s"].value for name in compute}
        if before == (tau_mem, *tau.values()):
            break
    return found


def _check_sides(memory: Floats, compute: dict[str, Floats]) -> None:
    if not len(memory) or not all(len(values) for values in compute.values()):
        raise UsageError(
            "the runs do not reach both sides of the balance point: add some of lower and of higher intensity "
            f"(flops a byte) in {' and '.join(compute)} precision"
        )


def _middle(name: str, values: Floats) -> Estimate:
    logs = np.log(values)
    middle, n = float(np.median(logs)), len(logs)
    spread = float(median_abs_deviation(logs, scale="normal"))
    half = student.ppf(0.975, n - 1) * MEDIAN_ERROR * spread / n**0.5 if n > 1 else np.nan
    return Estimate(name, float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half)))


def _with_energies(fitted: Fitted, runs: Runs) -> Fitted:
    names, columns = _columns(runs)
    if len(runs) < len(names) + LEAST_SPARE:
        text = (
            f"only {counted(len(runs), 'run has', 'runs have')} an energy, and {len(names) + LEAST_SPARE} "
            f"are needed: times only"
        )
        return replace(fitted, energy_runs=len(runs), warnings=(*fitted.warnings, text))
    values, half = _solve(columns, runs.energy_j / runs.flops)
    estimates = tuple(
        Estimate(name, *map(float, three))
        for name, *three in zip(names, values, values - half, values + half, strict=True)
    )
    fitted = replace(fitted, estimates=(*fitted.estimates, *_with_added(estimates)), energy_runs=len(runs))
    zero = [one.name for one in estimates if one.value <= 0 and one.name.startswith(("eps_single", "eps_double"))]
    if zero:
        text = f"{zero[0]} came out as 0, so the runs do not separate energies: run longer, on an idle machine"
        return replace(fitted, warnings=(*fitted.warnings, text))
    found = {one.name: one.value for one in estimates}
    model = columns @ values
    per_flop = runs.energy_j / runs.flops
    unclear = tuple(f"{one.name} may be 0: its interval reaches it" for one in estimates if one.low <= 0 < one.high)
    return replace(
        fitted,
        machine=replace(
            fitted.machine,
            eps_mem_j=found["eps_mem_j"],
            eps_single_j=found.get("eps_single_j"),
            eps_double_j=found.get("eps_double_j"),
            pi0_w=found["pi0_w"],
        ),
        energy_error=_rms(model / per_flop - 1),
        r2=float(1 - ((per_flop - model) ** 2).sum() / ((per_flop - per_flop.mean()) ** 2).sum()),
        warnings=(*fitted.warnings, *unclear),
    )


def _columns(runs: Runs) -> tuple[list[str], Floats]:
    """Return the names of equation (9)'s coefficients, and their columns, (n, k)."""
    eps = {f"eps_{name}_j": runs.double == (name == "double") for name, _ in _parts(runs)}
    others = {"eps_mem_j": runs.traffic_bytes / runs.flops, "pi0_w": runs.time_s / runs.flops}
    both = {**eps, **others}
    return list(both), np.column_stack([np.asarray(values, float) for values in both.values()])


def _solve(columns: Floats, per_flop: Floats) -> tuple[Floats, Floats]:
    """Return coefficients of 0 or more that make relative errors least, and half of their 95 % intervals."""
    weight = 1 / per_flop
    for _ in range(3):
        rows = columns * weight[:, None]
        # Columns of like size: joules and watts are many powers of ten apart.
        size = np.linalg.norm(rows, axis=0)
        found = lsq_linear(rows / size, per_flop * weight, bounds=(0, np.inf), tol=1e-14)
        values = np.asarray(found.x / size)
        weight = 1 / np.maximum(columns @ values, 1e-3 * per_flop)
    free = len(per_flop) - columns.shape[1]
    rows = columns * weight[:, None] / size
    left = per_flop * weight - rows @ (values * size)
    covariance = np.linalg.pinv(rows.T @ rows) * float(left @ left) / free
    return values, student.ppf(0.975, free) * np.sqrt(np.diag(covariance)) / size


def _with_added(estimates: tuple[Estimate, ...]) -> tuple[Estimate, ...]:
    """Return the additional cost of a double-precision flop, as in the paper; its interval assumes independence."""
    by_name = {one.name: one for one in estimates}
    if not {"eps_single_j", "eps_double_j"} <= set(by_name):
        return estimates
    single, double = by_name["eps_single_j"], by_name["eps_double_j"]
    half = float(np.hypot(single.high - single.value, double.high - double.value))
    added = double.value - single.value
    return (*estimates, Estimate("delta_double_j", added, added - half, added + half))


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))
