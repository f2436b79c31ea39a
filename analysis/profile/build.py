"""Builds a profile: reads the threads, chooses or fits a model, shares every domain's joules, makes the tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.attribution.accounts import Account, GpuTotals, NativeTotals, Totals, settle
from tprof.analysis.attribution.gpu import SCOPE as GPU
from tprof.analysis.attribution.gpu import gpu_use, idle_watts, settle_gpu
from tprof.analysis.attribution.instances import join_rows
from tprof.analysis.attribution.load import read_activity
from tprof.analysis.attribution.meter_delay import SOURCE as METER
from tprof.analysis.attribution.meter_delay import aligned, delay_warning, find_delay
from tprof.analysis.attribution.overlaps import distribute_energy, has_overlaps, split_overlaps
from tprof.analysis.attribution.quanta import Quanta, build_quanta
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.sharing import Sharing, plan_sharing, split_static, static_watts
from tprof.analysis.models import Chosen, Coefficients, choose_model, needs_fit, stored_model
from tprof.analysis.models.fitted import Belief, fit_powers
from tprof.analysis.models.fitted.edges import estimate_edges
from tprof.analysis.models.fitted.powers import mean_errors
from tprof.analysis.names import places, shown

from tprof.trace import Quality
from tprof.trace.estimate import EXACT, most_watts, watts_error

from .intervals import common_error
from .native_threads import NativeBounds, native_facts, native_warnings
from .profile import Profile
from .profile_warnings import fit_warnings, gpu_warnings, sample_warnings, stuck_sensor_warnings, unread_warnings
from .provenance import describe
from .tables import tasks_table
from .task_graph import lifecycle_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.instances import InstanceRows, Joined
    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.models.fitted import Fit

    from tprof.trace import Trace

NORMAL_95 = 1.96
CALIBRATED_STATIC_SHARE = 0.2
CALIBRATED_SPREAD = 3.0
"""Prior deviation of a task's power, in units of the calibrated model's own error."""


@dataclass(frozen=True)
class Recipe:
    """All inputs for sharing a trace's joules, which can be repeated.

    Attributes
    ----------
    model : power model
    quanta : of all domains, from the start of the recorded block to its end
    whole : the same from each domain's first reading to its last, for fitting powers and static power
    packages : their numbers
    static_power_w : by domain, if known
    fits : by domain, if the model was fitted
    attribute_native : whether native threads' CPU time goes to the tasks that use them
    """

    model: Chosen
    quanta: tuple[Quanta, ...]
    whole: tuple[Quanta, ...]
    packages: tuple[int, ...]
    static_power_w: dict[str, float]
    fits: dict[str, Fit]
    attribute_native: bool = True

    def read(self, trace: Trace) -> Activity:
        """Read what ran in the trace."""
        return read_activity(trace, self.model, self.packages, attribute_native=self.attribute_native)

    def plan(self, domain: Quanta, activity: Activity) -> Sharing:
        """Compute the shares of a domain's joules."""
        fit = self.fits.get(domain.name)
        if fit is None:
            return plan_sharing(activity.load(domain), self.static_power_w.get(domain.name, 0.0))
        domain = domain.earlier(fit.late_s)
        if not has_overlaps(domain):
            return plan_sharing(activity.load(domain).corrected(fit.power, fit.factors), fit.static_w, fit.other)
        split = split_overlaps(domain)
        pieces = activity.load(split.pieces).corrected(fit.power, fit.factors)
        domain = estimate_edges(split, pieces, fit.static_w, fit.other, fit.own_w)
        static_j, dynamic_j = split_static(domain.energy_j, fit.static_w, np.diff(domain.edges_ns) * 1e-9)
        split = split_overlaps(domain)
        pieces = activity.load(split.pieces).corrected(fit.power, fit.factors)
        sharing = plan_sharing(distribute_energy(split, pieces, dynamic_j, fit.other), 0.0, fit.other)
        sharing = replace(sharing, measured=domain, owner=split.owner, dynamic_j=dynamic_j)
        return sharing.with_static(activity.load(domain), static_j)

    def again(self, trace: Trace) -> tuple[list[Segments], list[Sharing]]:
        """Read the trace once more and compute the shares of its counted domains, GPUs left out."""
        activity = self.read(trace)
        domains = [domain for domain in self.quanta if domain.counted and len(domain) and domain.scope != GPU]
        return activity.segments, [self.plan(domain, activity) for domain in domains]


