"""Builds a profile: reads the threads, chooses or fits a model, shares every domain's joules, makes the tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.attribution.accounts import Account, Totals, settle
from tprof.analysis.attribution.hidden import HiddenTime, measure_hidden
from tprof.analysis.attribution.instances import join_rows
from tprof.analysis.attribution.load import Load
from tprof.analysis.attribution.overlaps import distribute_energy, has_overlaps, split_overlaps
from tprof.analysis.attribution.quanta import Quanta, build_quanta
from tprof.analysis.attribution.segments import Segments, find_cut_off, read_segments, seen_s
from tprof.analysis.attribution.sharing import Sharing, plan_sharing, split_static, static_watts
from tprof.analysis.models import Chosen, Coefficients, choose_model, needs_fit, stored_model

from tprof.trace import Quality
from tprof.trace.estimate import EXACT, most_watts, watts_error

from .profile import Profile
from .profile_warnings import fit_warnings, sample_warnings, stuck_sensor_warnings
from .provenance import describe
from .tables import tasks_table
from .task_graph import lifecycle_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.models.fitted import Belief, Fit

    from tprof.trace import Trace

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
    """

    model: Chosen
    quanta: tuple[Quanta, ...]
    whole: tuple[Quanta, ...]
    packages: tuple[int, ...]
    static_power_w: dict[str, float]
    fits: dict[str, Fit]

    def read(self, trace: Trace) -> list[Segments]:
        """Read the segments of all threads."""
        packages, cut_off = len(self.packages) > 1, find_cut_off(trace)
        read = (
            read_segments(trace, one, self.model, packages=packages, cut_off=cut_off.get(one.ordinal))
            for one in trace.threads
        )
        segments = [one for one in read if one is not None]
        _fill_uncounted(segments)
        return segments

    def load(self, domain: Quanta, segments: Sequence[Segments], hidden: HiddenTime) -> Load:
        """Return the load of a domain's quanta."""
        return Load.of(domain, segments, hidden, self.packages)

    def plan(self, domain: Quanta, segments: Sequence[Segments], hidden: HiddenTime) -> Sharing:
        """Compute the shares of a domain's joules."""
        fit = self.fits.get(domain.name)
        if fit is None:
            return plan_sharing(self.load(domain, segments, hidden), self.static_power_w.get(domain.name, 0.0))
        if not has_overlaps(domain):
            load = self.load(domain, segments, hidden).corrected(fit.power)
            return plan_sharing(load, fit.static_w, fit.other)
        split = split_overlaps(domain)
        pieces = self.load(split.pieces, segments, hidden).corrected(fit.power)
        from tprof.analysis.models.fitted.edges import estimate_edges  # noqa: PLC0415 - as in _fitted

        domain = estimate_edges(split, pieces, fit.static_w, fit.other, fit.own_w)
        static_j, dynamic_j = split_static(domain.energy_j, fit.static_w, np.diff(domain.edges_ns) * 1e-9)
        split = split_overlaps(domain)
        pieces = self.load(split.pieces, segments, hidden).corrected(fit.power)
        sharing = plan_sharing(distribute_energy(split, pieces, dynamic_j, fit.other), 0.0, fit.other)
        sharing = replace(sharing, measured=domain, owner=split.owner, dynamic_j=dynamic_j)
        return sharing.with_static(self.load(domain, segments, hidden), static_j)

    def again(self, trace: Trace) -> tuple[list[Segments], list[Sharing]]:
        """Read the trace once more and compute the shares of its counted domains."""
        segments = self.read(trace)
        hidden = hidden_time(trace, segments)
        domains = [domain for domain in self.quanta if domain.counted and len(domain)]
        return segments, [self.plan(domain, segments, hidden) for domain in domains]


def hidden_time(trace: Trace, segments: Sequence[Segments]) -> HiddenTime:
    """Return the CPU time without samples."""
    first_ns = min((int(one.t_ns[0]) for one in segments), default=0)
    before_s = sum(min(one.earlier_s, max(int(one.t_ns[0]) - first_ns, 0) * 1e-9) for one in segments)
    return measure_hidden(
        trace.readings, first_ns if segments else None, lambda grid_ns: seen_s(segments, grid_ns), before_s
    )


