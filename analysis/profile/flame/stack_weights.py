"""What each sampled stack stands for: the joules and seconds of its thread since the sample before.

Segments are cut where stacks were sampled and share the joules once more, so that a stack gets the power of its own
time, not its segment's mean. A stack in a segment shorter than the time between samples stands for the others like it:
its weight is its segment's power times the whole time since the sample before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tprof.analysis.attribution.gpu import SCOPE as GPU
from tprof.analysis.attribution.instances import join_rows
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.stack_cuts import cut_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.attribution.instances import Joined
    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.segments import Segments
    from tprof.analysis.attribution.stack_cuts import Cuts
    from tprof.analysis.profile.recipe import Recipe

    from tprof.trace import Stacks, Thread, Trace

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Weighed:
    """The sampled stacks of one thread.

    Attributes
    ----------
    thread : whose they are
    stacks : of its process
    row : (n,) instance in which each was sampled, as a row of the table of instances; -1: outside tasks
    stack : (n,) number of the stack
    weight_j, weight_s : (n,) joules and seconds that it stands for
    outside_j, outside_s : of the thread outside tasks, and its CPU seconds there
    """

    thread: Thread
    stacks: Stacks | None
    row: Integers
    stack: Integers
    weight_j: Floats
    weight_s: Floats
    outside_j: float
    outside_s: float


def weigh_stacks(recipe: Recipe, trace: Trace) -> list[Weighed]:
    """Read the trace and its stacks once more, and return the weights of every thread's stacks."""
    by_process = {one.process: one for one in trace.stacks()}
    activity = recipe.read(trace)
    joined = join_rows([one.rows for one in activity.segments])
    domains = [domain for domain in recipe.quanta if domain.counted and len(domain) and domain.scope != GPU]
    whole_j = _energies(recipe, domains, activity)
    cuts = [_cut(one, by_process.get(one.thread.process)) for one in activity.segments]
    fits = {name: replace(fit, factors=_spread(fit.factors, cuts)) for name, fit in recipe.fits.items()}
    pieces = replace(activity, segments=[one.segments for one in cuts])
    pieces_j = _energies(replace(recipe, fits=fits), domains, pieces)
    return [
        _weighed(one, by_process.get(one.thread.process), cut, joules, place)
        for one, cut, joules, place in zip(
            activity.segments, cuts, _scaled(cuts, pieces_j, whole_j), _places(joined), strict=True
        )
    ]


def _cut(one: Segments, stacks: Stacks | None) -> Cuts:
    mine = np.zeros(0, np.int64) if stacks is None else np.flatnonzero(stacks.tid == one.thread.tid)
    if stacks is None:
        return cut_at(one, mine, mine)
    cuts = cut_at(one, stacks.t_ns[mine], stacks.cpu_ns[mine])
    return replace(cuts, sample=mine[cuts.sample])


def _spread(
    factors: Sequence[NDArray[np.float32]] | None, cuts: Sequence[Cuts]
) -> tuple[NDArray[np.float32], ...] | None:
    """Return the factors of the pieces; those of native pools, which follow the threads, stay."""
    if factors is None:
        return None
    of_threads = (factors[number][one.owner] for number, one in enumerate(cuts))
    return (*of_threads, *factors[len(cuts) :])


def _energies(recipe: Recipe, domains: Sequence[Quanta], activity: Activity) -> list[Floats]:
    """Return the joules of each thread's segments."""
    found = [np.zeros(len(one.slot)) for one in activity.segments]
    for domain in domains:
        plan = recipe.plan(domain, activity)
        for number in range(len(found)):
            shares, static_j = plan.segment_shares(number)
            found[number] += shares.energy_j + (0.0 if static_j is None else static_j)
    return found


def _scaled(cuts: Sequence[Cuts], pieces_j: Sequence[Floats], whole_j: Sequence[Floats]) -> list[Floats]:
    """Return the joules of pieces, which add up to those of their segments."""
    found = []
    for cut, part_j, segment_j in zip(cuts, pieces_j, whole_j, strict=True):
        sum_j = sum_by(cut.owner, part_j, len(segment_j))
        factor = np.divide(segment_j, sum_j, out=np.zeros(len(sum_j)), where=sum_j > 0)
        found.append(part_j * factor[cut.owner])
    return found


def _places(joined: Joined) -> list[Integers]:
    return [np.arange(one.start, one.stop) if isinstance(one, slice) else one.astype(np.int64) for one in joined.places]


def _weighed(one: Segments, stacks: Stacks | None, cut: Cuts, joules: Floats, place: Integers) -> Weighed:
    length_s = np.diff(cut.segments.t_ns) * 1e-9
    power_w = np.divide(joules, length_s, out=np.zeros(len(joules)), where=length_s > 0)
    # A sample at the very begin of its segment ends a piece of the one before, or none.
    at = np.where(length_s[cut.before] > 0, cut.before, np.minimum(cut.before + 1, len(length_s) - 1))
    slot = cut.segments.slot[at].astype(np.int64)
    row = np.append(place, -1)[slot - 1]
    is_outside = cut.segments.slot == 0
    return Weighed(
        one.thread,
        stacks,
        np.where(slot > 0, row, -1),
        np.zeros(0, np.int64) if stacks is None else stacks.stack[cut.sample],
        power_w[at] * cut.gap_s,
        cut.gap_s,
        float(joules[is_outside].sum()),
        float(one.cpu_s[one.slot == 0].sum()),
    )