def energy_by_domain(recipe: Recipe, trace: Trace) -> pd.DataFrame:
    """Share every domain's joules, those outside the total too: one row per task, a column per domain.

    Returns
    -------
    Index `task`, columns the domains' names: joules of all instances of the task, nested tasks left out; NaN if the
    domain measured none. The columns of domains that nest overlap: only those of the total may be added.
    """
    activity = recipe.read(trace)
    joined = join_rows([one.rows for one in activity.segments])
    names, places_of = places([shown(entry.name) for entry in trace.tasks])
    code = np.append(places_of, -1)[np.minimum(joined.rows.task, len(places_of))]
    known = code >= 0
    columns: dict[str, NDArray[np.float64]] = {}
    for domain in recipe.quanta:
        totals = Totals.zeros(len(joined.rows), NativeTotals.of(activity.pools, joined, len(trace.tasks)))
        columns[domain.name] = np.full(len(names), np.nan)
        if len(domain) and domain.valid.any():
            _settled(recipe, trace, domain, activity, joined, totals)
            energy_j = totals.dynamic_j + totals.static_j + (0.0 if totals.gpu is None else totals.gpu.joules)
            by_task = np.bincount(code[known], weights=energy_j[known], minlength=len(names))
            columns[domain.name] = by_task.astype(np.float64)
    return pd.DataFrame(columns, index=pd.Index(np.asarray(names, object), name="task"))