def build_profile(
    trace: Trace,
    *,
    model: str = "auto",
    coefficients: str | Mapping[str, float] | Coefficients | None = None,
    max_power_w: float | None = None,
) -> Profile:
    """Attribute a trace's joules to its tasks.

    Parameters
    ----------
    trace : from `tprof.load`
    model : "auto", "linear", "fitted", "fesc", "ipc" or "cputime"
    coefficients : for "linear": "tprof-table1", or a mapping of a, b, c, C1, C2 in watts
    max_power_w : float, watts; an interval of a sensor that implies more is invalid (default 1000)

    Raises
    ------
    UsageError
        If the model or its coefficients are unknown, or the trace lacks what it needs.
    """
    present = frozenset(column for thread in trace.threads for column in thread.columns)
    stored, stored_problem = stored_model(trace.manifest.get("power_model"))
    chosen = choose_model(model, present, coefficients, stored)
    readings = sorted((r for r in trace.readings.values() if r.quantity == "energy"), key=lambda r: r.name)
    whole = tuple(build_quanta(reading, max_power_w) for reading in readings)
    quanta = tuple(domain.between(trace.start_ns, trace.end_ns)[0] for domain in whole)
    packages = tuple(sorted({q.package for q in quanta if q.package is not None}))
    recipe = Recipe(chosen, quanta, whole, packages, _static_power(trace, chosen, quanta), {})
    segments = recipe.read(trace)
    hidden = hidden_time(trace, segments)
    recipe = _fitted(_idled(recipe, trace, segments, hidden), trace, segments, hidden, asked=model)
    joined = join_rows([one.rows for one in segments])
    for one, place in zip(segments, joined.places, strict=True):
        if isinstance(place, slice):
            one.rows = joined.rows.view(place)  # frees each thread's own copy, as large as all its columns
    totals = Totals.zeros(len(joined.rows))
    accounts = {q.name: Account(q.name, *[float("nan")] * 5) for q in quanta}
    stuck = []
    for domain in quanta:
        if len(domain):
            plan = recipe.plan(domain, segments, hidden)
            accounts[domain.name] = settle(plan, segments, joined, totals if domain.counted else None)
            stuck += stuck_sensor_warnings(domain, plan, trace.start_ns)
            del plan
    names = [entry.name for entry in trace.tasks]
    about_model = [
        text for text in (trace.manifest.get("power_model_problem"), stored_problem) if isinstance(text, str)
    ]
    warnings = [*trace.graph.notes, *about_model, *stuck, *sample_warnings(segments, hidden, joined.rows, recipe.model)]
    warnings += fit_warnings(recipe.fits, names)
    info = describe(trace, recipe, warnings)
    is_estimate = info["quality"] == Quality.ESTIMATED
    watts = watts_error(trace.manifest) if is_estimate else EXACT
    most_w = most_watts(trace.manifest) if is_estimate else np.inf
    info["static_power_w"] = recipe.static_power_w | {
        name: float(fit.static_w.mean()) for name, fit in recipe.fits.items()
    }
    errors_j = None
    if recipe.fits:
        from tprof.analysis.models.fitted.powers import mean_errors  # noqa: PLC0415 - as in _fitted

        errors_j = mean_errors(recipe.fits, segments, joined.rows, names)
    threads = [one.thread for one in segments]
    del segments
    tasks = tasks_table(trace, threads, joined.rows, totals, watts, most_w)
    if len(trace.graph):
        tasks = tasks.assign(**lifecycle_columns(trace, tasks))
    frame = pd.DataFrame([vars(account) for account in accounts.values()], columns=list(Account.__annotations__))
    frame["quality"] = [domain.quality for domain in quanta]
    tasks["quality"] = pd.Categorical.from_codes(np.zeros(len(tasks), np.int8), categories=pd.Index([info["quality"]]))
    return Profile(trace, tasks, frame.set_index("domain"), info, recipe, joined.rows.own_s, errors_j, watts)


def _fitted(recipe: Recipe, trace: Trace, segments: list[Segments], hidden: HiddenTime, *, asked: str) -> Recipe:
    """Fit powers if requested, or if `auto` finds that they separate the tasks."""
    if not needs_fit(asked, recipe.model):
        return recipe
    fits = {}
    for domain in recipe.whole:
        if domain.counted and len(domain) and domain.quality != "estimated" and (asked == "fitted" or domain.timed):
            from tprof.analysis.models.fitted import fit_powers  # noqa: PLC0415 - SciPy takes as long to load as all of a short summary

            load = recipe.load(domain, segments, hidden)
            belief = _belief(recipe, domain.name)
            fit = fit_powers(domain, load.lanes, segments, load.hidden_s, tasks=len(trace.tasks), belief=belief)
            block, part = domain.between(trace.start_ns, trace.end_ns)
            if fit is not None and len(block):
                fits[domain.name] = replace(fit, static_w=fit.static_w[part])
    chosen = recipe.model.fitted(asked, fits, [domain.quality for domain in recipe.quanta if domain.counted])
    return replace(recipe, model=chosen, fits=fits) if chosen.name == "fitted" else recipe


def _belief(recipe: Recipe, domain: str) -> Belief:
    """Return the prior knowledge of a domain: a calibrated model gives a rough static power and its own error."""
    from tprof.analysis.models.fitted import Belief  # noqa: PLC0415 - see above

    static_w, stored = recipe.static_power_w.get(domain), recipe.model.stored
    if stored is None or stored.residual_share is None:
        return Belief(static_w)
    # An idle package sleeps, with less power than C2.
    return Belief(static_w, CALIBRATED_STATIC_SHARE, min(CALIBRATED_SPREAD * stored.residual_share, 1.0))


def _static_power(trace: Trace, model: Chosen, quanta: tuple[Quanta, ...]) -> dict[str, float]:
    """Static watts by domain: from the manifest, else the model's C2 for packages."""
    known = static_watts(trace.manifest)
    if model.coefficients is not None and model.coefficients.c2 > 0:
        return {q.name: model.coefficients.c2 for q in quanta if q.scope == "package"} | known
    return known


def _idled(recipe: Recipe, trace: Trace, segments: list[Segments], hidden: HiddenTime) -> Recipe:
    """Replace a calibrated C2, which holds for its own frequency and temperature, by the power of idle quanta."""
    coefficients, static_w = recipe.model.coefficients, dict(recipe.static_power_w)
    given_w = trace.manifest.get("static_power_w") or {}
    for domain in recipe.whole:
        if coefficients is not None and domain.name in static_w and domain.name not in given_w and len(domain):
            idle_w = recipe.load(domain, segments, hidden).idle_power_w()
            static_w[domain.name] = static_w[domain.name] if idle_w is None else idle_w
    return replace(recipe, static_power_w=static_w)


def _fill_uncounted(segments: list[Segments]) -> None:
    """Give threads without the model's counters the mean modelled power per CPU second of the other threads."""
    if all(one.counted for one in segments):
        return
    modelled = sum(float(one.modelled.sum()) for one in segments if one.counted)
    cpu_s = sum(float(one.cpu_s.sum()) for one in segments if one.counted)
    mean = modelled / cpu_s if cpu_s > 0 and modelled > 0 else 1.0
    for one in segments:
        if not one.counted:
            one.modelled = one.modelled * mean
