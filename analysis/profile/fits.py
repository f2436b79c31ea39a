"""Fits powers to a recording that is read window by window, where the model needs that, and shares its joules by them.

1. **What ran** is gathered, once (`tprof.analysis.models.fitted.what_ran`). The equations of the fit are of a bounded
   number.
2. **Edges** of quanta that overlap are estimated from all readings: each window gives the joules around its edges, and
   one tridiagonal system has all of them.
3. **Sharing**: a window's own joules are those from the end of the overlap at its first edge to the end of that at its
   last one. Its segments reach as far as the quanta next to these.

An effect on the power of a segment may depend on what is in other windows: on how long its instance runs, or on what
runs beside a long segment. So both are found from all that ran.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.overlaps import has_overlaps, split_overlaps
from tprof.analysis.attribution.quanta import GPU
from tprof.analysis.attribution.windows import Reach
from tprof.analysis.models import needs_fit
from tprof.analysis.models.fitted import Belief, fit_powers
from tprof.analysis.models.fitted.base_fit import LATE_S
from tprof.analysis.models.fitted.beside import Beside
from tprof.analysis.models.fitted.edges import evidence, place_edges, posterior, window_joules

from tprof import log

from .recipe import repeatable, share_fitted, share_overlapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.attribution.windows import Window
    from tprof.analysis.models.fitted import Fit
    from tprof.analysis.models.fitted.equations import Work
    from tprof.analysis.models.fitted.what_ran import WhatRan

    from tprof.trace import Trace

    from .instances import Progress
    from .recipe import Again, Recipe

    Read = Callable[[Window], Activity]

Floats = NDArray[np.float64]
CALIBRATED_STATIC_SHARE = 0.2
CALIBRATED_SPREAD = 3.0
"""Prior deviation of a task's power, in units of the calibrated model's own error."""


def needs_fits(recipe: Recipe, asked: str) -> bool:
    """Return whether any domain's powers are to be fitted, or this was asked for."""
    return asked == "fitted" or (needs_fit(asked, recipe.model) and any(_is_fitted(one, asked) for one in recipe.whole))


def fitted(
    recipe: Recipe,
    trace: Trace,
    ran: Callable[[Quanta], tuple[Sequence[Work], Floats]],
    *,
    asked: str,
) -> Recipe:
    """Fit powers if requested, or if `auto` finds that they separate the tasks.

    `ran` returns the threads' work on a domain, and (k,) CPU seconds without samples in its quanta.
    """
    if not needs_fit(asked, recipe.model):
        return recipe
    fits, names = {}, [entry.name for entry in trace.tasks]
    for domain in recipe.whole:
        if _is_fitted(domain, asked):
            log.info("analysis", "fitting the powers of %d tasks to %s", len(names), domain.name)
            fit = fit_powers(domain, *ran(domain), names=names, belief=_belief(recipe, domain.name))
            part = domain.span(trace.start_ns, trace.end_ns)
            if fit is not None and part.stop > part.start:
                fits[domain.name] = replace(fit, static_w=fit.static_w[part])
    chosen = recipe.model.fitted(asked, fits, [q.quality for q in recipe.quanta if q.counted and q.scope != GPU])
    return replace(recipe, model=chosen, fits=fits) if chosen.name == "fitted" else recipe.without(fits)


def _is_fitted(domain: Quanta, asked: str) -> bool:
    is_measured = domain.counted and len(domain) > 0 and domain.quality != "estimated" and domain.scope != GPU
    return is_measured and (asked == "fitted" or domain.timed)


def _belief(recipe: Recipe, domain: str) -> Belief:
    """Return the prior knowledge of a domain: a calibrated model gives a rough static power and its own error."""
    static_w, stored = recipe.static_power_w.get(domain), recipe.model.stored
    if recipe.model.coefficients is None and domain in recipe.static_error_w:
        static_w = None  # the equations have the idle time itself
    if stored is None or stored.residual_share is None:
        return Belief(static_w)
    # An idle package sleeps, with less power than C2.
    return Belief(static_w, CALIBRATED_STATIC_SHARE, min(CALIBRATED_SPREAD * stored.residual_share, 1.0))


def reach_of(quanta: Quanta) -> Reach:
    """Return when what the quanta of a domain share runs, wherever their edges lie and however late the sensor is."""
    if not quanta.timed:
        return Reach.of(quanta)
    half_ns = np.ceil(quanta.window_s * 0.5e9).astype(np.int64) + 1
    begins_ns, ends_ns = quanta.edges_ns - half_ns - round(LATE_S[-1] * 1e9), quanta.edges_ns + half_ns
    latest_ns = np.maximum.accumulate(np.append(ends_ns, ends_ns[-1]))
    # Joules in an overlap depend on all that the next quantum has, up to the end of its overlap with the one after it.
    return Reach(np.minimum.accumulate(begins_ns[::-1])[:0:-1], latest_ns[2:])


def counted(windows: Sequence[Window], doing: str, progress: Progress | None) -> Iterator[Window]:
    """Yield windows, and report after each of them how many are done."""
    for number, window in enumerate(windows):
        yield window
        if progress is not None:
            progress(doing, number + 1, len(windows))