def build_profile(
    trace: Trace,
    *,
    model: str = "auto",
    coefficients: str | Mapping[str, float] | Coefficients | None = None,
    max_power_w: float | None = None,
    attribute_native: bool = True,
) -> Profile:
    """Attribute a trace's joules to its tasks.

    Parameters
    ----------
    trace : from `tprof.load`
    model : "auto", "linear", "fitted", "fesc", "ipc" or "cputime"
    coefficients : for "linear": "tprof-table1", or a mapping of a, b, c, C1, C2 in watts
    max_power_w : float, watts; an interval of a sensor that implies more is invalid (default 1000)
    attribute_native : whether the CPU time of native threads (BLAS, OpenMP, polars, …) goes to the tasks that use them;
        False: to `runtime`

    Raises
    ------
    UsageError
        If the model or its coefficients are unknown, or the trace lacks what it needs.
    """
    present = frozenset(column for thread in trace.threads for column in thread.columns)
    stored, stored_problem = stored_model(trace.manifest.get("power_model"))
    chosen = choose_model(model, present, coefficients, stored)
    readings = sorted((r for r in trace.readings.values() if r.quantity == "energy"), key=lambda r: r.name)
    delays = {one.name: find_delay(one, trace.threads) for one in readings if one.source == METER}
    readings = [aligned(one, delays[one.name]) if one.name in delays else one for one in readings]
    whole = tuple(build_quanta(reading, max_power_w) for reading in readings)
    quanta = tuple(domain.between(trace.start_ns, trace.end_ns)[0] for domain in whole)
    packages = tuple(sorted({q.package for q in quanta if q.package is not None}))
    known_w = static_watts(trace.manifest)
    static_w = _static_power(known_w, chosen, quanta) | _gpu_idle(whole, trace.start_ns, known_w)
    recipe = Recipe(chosen, quanta, whole, packages, static_w, {}, attribute_native)
    activity = recipe.read(trace)
    block_ns = (trace.start_ns, trace.end_ns)
    names = [entry.name for entry in trace.tasks]
    recipe = _fitted(_idled(recipe, known_w, activity), activity, block_ns, names, asked=model)
    rows, totals, accounts, stuck = _share(recipe, activity, trace)
    about_model = [
        text for text in (trace.manifest.get("power_model_problem"), stored_problem) if isinstance(text, str)
    ]
    warnings = [*trace.graph.notes, *trace.keys.notes, *about_model, *stuck]
    warnings += sample_warnings(activity, rows, recipe.model, has_keys=len(trace.keys) > 0)
    for domain in quanta:
        warnings += unread_warnings(domain, trace.start_ns, integrated=trace.readings[domain.name].integrated)
    warnings += fit_warnings(recipe.fits, names) + gpu_warnings(trace.gpu.notes)
    read = {domain.name for domain in whole if domain.valid.any()}
    warnings += [delay_warning(name) for name, delay in delays.items() if delay.delay_s is None and name in read]
    native = native_facts(activity.pools, totals.native, names)
    measured_j = sum(accounts[domain.name].measured_j for domain in quanta if domain.counted and len(domain))
    warnings += native_warnings(native, measured_j)
    info: dict[str, Any] = describe(trace, recipe, warnings) | {"native": native}
    info["meters"] = {name: asdict(delay) for name, delay in delays.items()} or None
    counted = [domain for domain in quanta if domain.counted and len(domain)]
    watts = common_error(counted, watts_error(trace.manifest)) if counted else EXACT
    only_estimated = all(domain.quality == Quality.ESTIMATED for domain in counted)
    most_w = most_watts(trace.manifest) if counted and only_estimated else np.inf
    info["static_power_w"] = recipe.static_power_w | {
        name: float(fit.static_w.mean()) for name, fit in recipe.fits.items()
    }
    errors_j = None
    if recipe.fits:
        errors_j = mean_errors(recipe.fits, activity.all_segments, rows, names)
        if totals.gpu is not None:
            errors_j = np.hypot(errors_j, _gpu_errors(totals.gpu, rows, names))
    threads = [one.thread for one in activity.segments]
    del activity
    tasks, half_j = tasks_table(trace, threads, rows, totals, watts, most_w)
    bounds = None if totals.native is None else NativeBounds.of(half_j, totals.native, names)
    if len(trace.graph):
        tasks = tasks.assign(**lifecycle_columns(trace, tasks))
    frame = pd.DataFrame([vars(account) for account in accounts.values()], columns=list(Account.__annotations__))
    frame["quality"] = [domain.quality for domain in quanta]
    tasks["quality"] = pd.Categorical.from_codes(np.zeros(len(tasks), np.int8), categories=pd.Index([info["quality"]]))
    return Profile(trace, tasks, frame.set_index("domain"), info, recipe, rows.own_s, errors_j, watts, bounds)


def _share(
    recipe: Recipe, activity: Activity, trace: Trace
) -> tuple[InstanceRows, Totals, dict[str, Account], list[str]]:
    """Share the joules of all domains: returns the instances, their joules, the accounts, and warnings."""
    joined = join_rows([one.rows for one in activity.segments])
    for one, place in zip(activity.segments, joined.places, strict=True):
        if isinstance(place, slice):
            one.rows = joined.rows.view(place)  # frees each thread's own copy, as large as all its columns
    totals = Totals.zeros(len(joined.rows), NativeTotals.of(activity.pools, joined, len(trace.tasks)))
    accounts = {domain.name: Account(domain.name, *[float("nan")] * 7) for domain in recipe.quanta}
    stuck = []
    for domain in recipe.quanta:
        if len(domain):
            counted = totals if domain.counted else None
            accounts[domain.name], warnings = _settled(recipe, trace, domain, activity, joined, counted)
            stuck += warnings
    return joined.rows, totals, accounts, stuck


