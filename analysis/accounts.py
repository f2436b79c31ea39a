"""One domain's joules to their accounts: tasks, runtime, other, idle; they sum to what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .attribution import (
    Lane,
    Rate,
    Shares,
    gather,
    locate,
    padded,
    rates,
    spread,
    sum_by,
)
from .intervals import Bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .busy import Unseen
    from .instances import Joined
    from .quanta import Quanta
    from .segments import Segments

Floats = NDArray[np.float64]
_NO_CPU = 0xFFFF


@dataclass
class Totals:
    """Joules of each instance, summed over the domains that count; `covered` if any quantum holds it."""

    dynamic_j: Floats
    static_j: Floats
    low_j: Floats
    high_j: Floats
    covered: NDArray[np.bool_]

    @classmethod
    def zeros(cls, rows: int) -> Totals:
        """Start at nothing."""
        return cls(np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows, bool))


@dataclass(frozen=True)
class Account:
    """Where one domain's joules went; NaN if it measured none."""

    domain: str
    measured_j: float
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float


@dataclass(frozen=True)
class Sharing:
    """How one domain's quanta are shared: what each thread's segments are multiplied with."""

    quanta: Quanta
    lanes: tuple[Lane, ...]
    dynamic: Rate
    dynamic_j: Floats
    cores: tuple[NDArray[np.int64], ...]
    core_lanes: tuple[Lane, ...]
    static: Rate | None
    other_j: float
    unseen_j: float
    idle_j: float

    def segment_shares(self, index: int) -> tuple[Shares, Floats | None]:
        """Return dynamic shares and static joules of one thread's segments."""
        edges_ns = self.quanta.edges_ns
        shares = gather(self.lanes[index], edges_ns, self.dynamic)
        if self.static is None:
            return shares, None
        return shares, gather(self.core_lanes[index], edges_ns, self.static, row=self.cores[index]).energy_j


def plan_sharing(
    quanta: Quanta, segments: Sequence[Segments], unseen: Unseen, static_power_w: float, packages: Sequence[int]
) -> Sharing:
    """Work out the rates of one domain from all segments.

    Parameters
    ----------
    quanta : of the domain
    segments : of all threads
    unseen : CPU time that no sample shows
    static_power_w : of the domain, 0 if not known
    packages : numbers of the machine's packages
    """
    edges_ns = quanta.edges_ns
    weights = [_weight(lane, quanta.package, packages) for lane in segments]
    lanes = tuple(
        Lane(lane.t_ns, lane.modelled if weight is None else lane.modelled * weight, locate(lane.t_ns, edges_ns))
        for lane, weight in zip(segments, weights, strict=True)
    )
    width = len(edges_ns) + 1
    seen = sum((spread(lane, edges_ns) for lane in lanes), np.zeros(width))
    seconds = np.diff(edges_ns) * 1e-9
    static_j = np.minimum(quanta.energy_j, static_power_w * seconds)
    dynamic_j = quanta.energy_j - static_j
    other_s, hidden_s = unseen.other_in(edges_ns, quanta.package), unseen.unseen_in(edges_ns, quanta.package)
    present = bool((other_s > 0).any() or (hidden_s > 0).any())
    busy = present or static_power_w > 0
    core_lanes = tuple(
        Lane(lane.t_ns, _timed(segment, weight), lane.quantum)
        for segment, weight, lane in zip(segments, weights, lanes, strict=True)
    ) if busy else ()  # fmt: skip
    mean = _mean_power(seen, core_lanes, edges_ns) if present else np.zeros(width)
    total = seen + mean * padded(other_s + hidden_s)
    rate = rates(padded(dynamic_j), total)
    per_second = (rate * mean)[1:-1]
    plan = {
        "other_j": float(per_second @ other_s), "unseen_j": float(per_second @ hidden_s),
        "idle_j": float(dynamic_j[total[1:-1] <= 0].sum()),
    }  # fmt: skip
    if not static_power_w or not static_j.any():
        return Sharing(quanta, lanes, Rate.of(rate, edges_ns), dynamic_j, (), (), None, **plan)
    cores, static, extra = _static_rate(segments, core_lanes, edges_ns, static_j, (other_s, hidden_s))
    plan = {name: value + more for (name, value), more in zip(plan.items(), extra, strict=True)}
    return Sharing(quanta, lanes, Rate.of(rate, edges_ns), dynamic_j, cores, core_lanes, static, **plan)


def _timed(segment: Segments, weight: Floats | None) -> Floats:
    """CPU seconds of segments that have length."""
    cpu_s = np.where(segment.t_ns[1:] > segment.t_ns[:-1], segment.cpu_s, 0.0)
    return cpu_s if weight is None else cpu_s * weight


