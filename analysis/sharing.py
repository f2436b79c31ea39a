"""How one domain's quanta are shared: by modelled energy, among our segments and CPU time that no sample shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .attribution import Lane, Rate, Shares, gather, locate, padded, rates, spread
from .segments import task_of
from .static import Static, plan_static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .busy import Unseen
    from .quanta import Quanta
    from .segments import Segments

Floats = NDArray[np.float64]
WAITING = 0.05
"""Of one core: where all together are busy for less, tasks wait rather than run."""


@dataclass(frozen=True)
class Sharing:
    """What each thread's segments are multiplied with, and what goes to nobody's segments.

    Attributes
    ----------
    lanes : per thread, with modelled energy
    rate : joules per modelled unit in each quantum
    dynamic_j : (k,) joules of each quantum without its static ones
    static, busy_lanes : how static joules are shared, with CPU seconds as modelled energy; None and () without any
    """

    quanta: Quanta
    lanes: tuple[Lane, ...]
    rate: Rate
    dynamic_j: Floats
    static: Static | None
    busy_lanes: tuple[Lane, ...]
    other_j: float
    unseen_j: float
    idle_j: float

    def segment_shares(self, index: int) -> tuple[Shares, Floats | None]:
        """Return dynamic shares and static joules of one thread's segments."""
        edges_ns = self.quanta.edges_ns
        shares = gather(self.lanes[index], edges_ns, self.rate)
        if self.static is None:
            return shares, None
        row = self.static.cores[index]
        return shares, gather(self.busy_lanes[index], edges_ns, self.static.rate, row=row).energy_j


@dataclass(frozen=True)
class Load:
    """All that ran while one domain was read.

    Attributes
    ----------
    segments : of all threads
    lanes : the same against the domain's quanta, with modelled energy; parts on other packages left out
    busy_lanes : the same with CPU seconds
    other_s, unseen_s : (k,) CPU seconds of other processes, and of our threads that no sample shows
    """

    quanta: Quanta
    segments: Sequence[Segments]
    lanes: tuple[Lane, ...]
    busy_lanes: tuple[Lane, ...]
    other_s: Floats
    unseen_s: Floats

    @classmethod
    def of(cls, quanta: Quanta, segments: Sequence[Segments], unseen: Unseen, packages: Sequence[int]) -> Load:
        """Lay all segments against the quanta of a domain; `packages` are the machine's."""
        edges_ns = quanta.edges_ns
        weights = [_weight(segment, quanta.package, packages) for segment in segments]
        lanes = tuple(
            Lane(
                segment.t_ns,
                segment.modelled if weight is None else segment.modelled * weight,
                locate(segment.t_ns, edges_ns),
            )
            for segment, weight in zip(segments, weights, strict=True)
        )
        busy_lanes = tuple(
            Lane(segment.t_ns, _timed(segment, weight), lane.quantum)
            for segment, weight, lane in zip(segments, weights, lanes, strict=True)
        )
        package = quanta.package
        return cls(
            quanta, segments, lanes, busy_lanes, unseen.other_in(edges_ns, package), unseen.unseen_in(edges_ns, package)
        )

    def corrected(self, power: Floats) -> Load:
        """Return the load with the modelled energy of each task times its power, (tasks + 1,), last: between tasks."""
        lanes = tuple(
            Lane(lane.t_ns, lane.modelled * power[task_of(segment, len(power) - 1)], lane.quantum)
            for lane, segment in zip(self.lanes, self.segments, strict=True)
        )
        return replace(self, lanes=lanes)


