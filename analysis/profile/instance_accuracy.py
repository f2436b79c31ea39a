"""Estimates the error of single instances by their length, by simulation with this recording's own sensor.

The simulation replays the recording and takes the estimated powers as true. It draws each edge between two readings
from its window, rounds joules to whole counts, and draws fitted powers from their covariance. It then shares the joules
as the profile does, and compares each instance with its true joules above static power. Not included are the deviation
of an instance from its task's mean power and, without fitted powers, the error of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.attribution.load import Load
from tprof.analysis.attribution.overlaps import distribute_energy, has_overlaps, split_overlaps
from tprof.analysis.attribution.segment_energy import (
    LocatedSegments,
    gather,
    padded,
    rates,
    spread,
    sum_by,
)
from tprof.analysis.models.fitted.edges import estimate_edges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.natives.segments import NativeSegments
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.models.fitted import Fit

    from .profile import Profile

Floats = NDArray[np.float64]
MOST_SAMPLES = 400_000
"""Size of the slice of the recording that is replayed."""
COLUMNS = ("length_low_s", "length_high_s", "instances", "error")


@dataclass(frozen=True)
class Played:
    """The slice to replay: quanta, static watts, and for each thread its times, joules, owners and tasks."""

    quanta: Quanta
    static_w: float
    t_ns: Sequence[NDArray[np.int64]]
    joules: Sequence[Floats]
    slot: Sequence[NDArray[np.int32]]
    task: Sequence[NDArray[np.int32]]


def expected_errors(profile: Profile) -> pd.DataFrame:
    """Return the root mean square error of single instances by their length.

    Returns
    -------
    One row per half decade of own time: length_low_s, length_high_s, instances (that were replayed), error (as a
    part of their mean energy above static power). Empty without a measuring sensor of the processors, or if
    nothing ran.
    """
    domains = [
        q
        for q in profile.quanta
        if q.counted and q.scope != "gpu" and q.valid.sum() > 2 and q.quality in ("measured", "simulated")
    ]
    names = {domain.name for domain in domains}
    stream = profile.host_instances.stream if names else None
    # The window in the middle of the recording.
    plans = [] if stream is None else stream.planned(len(stream.windows) // 2)[1]
    resolved = [plan for plan in plans if plan.measured.name in names]
    # A package's sensor resolves single instances; that of a board or a plug beside it is far coarser.
    for plan in sorted(resolved, key=lambda plan: plan.measured.scope != "package")[:1]:
        fit = profile.recipe.fits.get(plan.measured.name)
        played = _slice(plan, plan.load.segments, len(profile.trace.tasks), known=fit is not None)
        if played is not None:
            return _by_length(*_replay(played, fit, np.random.default_rng(0)))
    return _by_length(*np.empty((3, 0)))


def _slice(plan: Sharing, segments: Sequence[Segments | NativeSegments], tasks: int, *, known: bool) -> Played | None:
    """Cut a slice out of the middle, with modelled joules scaled to the measured level."""
    quanta, located = plan.measured, plan.load.threads
    samples = sum(len(thread.t_ns) for thread in located)
    modelled = sum(float(thread.modelled.sum()) for thread in located)
    if modelled <= 0 or len(quanta) < 3:
        return None
    part = min(MOST_SAMPLES / max(samples, 1), 1.0)
    first = int(len(quanta) * (1 - part) / 2)
    last = max(len(quanta) - first, first + 3)
    begin_ns, end_ns = quanta.edges_ns[first], quanta.edges_ns[min(last, len(quanta))]
    level = 1.0 if known else float(plan.dynamic_j.sum()) / modelled
    cuts = [slice(*np.searchsorted(thread.t_ns, (begin_ns, end_ns))) for thread in located]
    cuts = [slice(cut.start, max(cut.stop - 1, cut.start)) for cut in cuts]
    return Played(
        replace(
            quanta,
            edges_ns=quanta.edges_ns[first : last + 1],
            window_s=quanta.window_s[first : last + 1],
            energy_j=quanta.energy_j[first:last],
            valid=np.ones(len(quanta.energy_j[first:last]), bool),
            stuck=quanta.stuck[first:last],
            unread=None,
        ),
        float((quanta.energy_j - plan.dynamic_j).sum() / (np.diff(quanta.edges_ns).sum() * 1e-9)),
        [thread.t_ns[cut.start : cut.stop + 1] for thread, cut in zip(located, cuts, strict=True)],
        [thread.modelled[cut] * level for thread, cut in zip(located, cuts, strict=True)],
        [one.slot[cut] for one, cut in zip(segments, cuts, strict=True)],
        [one.task_numbers(tasks)[cut] for one, cut in zip(segments, cuts, strict=True)],
    )


def _replay(played: Played, fit: Fit | None, random: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return for each whole instance its own seconds, its true joules, and the joules shared to it."""
    quanta = played.quanta
    edges_ns = _drawn_edges(quanta, random)
    drawn_j = np.zeros(len(edges_ns) + 1)
    for t_ns, joules in zip(played.t_ns, played.joules, strict=True):
        drawn_j += spread(LocatedSegments(t_ns, joules, edges_ns))
    static_j = played.static_w * np.diff(edges_ns) * 1e-9
    energy_j = _counted(drawn_j[1:-1] + static_j, quanta.unit_j)
    energy_j = np.maximum(energy_j - played.static_w * np.diff(quanta.edges_ns) * 1e-9, 0.0)
    error = _drawn_powers(fit, random) if fit is not None else None
    assumed = [
        joules if error is None else joules * error[task]
        for joules, task in zip(played.joules, played.task, strict=True)
    ]
    given = _shared(replace(quanta, energy_j=energy_j), played.t_ns, assumed, fit)
    parts = [
        _instances(*one) for one in zip(played.t_ns, played.slot, played.joules, given, strict=True) if len(one[1])
    ]
    seconds, true_j, given_j = (np.concatenate([part[i] for part in parts]) if parts else np.empty(0) for i in range(3))
    return seconds, true_j, given_j