def _weight(lane: Segments, package: int | None, packages: Sequence[int]) -> Floats | None:
    """Part of each segment that lies on a package: half if one end does, an even part if nobody knows."""
    if package is None or len(packages) < 2 or lane.package is None or lane.package_end is None:
        return None
    even = 1.0 / len(packages)
    begin, end = (
        np.where(np.isin(side, packages), side == package, even) for side in (lane.package, lane.package_end)
    )
    return (begin + end) / 2


def _mean_power(seen: Floats, core_lanes: Sequence[Lane], edges_ns: NDArray[np.int64]) -> Floats:
    """Modelled power per busy second in each quantum; of the recording, else 1, where nobody seen runs."""
    cpu_s = sum((spread(lane, edges_ns) for lane in core_lanes), np.zeros_like(seen))
    overall = seen.sum() / cpu_s.sum() if cpu_s.sum() > 0 and seen.sum() > 0 else 1.0
    usable = (cpu_s > 1e-12) & (seen > 0)
    return np.divide(seen, cpu_s, out=np.full_like(seen, overall), where=usable)


def _static_rate(
    segments: Sequence[Segments],
    lanes: Sequence[Lane],
    edges_ns: NDArray[np.int64],
    static_j: Floats,
    hidden: tuple[Floats, Floats],
) -> tuple[tuple[NDArray[np.int64], ...], Rate, tuple[float, float, float]]:
    """Split static joules evenly over the cores that run in a quantum, within a core by CPU time.

    CPU time that no sample shows counts as the cores it fills. Returns the core of each segment,
    the rate by core, and what goes to other, unseen and idle.
    """
    names: dict[int, int] = {}
    cores = tuple(_cores(segment, index, names) for index, segment in enumerate(segments))
    width = len(edges_ns) + 1
    flat = sum(
        (
            spread(lane, edges_ns, row=core, rows=len(names))
            for lane, core in zip(lanes, cores, strict=True)
        ),
        np.zeros(len(names) * width),
    )
    busy = flat.reshape(len(names), width)
    seconds = padded(np.diff(edges_ns) * 1e-9)
    other, unseen = (
        np.divide(padded(part), seconds, out=np.zeros(width), where=seconds > 0) for part in hidden
    )
    running = (busy > 0).sum(axis=0) + other + unseen
    each_j = rates(padded(static_j), running)
    rate = Rate.of(rates(np.broadcast_to(each_j, busy.shape).ravel().copy(), flat), edges_ns)
    idle_j = float(padded(static_j)[running <= 0].sum())
    return cores, rate, (float(each_j @ other), float(each_j @ unseen), idle_j)


def _cores(segment: Segments, index: int, names: dict[int, int]) -> NDArray[np.int64]:
    """Number the cores; a thread whose core nobody knows counts as a core of its own."""
    lookup = np.zeros(_NO_CPU + 1, np.int64)
    for cpu in np.flatnonzero(np.bincount(segment.cpu)):
        key = int(cpu) if cpu != _NO_CPU else -1 - index
        lookup[cpu] = names.setdefault(key, len(names))
    return lookup[segment.cpu]


def settle(sharing: Sharing, segments: Sequence[Segments], joined: Joined, totals: Totals | None) -> Account:
    """Give out one domain's joules and return its account; `totals` is added to if the domain counts."""
    quanta = sharing.quanta
    bounds = Bounds.of(quanta, sharing.dynamic_j, joined.rows)
    tasks_j = runtime_j = 0.0
    for index, lane in enumerate(segments):
        shares, static_j = sharing.segment_shares(index)
        count = len(lane.rows) + 1
        dynamic = sum_by(lane.slot, shares.energy_j, count)
        static = sum_by(lane.slot, static_j, count) if static_j is not None else np.zeros(count)
        runtime_j += float(dynamic[0] + static[0])
        tasks_j += float(dynamic[1:].sum() + static[1:].sum())
        if totals is not None and count > 1:
            place = joined.places[index]
            edge = bounds.edge_part(sharing.lanes[index], shares, lane.slot, place)
            for target, value in ((totals.dynamic_j, dynamic), (totals.static_j, static), (bounds.edge_j, edge)):
                _add(target, place, value[1:])
    if totals is not None:
        bounds.finish(totals.low_j, totals.high_j, totals.covered)
    if not quanta.valid.any():
        return Account(quanta.name, *[float("nan")] * 5)
    return Account(
        quanta.name, quanta.measured_j, tasks_j, runtime_j + sharing.unseen_j, sharing.other_j, sharing.idle_j
    )


def _add(target: Floats, place: slice | NDArray[np.intp], values: Floats) -> None:
    if isinstance(place, slice):
        target[place] += values
    else:
        np.add.at(target, place, values)
