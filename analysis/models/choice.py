"""Chooses a power model that the trace supports, and states the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.errors import UsageError

from . import linear, uncalibrated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .fitted import Fit
    from .linear import Stored

Floats = NDArray[np.float64]
MUCH = 10.0
"""Difference of the Bayesian information criterion that counts as very strong evidence."""
NAMES = ("auto", "linear", "fitted", "fesc", "ipc", "cputime")


@dataclass(frozen=True)
class Chosen:
    """A chosen model: modelled(counts, cpu_s) returns the modelled energy per segment."""

    name: str
    why: str
    columns: tuple[str, ...]
    modelled: Callable[[Mapping[str, Floats], Floats], Floats]
    coefficients: linear.Coefficients | None = None
    base: str | None = None
    stored: Stored | None = None

    def fitted(self, asked: str, fits: Mapping[str, Fit], qualities: Sequence[str]) -> Chosen:
        """Return the model with fitted powers per task, or this one if `auto` gains nothing by them.

        Raises
        ------
        UsageError
            If "fitted" was requested and nothing can be fitted.
        """
        if asked == "fitted" and not fits:
            if "estimated" in qualities:
                msg = (
                    'model "fitted" finds what a sensor measured, and these joules are an estimate that gives every '
                    'busy core the same watts: take model="cputime"'
                )
            else:
                msg = (
                    'model "fitted" needs 30 readings of the sensor and three for each task: record for longer, '
                    'or take model="cputime"'
                )
            raise UsageError(msg)
        gain = sum(fit.gain for fit in fits.values())
        if not fits or (asked == "auto" and gain <= MUCH):
            return self
        base = self.base or self.name
        why = f"powers of tasks were fitted to the sensor's readings, correcting {base}"
        if asked == "auto":
            why += f", and distinguish tasks better than {base} alone"
        return replace(self, name="fitted", why=why, base=base)


def needs_fit(asked: str, model: Chosen) -> bool:
    """Return whether to fit powers: on request, or for `auto` without a calibration."""
    return asked == "fitted" or (asked == "auto" and model.name != "linear")


def choose_model(
    name: str,
    present: frozenset[str],
    coefficients: str | Mapping[str, float] | linear.Coefficients | None = None,
    stored: Stored | None = None,
) -> Chosen:
    """Return the requested model, or for "auto" the best one that the counters support.

    The order is linear (calibrated), fesc, ipc, cputime: the paper (3.4) finds FESC the better
    linear fit of core power, IPC a relatively good one.

    Parameters
    ----------
    name : one of "auto", "linear", "fitted", "fesc", "ipc", "cputime"
    present : counter columns that the trace has
    coefficients : for "linear": "tprof-table1", or a mapping of a, b, c, C1, C2 in watts
    stored : the calibrated model in the trace, used if no coefficients are given

    Raises
    ------
    UsageError
        If the name is unknown, or the trace lacks a column that the model needs.
    """
    if name not in NAMES:
        msg = f'model must be one of {", ".join(NAMES)}; got "{name}"'
        raise UsageError(msg)
    stored = stored if coefficients is None else None
    known = linear.coefficients_of(coefficients) if coefficients is not None else None
    if stored is not None:
        known = stored.coefficients
    chosen = _chosen(name, present, known, stored)
    if stored is None:
        return chosen
    if chosen.coefficients is not None:
        return replace(chosen, stored=stored)
    missing = ", ".join(column for column in stored.coefficients.columns if column not in present)
    unused = f"; the model {stored.why} needs the counters {missing}, which this trace lacks" if missing else ""
    return replace(chosen, why=chosen.why + unused)


def _chosen(name: str, present: frozenset[str], known: linear.Coefficients | None, stored: Stored | None) -> Chosen:
    if name == "fitted":
        best = _best(present, known, stored)
        return replace(best, name="fitted", why=f"you asked for it, correcting {best.name}", base=best.name)
    if name != "auto":
        model = _named(name, known, "you asked for it" + (f"; {stored.why}" if stored and name == "linear" else ""))
        missing = [column for column in model.columns if column not in present]
        if missing:
            msg = (
                f'model "{name}" needs the counters {", ".join(missing)}, which this trace lacks: '
                f'record again with counters={list(model.columns)!r}, or take model="auto"'
            )
            raise UsageError(msg)
        return model
    return _best(present, known, stored)


def _best(present: frozenset[str], known: linear.Coefficients | None, stored: Stored | None) -> Chosen:
    if known is not None and set(known.columns) <= present:
        why = "coefficients were given and the trace has the counters they need" if stored is None else stored.why
        return _named("linear", known, why)
    if set(uncalibrated.FESC_COLUMNS) <= present:
        return _named("fesc", None, "front-end stalls are recorded and fit core power better than IPC")
    if set(uncalibrated.IPC_COLUMNS) <= present:
        return _named("ipc", None, "instructions and cycles are recorded, front-end stalls are not")
    return _named("cputime", None, "the trace has no counters that a better model could use")


def _named(name: str, known: linear.Coefficients | None, why: str) -> Chosen:
    if name == "linear":
        if known is None:
            msg = (
                'model "linear" needs coefficients: record after "tprof calibrate", or give '
                'coefficients="tprof-table1" or your own a, b, c, C1, C2'
            )
            raise UsageError(msg)
        return Chosen(name, why, known.columns, partial(linear.modelled, known), known)
    if name == "fesc":
        return Chosen(name, why, uncalibrated.FESC_COLUMNS, uncalibrated.fesc)
    if name == "ipc":
        return Chosen(name, why, uncalibrated.IPC_COLUMNS, uncalibrated.ipc)
    return Chosen(name, why, (), uncalibrated.cputime)