def plan_sharing(load: Load, static_power_w: float | Floats, hidden_power: float | None = None) -> Sharing:
    """Work out the rates of one domain.

    Parameters
    ----------
    load : what ran
    static_power_w : of the domain, of each quantum or always; 0 if not known
    hidden_power : modelled power of CPU time that no sample shows; by default the mean of what samples show
    """
    quanta, segments, lanes, busy_lanes = load.quanta, load.segments, load.lanes, load.busy_lanes
    hidden_s = (load.other_s, load.unseen_s)
    edges_ns = quanta.edges_ns
    width = len(edges_ns) + 1
    seconds = np.diff(edges_ns) * 1e-9
    static_j = np.minimum(quanta.energy_j, static_power_w * seconds)
    dynamic_j = quanta.energy_j - static_j
    seen = sum((spread(lane, edges_ns) for lane in lanes), np.zeros(width))
    mean = _mean_power(seen, busy_lanes, edges_ns) if hidden_power is None else np.full(width, hidden_power)
    untasked = _without_tasks(segments, lanes, edges_ns)
    total = seen + mean * padded(hidden_s[0] + hidden_s[1])
    # Where less than one core is busy and no task runs, or nearly nothing runs, the rest is idle.
    least = np.where(untasked, 1.0, WAITING) * mean * padded(seconds)
    claimed = np.where(total > 0, np.maximum(total, least), total)
    rate = rates(padded(dynamic_j), claimed)
    per_second = (rate * mean)[1:-1]
    static = None
    if static_j.any():
        static = plan_static(segments, busy_lanes, edges_ns, static_j, hidden_s)
    return Sharing(
        quanta,
        lanes,
        Rate.of(rate, edges_ns),
        dynamic_j,
        static,
        busy_lanes if static is not None else (),
        other_j=float(per_second @ hidden_s[0]) + (static.other_j if static else 0.0),
        unseen_j=float(per_second @ hidden_s[1]) + (static.unseen_j if static else 0.0),
        idle_j=float(padded(dynamic_j)[claimed <= 0].sum() + rate @ (claimed - total))
        + (static.idle_j if static else 0.0),
    )


def _without_tasks(
    segments: Sequence[Segments], lanes: Sequence[Lane], edges_ns: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return the quanta in which no instance runs, padded."""
    width = len(edges_ns) + 1
    crowd = np.zeros(width + 1, np.int64)
    for segment, lane in zip(segments, lanes, strict=True):
        at = np.flatnonzero((segment.slot > 0) & (segment.t_ns[1:] > segment.t_ns[:-1]))
        last = lane.quantum[at + 1].astype(np.int64)
        # A segment that ends on an edge has no part in the quantum that begins there.
        last -= edges_ns[np.maximum(last - 1, 0)] == segment.t_ns[at + 1]
        crowd += np.bincount(lane.quantum[at], minlength=width + 1)
        crowd -= np.bincount(last + 1, minlength=width + 1)
    return np.asarray(np.cumsum(crowd)[:width] == 0)


def _timed(segment: Segments, weight: Floats | None) -> Floats:
    """CPU seconds of segments that have length."""
    cpu_s = np.where(segment.t_ns[1:] > segment.t_ns[:-1], segment.cpu_s, 0.0)
    return cpu_s if weight is None else cpu_s * weight


def _weight(lane: Segments, package: int | None, packages: Sequence[int]) -> Floats | None:
    """Part of each segment that lies on a package: half if one end does, an even part if nobody knows."""
    if package is None or len(packages) < 2 or lane.package is None or lane.package_end is None:
        return None
    even = 1.0 / len(packages)
    begin, end = (np.where(np.isin(side, packages), side == package, even) for side in (lane.package, lane.package_end))
    return (begin + end) / 2


def _mean_power(seen: Floats, core_lanes: Sequence[Lane], edges_ns: NDArray[np.int64]) -> Floats:
    """Modelled power per busy second in each quantum; of the recording, else 1, where nobody seen runs."""
    cpu_s = sum((spread(lane, edges_ns) for lane in core_lanes), np.zeros_like(seen))
    overall = seen.sum() / cpu_s.sum() if cpu_s.sum() > 0 and seen.sum() > 0 else 1.0
    usable = (cpu_s > 1e-12) & (seen > 0)
    return np.divide(seen, cpu_s, out=np.full_like(seen, overall), where=usable)
