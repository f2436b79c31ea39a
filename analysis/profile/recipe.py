"""How a trace's joules are shared: decided once from its readings, before its samples are read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.idle_power import idle_powers
from tprof.analysis.attribution.meter_delay import SOURCE as METER
from tprof.analysis.attribution.meter_delay import MeterDelay, aligned, find_delay
from tprof.analysis.attribution.overlaps import distribute_energy, split_overlaps
from tprof.analysis.attribution.quanta import GPU, Quanta, build_quanta
from tprof.analysis.attribution.sharing import Sharing, plan_sharing, split_static, static_watts
from tprof.analysis.models import Chosen, Coefficients, choose_model, stored_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.models.fitted import Fit

    from tprof.trace import Trace

    Factors = Sequence[NDArray[np.float64]] | None
    """For each thread, then for each pool, of their segments' power relative to their tasks'; None: 1."""
    Again = Callable[[Activity, Sequence[NDArray[np.int64]]], Sharing]
    """Shares among pieces, given for each thread of which segment each piece is."""


@dataclass(frozen=True)
class Recipe:
    """All inputs for sharing a trace's joules, which can be repeated.

    Attributes
    ----------
    model : power model
    quanta : of all domains, from the start of the recorded block to its end
    whole : the same from each domain's first reading to its last, for fitting powers and static power
    recorded : the same of the whole recording, of which the trace may be a window
    packages : their numbers
    static_power_w : by domain, if known
    static_error_w : standard errors of the static power that this recording shows itself
    calibrated : domains whose static power is known by a calibration only
    delays : by which the readings of external meters were moved
    problems : sentences on a stored power model that cannot be used
    attribute_native : whether native threads' CPU time goes to the tasks that use them
    fits : by domain, if the model was fitted
    rejected : fits that explain the readings no better than the model, by domain
    """

    model: Chosen
    quanta: tuple[Quanta, ...]
    whole: tuple[Quanta, ...]
    recorded: tuple[Quanta, ...]
    packages: tuple[int, ...]
    static_power_w: dict[str, float]
    static_error_w: dict[str, float]
    calibrated: frozenset[str]
    delays: dict[str, MeterDelay]
    problems: tuple[str, ...]
    attribute_native: bool = True
    fits: dict[str, Fit] = field(default_factory=dict)
    rejected: dict[str, Fit] = field(default_factory=dict)

    @property
    def static_share(self) -> float:
        """Standard error of the counted domains' static power that is not fitted, relative to all of it."""
        counted = [one.name for one in self.quanta if one.counted and one.scope != GPU]
        watts = sum(self.static_power_w.get(name, 0.0) for name in counted)
        error_w = math.hypot(*(self.static_error_w.get(name, 0.0) for name in counted))
        return error_w / watts if watts > 0 else 0.0

    @property
    def idles(self) -> tuple[Quanta, ...]:
        """Domains whose calibrated static power gives way to the power of idle quanta, if there are any.

        A calibrated C2 holds for its own frequency and temperature. Idle time before the block says more.
        """
        return tuple(domain for domain in self.whole if domain.name in self.calibrated and len(domain))

    def idled(self, idle_w: Mapping[str, float | None]) -> Recipe:
        """Return the recipe with the power of idle quanta, by domain, where that is known."""
        found = {name: watts for name, watts in idle_w.items() if watts is not None}
        return replace(self, static_power_w=self.static_power_w | found)

    def without(self, fits: dict[str, Fit]) -> Recipe:
        """Return the recipe with what fits found that are not used: doubts, and static power that nothing else says."""
        found = {name: fit for name, fit in fits.items() if name not in self.static_power_w}
        return replace(
            self,
            rejected=fits,
            static_power_w=self.static_power_w | {name: fit.level_w for name, fit in found.items()},
            static_error_w=self.static_error_w | {name: fit.static_error_w for name, fit in found.items()},
        )