def _drawn_edges(quanta: Quanta, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw the edges at random from their windows; an unknown window is the shortest gap between readings."""
    window_s = quanta.window_s if quanta.timed else np.full(len(quanta.edges_ns), np.diff(quanta.edges_ns).min() * 1e-9)
    moved_ns = np.round((random.random(len(window_s)) - 0.5) * window_s * 1e9).astype(np.int64)
    edges_ns = quanta.edges_ns + moved_ns
    return np.asarray(np.maximum.accumulate(edges_ns) + np.arange(len(edges_ns)))


def _counted(energy_j: Floats, unit_j: float) -> Floats:
    """Round joules down to whole counts of the register."""
    return np.diff(np.floor(np.cumsum(energy_j) / unit_j), prepend=0.0) * unit_j if unit_j > 0 else energy_j


def _drawn_powers(fit: Fit, random: np.random.Generator) -> Floats:
    """Draw each task's power relative to its true one, (tasks + 1,), last: between tasks.

    The simulation has no effects that are too small to be found, so the covariance is that without them.
    """
    power = fit.power[:-1]
    drawn = random.multivariate_normal(power, fit.covariance - fit.floor, check_valid="ignore")
    return np.append(np.maximum(drawn, 1e-6) / power, 1.0)


def _shared(
    quanta: Quanta, t_ns: Sequence[NDArray[np.int64]], assumed: Sequence[Floats], fit: Fit | None
) -> list[Floats]:
    if fit is None or not has_overlaps(quanta):
        return _shares_of(_load(quanta, t_ns, assumed))
    nothing = np.zeros(len(quanta))
    split = split_overlaps(quanta)
    estimated = estimate_edges(split, _load(split.pieces, t_ns, assumed), nothing, 0.0, fit.own_w)
    split = split_overlaps(estimated)
    return _shares_of(distribute_energy(split, _load(split.pieces, t_ns, assumed), estimated.energy_j, 0.0))


def _load(quanta: Quanta, t_ns: Sequence[NDArray[np.int64]], assumed: Sequence[Floats]) -> Load:
    located = tuple(LocatedSegments(t, j, quanta.edges_ns) for t, j in zip(t_ns, assumed, strict=True))
    nothing = np.zeros(len(quanta))
    return Load(quanta, (), located, (), nothing, nothing)


def _shares_of(load: Load) -> list[Floats]:
    rate = rates(padded(load.quanta.energy_j), load.modelled())
    return [gather(thread, rate) for thread in load.located]


def _instances(
    t_ns: NDArray[np.int64], slot: NDArray[np.int32], true_j: Floats, given_j: Floats
) -> tuple[Floats, Floats, Floats]:
    """Sum over instances, without those cut by the ends of the slice."""
    count = int(slot.max()) + 1
    seconds, true, given = (sum_by(slot, part, count) for part in (np.diff(t_ns) * 1e-9, true_j, given_j))
    whole = (seconds > 0) & (true > 0)
    whole[[0, slot[0], slot[-1]]] = False
    return seconds[whole], true[whole], given[whole]


def _by_length(seconds: Floats, true_j: Floats, given_j: Floats) -> pd.DataFrame:
    half_decade = np.floor(2 * np.log10(seconds)).astype(np.int64)
    rows = []
    for one in np.unique(half_decade):
        own = half_decade == one
        error = np.sqrt(((given_j[own] - true_j[own]) ** 2).mean()) / true_j[own].mean()
        rows.append((10 ** (one / 2), 10 ** ((one + 1) / 2), int(own.sum()), float(error)))
    return pd.DataFrame(rows, columns=list(COLUMNS))