def _settled(
    recipe: Recipe, trace: Trace, domain: Quanta, activity: Activity, joined: Joined, totals: Totals | None
) -> tuple[Account, list[str]]:
    """Share one domain's joules: a GPU's by the time in which it worked, others by the load of processors."""
    if domain.scope == GPU:
        use, idle_w = gpu_use(trace, domain.name), recipe.static_power_w.get(domain.name)
        return settle_gpu(domain, use, idle_w, activity.segments, joined, totals)
    plan = recipe.plan(domain, activity)
    account = settle(plan, activity.segments, activity.pools, joined, totals)
    return account, stuck_sensor_warnings(domain, plan, trace.start_ns)


def _fitted(
    recipe: Recipe, activity: Activity, block_ns: tuple[int, int], names: Sequence[str], *, asked: str
) -> Recipe:
    """Fit powers if requested, or if `auto` finds that they separate the tasks."""
    if not needs_fit(asked, recipe.model):
        return recipe
    fits = {}
    for domain in recipe.whole:
        if domain.scope == GPU:
            continue
        if domain.counted and len(domain) and domain.quality != "estimated" and (asked == "fitted" or domain.timed):
            load = activity.load(domain)
            belief = _belief(recipe, domain.name)
            fit = fit_powers(domain, load.located, load.segments, load.hidden_s, names=names, belief=belief)
            block, part = domain.between(*block_ns)
            if fit is not None and len(block):
                fits[domain.name] = replace(fit, static_w=fit.static_w[part])
    chosen = recipe.model.fitted(asked, fits, [q.quality for q in recipe.quanta if q.counted and q.scope != GPU])
    return replace(recipe, model=chosen, fits=fits) if chosen.name == "fitted" else recipe


def _belief(recipe: Recipe, domain: str) -> Belief:
    """Return the prior knowledge of a domain: a calibrated model gives a rough static power and its own error."""
    static_w, stored = recipe.static_power_w.get(domain), recipe.model.stored
    if stored is None or stored.residual_share is None:
        return Belief(static_w)
    # An idle package sleeps, with less power than C2.
    return Belief(static_w, CALIBRATED_STATIC_SHARE, min(CALIBRATED_SPREAD * stored.residual_share, 1.0))


def _static_power(known_w: dict[str, float], model: Chosen, quanta: tuple[Quanta, ...]) -> dict[str, float]:
    """Static watts by domain: those of the manifest, else the model's C2 for packages."""
    if model.coefficients is not None and model.coefficients.c2 > 0:
        return {q.name: model.coefficients.c2 for q in quanta if q.scope == "package"} | known_w
    return known_w


def _gpu_idle(whole: Sequence[Quanta], start_ns: int, known_w: Mapping[str, float]) -> dict[str, float]:
    """Return the idle watts of GPUs, where they are known."""
    idle_w = {one.name: idle_watts(one, start_ns, known_w.get(one.name)) for one in whole if one.scope == GPU}
    return {name: watts for name, watts in idle_w.items() if watts is not None}


def _gpu_errors(gpu: GpuTotals, rows: InstanceRows, names: Sequence[str]) -> NDArray[np.float64]:
    """Return by distinct name the standard error of the mean GPU joules: an instance's bounds hold to 95 %."""
    unique, code = places(names)
    known = rows.task < len(names)
    key = code[rows.task[known]]
    variance = sum_by(key, (((gpu.most - gpu.least) / 2)[known] / NORMAL_95) ** 2, len(unique))
    return np.sqrt(variance) / np.maximum(np.bincount(key, minlength=len(unique)), 1)


def _idled(recipe: Recipe, known_w: dict[str, float], activity: Activity) -> Recipe:
    """Replace a calibrated C2, which holds for its own frequency and temperature, by the power of idle quanta."""
    coefficients, static_w = recipe.model.coefficients, dict(recipe.static_power_w)
    for domain in recipe.whole:
        if domain.scope == GPU:
            continue
        if coefficients is not None and domain.name in static_w and domain.name not in known_w and len(domain):
            idle_w = activity.load(domain).idle_power_w()
            static_w[domain.name] = static_w[domain.name] if idle_w is None else idle_w
    return replace(recipe, static_power_w=static_w)
