"""Estimates the error of single instances by their length, by simulation with this recording's own sensor.

The simulation replays the window in the middle of the recording and takes the estimated powers as true. It draws each
edge between two readings from its window, rounds joules to whole counts, and draws fitted powers from their covariance.
It then shares the joules as the profile does, and compares each instance with its true joules above static power. Not
included are the deviation of an instance from its task's mean power and, without fitted powers, the error of the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.attribution.load import Load
from tprof.analysis.attribution.overlaps import distribute_energy, has_overlaps, split_overlaps
from tprof.analysis.attribution.quanta import GPU
from tprof.analysis.attribution.segment_energy import LocatedSegments, gather, padded, rates, spread, sum_by
from tprof.analysis.models.fitted.edges import estimate_edges

from tprof.trace import Quality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import JoinedSegments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.models.fitted import Fit

    from .profile import Profile

    Floats = NDArray[np.float64]
COLUMNS = ("length_low_s", "length_high_s", "instances", "error")


def expected_errors(profile: Profile) -> pd.DataFrame:
    """Return the root mean square error of single instances by their length.

    Returns
    -------
    One row per half decade of own time: length_low_s, length_high_s, instances (that were replayed), error (as a
    part of their mean energy above static power). Empty without a measuring sensor of the processors, or if
    nothing ran.
    """
    stream = profile.host_instances.stream
    activity, plans = stream.planned(len(stream.windows) // 2)
    # A package's sensor resolves single instances; that of a board or a plug beside it is far coarser.
    found = sorted(filter(_is_resolved, plans), key=lambda plan: plan.measured.scope != "package")
    if not found:
        return _by_length(*np.empty((3, 0)))
    fit = profile.recipe.fits.get(found[0].measured.name)
    return _by_length(*_replay(found[0], activity.ran, fit, len(profile.trace.tasks)))


def _is_resolved(plan: Sharing) -> bool:
    quanta, is_measured = plan.measured, plan.measured.quality in (Quality.MEASURED, Quality.SIMULATED)
    return is_measured and quanta.scope != GPU and quanta.valid.sum() > 2 and bool(plan.load.modelled().any())


def _replay(plan: Sharing, ran: JoinedSegments, fit: Fit | None, tasks: int) -> tuple[Floats, Floats, Floats]:
    """Return for each whole instance its own seconds, its true joules, and the joules shared to it."""
    random, load = np.random.default_rng(0), plan.load
    quanta = replace(plan.measured, valid=np.ones(len(plan.measured), bool))
    # Without fitted powers the modelled energy is scaled to the measured level.
    level = 1.0 if fit is not None else plan.dynamic_j.sum() / sum(one.modelled.sum() for one in load.located)
    true = [one.weighing(one.modelled * level) for one in load.located]
    seconds = np.diff(quanta.edges_ns) * 1e-9
    static_w = float((quanta.energy_j - plan.dynamic_j).sum() / seconds.sum())
    edges_ns = _drawn_edges(quanta, random)
    drawn_j = np.sum([spread(replace(one, edges_ns=edges_ns)) for one in true], axis=0)[1:-1]
    drawn_j += static_w * np.diff(edges_ns) * 1e-9
    if quanta.unit_j > 0:  # whole counts of the register
        drawn_j = np.diff(np.floor(np.cumsum(drawn_j) / quanta.unit_j), prepend=0.0) * quanta.unit_j
    energy_j = np.maximum(drawn_j - static_w * seconds, 0.0)
    assumed = true
    if fit is not None:
        error = _drawn_powers(fit, random)
        assumed = [
            one.weighing(one.modelled * error[group.task_numbers(tasks)])
            for one, group in zip(true, load.groups, strict=True)
        ]
    given_j = _shared(replace(quanta, energy_j=energy_j), assumed, fit)
    # Without those that the ends of the window may cut.
    cut = ran.slot[np.concatenate((ran.joints.begin, ran.joints.end - 1))]
    count, length_s = ran.instances.count + 1, np.where(ran.slot > 0, np.diff(ran.t_ns) * 1e-9, 0.0)
    own_s, true_j, found_j = (sum_by(ran.slot, one, count) for one in (length_s, true[0].modelled, given_j))
    whole = (own_s > 0) & (true_j > 0)
    whole[np.append(cut, 0)] = False
    return own_s[whole], true_j[whole], found_j[whole]


def _drawn_edges(quanta: Quanta, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw the edges at random from their windows; an unknown window is the shortest gap between readings."""
    window_s = quanta.window_s if quanta.timed else np.full(len(quanta.edges_ns), np.diff(quanta.edges_ns).min() * 1e-9)
    moved_ns = np.round((random.random(len(window_s)) - 0.5) * window_s * 1e9).astype(np.int64)
    return np.asarray(np.maximum.accumulate(quanta.edges_ns + moved_ns) + np.arange(len(moved_ns)))


def _drawn_powers(fit: Fit, random: np.random.Generator) -> Floats:
    """Draw each task's power relative to its true one, (tasks + 1,), last: between tasks.

    The simulation has no effects that are too small to be found, so the covariance is that without them.
    """
    power = fit.power[:-1]
    drawn = random.multivariate_normal(power, fit.covariance - fit.floor, check_valid="ignore")
    return np.append(np.maximum(drawn, 1e-6) / power, 1.0)


def _shared(quanta: Quanta, assumed: Sequence[LocatedSegments], fit: Fit | None) -> Floats:
    """Return the joules of the segments of threads, by an assumed energy of all segments."""
    load = _load(quanta, assumed)
    if fit is not None and has_overlaps(quanta):
        split = split_overlaps(quanta)
        estimated = estimate_edges(split, _load(split.pieces, assumed), np.zeros(len(quanta)), 0.0, fit.own_w)
        split = split_overlaps(estimated)
        load = distribute_energy(split, _load(split.pieces, assumed), estimated.energy_j, 0.0)
    return gather(load.located[0], rates(padded(load.quanta.energy_j), load.modelled()))


def _load(quanta: Quanta, assumed: Sequence[LocatedSegments]) -> Load:
    located = tuple(replace(one, edges_ns=quanta.edges_ns) for one in assumed)
    nothing = np.zeros(len(quanta))
    return Load(quanta, (), located, (), nothing, nothing)


def _by_length(seconds: Floats, true_j: Floats, given_j: Floats) -> pd.DataFrame:
    half_decade = np.floor(2 * np.log10(seconds))
    groups = pd.DataFrame({"true_j": true_j, "square": (given_j - true_j) ** 2}).groupby(half_decade)
    means, low = groups.mean(), np.array([*groups.groups], float) / 2
    error = np.sqrt(means["square"].to_numpy()) / means["true_j"].to_numpy()
    columns = (10**low, 10 ** (low + 0.5), groups.size().to_numpy(), error)
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