class Planned(NamedTuple):
    """The sharing of some quanta.

    Attributes
    ----------
    sharing, again : the sharing, and what repeats it among pieces of segments
    own : which quanta are a window's own
    before : how many quanta come before all of these
    """

    sharing: Sharing
    again: Again
    own: slice
    before: int


@dataclass(frozen=True)
class FittedDomain:
    """A domain whose joules are shared by fitted powers.

    Attributes
    ----------
    quanta : with estimated edges, of the whole recording
    fit : of its tasks' powers, with the static power of these quanta
    run : what all threads did
    beside : what runs beside segments, by task and form
    overlaps : whether any of its quanta overlap
    """

    quanta: Quanta
    fit: Fit
    run: WhatRan
    beside: dict[tuple[int, str], Beside]
    overlaps: bool

    def plan(self, which: slice, activity: Activity, window: Window) -> Planned:
        """Share the joules of a window's quanta."""
        near, own = self._near(which) if self.overlaps else (which, slice(0, which.stop - which.start))
        quanta, fit = self.quanta.part(near), replace(self.fit, static_w=self.fit.static_w[near])
        factors = self._factors(quanta, activity, window)
        share = partial(share_overlapping, quanta, fit, own) if self.overlaps else partial(share_fitted, quanta, fit)
        return Planned(*repeatable(activity, factors, share), own, near.start)

    def evidence(self, which: slice, activity: Activity, window: Window) -> tuple[Floats, Floats, Floats]:
        """Return the joules around the first edge of each of a window's quanta, and what `evidence` does."""
        near, own = self._near(which)
        quanta = self.quanta.part(near)
        split = split_overlaps(quanta)
        load = activity.load(split.pieces).corrected(self.fit.power, self._factors(quanta, activity, window))
        joules = window_joules(split, load, self.fit.static_w[near], self.fit.other)
        residual, variance = evidence(joules, quanta.energy_j)
        return joules[own], residual[own], variance[own]

    def _near(self, which: slice) -> tuple[slice, slice]:
        """Return the quanta that decide how some quanta overlap, and these among them."""
        first = max(which.start - 1, 0)
        return slice(first, min(which.stop + 2, len(self.quanta))), slice(which.start - first, which.stop - first)

    def _factors(self, quanta: Quanta, activity: Activity, window: Window) -> tuple[Floats, ...] | None:
        effects = self.fit.effects
        if effects is None:
            return None
        return effects.factors(self.run.in_window(activity.load(quanta), window.own_ns[0]), self.beside)


def fitted_domains(
    recipe: Recipe, run: WhatRan, read: Read, windows: Sequence[Window], progress: Progress | None = None
) -> dict[str, FittedDomain]:
    """Return the domains with fits, with their edges estimated, by name; `windows` belong to the recipe's quanta."""
    found = {}
    for domain in recipe.quanta:
        if domain.name in recipe.fits:
            fit = recipe.fits[domain.name]
            keys = () if fit.effects is None else fit.effects.besides
            work = run.work(domain) if keys else []
            beside = {key: Beside.of(work, *key) for key in keys}
            quanta = domain.earlier(fit.late_s)
            found[domain.name] = FittedDomain(quanta, fit, run, beside, has_overlaps(quanta))
    places = {one.name: number for number, one in enumerate(recipe.quanta)}
    uncertain = {name: one for name, one in found.items() if one.overlaps}
    return found | _estimated(uncertain, places, read, counted(windows, "times of readings", progress))


def _estimated(
    domains: dict[str, FittedDomain], places: dict[str, int], read: Read, windows: Iterable[Window]
) -> dict[str, FittedDomain]:
    """Return domains with estimated edges."""
    if not domains:
        return {}
    found = {name: _Edges(one.quanta) for name, one in domains.items()}
    for window in windows:
        activity = read(window)
        for name, one in domains.items():
            which = window.quanta[places[name]]
            if which.stop > which.start:
                found[name].add(which, *one.evidence(which, activity, window))
    return {name: replace(one, quanta=found[name].placed(one.fit.own_w)) for name, one in domains.items()}


class _Edges:
    """What the windows show of where the edges of a domain's quanta are."""

    def __init__(self, quanta: Quanta) -> None:
        self._quanta = quanta
        self._joules: list[tuple[slice, Floats]] = []
        self._residual, self._variance = np.zeros(len(quanta)), np.zeros(len(quanta) + 1)

    def add(self, which: slice, joules: Floats, residual: Floats, variance: Floats) -> None:
        """Take those of a window's quanta."""
        self._joules.append((which, joules - joules[:, :1]))
        self._residual[which], self._variance[which] = residual, variance

    def placed(self, own_w: float) -> Quanta:
        """Return the quanta with edges where all readings together show them."""
        quanta = self._quanta
        moved, left = posterior(quanta, self._residual, self._variance, own_w)
        edges_ns, window_s = quanta.edges_ns.copy(), quanta.window_s.copy()
        for which, joules in self._joules:
            edges_ns[which], window_s[which] = place_edges(
                edges_ns[which], window_s[which], joules, moved[which], left[which]
            )
        return replace(quanta, edges_ns=edges_ns, window_s=window_s)
