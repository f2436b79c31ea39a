"""Fits the powers of tasks to each domain's readings, where the model needs that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tprof.analysis.attribution.gpu_use import SCOPE as GPU
from tprof.analysis.models import needs_fit
from tprof.analysis.models.fitted import Belief, fit_powers

from tprof import log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.models.fitted.stored_work import SomeWork

    from tprof.trace import Trace

    from .recipe import Recipe

CALIBRATED_STATIC_SHARE = 0.2
CALIBRATED_SPREAD = 3.0
"""Prior deviation of a task's power, in units of the calibrated model's own error."""


def needs_fits(recipe: Recipe, asked: str) -> bool:
    """Return whether any domain's powers are to be fitted, or this was asked for."""
    return asked == "fitted" or (needs_fit(asked, recipe.model) and any(_is_fitted(one, asked) for one in recipe.whole))


def fitted(
    recipe: Recipe,
    trace: Trace,
    ran: Callable[[Quanta], tuple[Sequence[SomeWork], NDArray[np.float64]]],
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