def repeatable(
    activity: Activity, factors: Factors, share: Callable[[Activity, Factors], Sharing]
) -> tuple[Sharing, Again]:
    """Return the shares of what ran, and what computes them among pieces of threads' segments.

    Edges of quanta stay where they are, since a sensor was read when it was, and a piece has the factor of its segment.
    Segments of native threads are not cut.
    """

    def again(pieces: Activity, owners: Sequence[NDArray[np.int64]]) -> Sharing:
        if factors is None:
            return share(pieces, None)
        of_threads = (one[owner] for one, owner in zip(factors, owners, strict=False))
        return share(pieces, (*of_threads, *factors[len(owners) :]))

    return share(activity, factors), again


def share_fitted(domain: Quanta, fit: Fit, activity: Activity, factors: Factors) -> Sharing:
    """Share the joules of quanta that do not overlap by fitted powers; the parameters are those of the next one."""
    return plan_sharing(activity.load(domain).corrected(fit.power, factors), fit.static_w, fit.other)


def share_overlapping(domain: Quanta, fit: Fit, own: slice, activity: Activity, factors: Factors) -> Sharing:
    """Share the joules of quanta that overlap.

    Parameters
    ----------
    domain : the quanta with estimated edges
    fit : with the static power of these quanta
    own : the quanta whose joules are shared, up to the end of the overlap with the next one
    activity : what ran in them
    factors : of the segments; None: 1
    """
    static_j, dynamic_j = split_static(domain.energy_j, fit.static_w, np.diff(domain.edges_ns) * 1e-9)
    split = split_overlaps(domain)
    pieces = activity.load(split.pieces).corrected(fit.power, factors)
    load = distribute_energy(split, pieces, dynamic_j, fit.other)
    is_own = (split.before >= own.start) & (split.before < own.stop)
    load = replace(load, quanta=replace(load.quanta, energy_j=np.where(is_own, load.quanta.energy_j, 0.0)))
    number = np.arange(len(domain))
    static_j = np.where((number >= own.start) & (number < own.stop), static_j, 0.0)
    sharing = plan_sharing(load, 0.0, fit.other)
    sharing = replace(sharing, measured=domain, owner=split.owner, dynamic_j=dynamic_j)
    return sharing.with_static(activity.load(domain), static_j)


def prepare(
    trace: Trace,
    model: str,
    coefficients: str | Mapping[str, float] | Coefficients | None,
    max_power_w: float | None,
    *,
    attribute_native: bool,
) -> Recipe:
    """Choose a model, and read the readings of all sensors; the parameters are those of `build_profile`."""
    present = frozenset(column for thread in trace.threads for column in thread.columns)
    stored, stored_problem = stored_model(trace.manifest.get("power_model"))
    chosen = choose_model(model, present, coefficients, stored)
    whole_trace = trace.recorded or trace
    readings = sorted((r for r in trace.readings.values() if r.quantity == "energy"), key=lambda r: r.name)
    delays = {one.name: find_delay(one, whole_trace.threads) for one in readings if one.source == METER}
    readings = [aligned(one, delays[one.name]) if one.name in delays else one for one in readings]
    recorded = tuple(build_quanta(reading, max_power_w) for reading in readings)
    # Only in the window that a trace may be it is known what ran.
    whole = recorded if trace.recorded is None else tuple(one.between(*trace.reach_ns)[0] for one in recorded)
    idle, known_w = idle_powers(recorded, whole_trace), static_watts(trace.manifest)
    c2_w = 0.0 if chosen.coefficients is None else chosen.coefficients.c2
    calibrated_w = {one.name: c2_w for one in recorded if one.scope == "package" and c2_w > 0}
    problems = (trace.manifest.get("power_model_problem"), stored_problem)
    return Recipe(
        chosen,
        tuple(domain.between(trace.start_ns, trace.end_ns)[0] for domain in whole),
        whole,
        recorded,
        tuple(sorted({one.package for one in recorded if one.package is not None})),
        calibrated_w | {name: one.watts for name, one in idle.items()} | known_w,
        {one.name: idle[one.name].error_w for one in recorded if one.name in idle and one.scope != GPU},
        frozenset(calibrated_w.keys() - idle.keys() - known_w.keys()),
        delays,
        tuple(text for text in problems if isinstance(text, str)),
        attribute_native,
    )
