"""Books one domain's joules to accounts: tasks, runtime, other, idle; their sum is the measured energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .attribution import sum_by
from .profile.intervals import Bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .instances import Joined
    from .segments import Segments
    from .sharing import Sharing

Floats = NDArray[np.float64]


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
        """Start with zeros."""
        return cls(np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows, bool))


@dataclass(frozen=True)
class Account:
    """One domain's joules by account; NaN if it measured none."""

    domain: str
    measured_j: float
    tasks_j: float
    runtime_j: float
    other_j: float
    idle_j: float


def settle(sharing: Sharing, segments: Sequence[Segments], joined: Joined, totals: Totals | None) -> Account:
    """Distribute one domain's joules and return its account; adds to `totals` if the domain counts."""
    quanta = sharing.measured
    bounds = Bounds.of(quanta, sharing.dynamic_j, joined.rows)
    tasks_j = runtime_j = 0.0
    for index, thread in enumerate(segments):
        shares, static_j = sharing.segment_shares(index)
        count = len(thread.rows) + 1
        dynamic = sum_by(thread.slot, shares.energy_j, count)
        runtime_j += float(dynamic[0])
        tasks_j += float(dynamic[1:].sum())
        if totals is not None and count > 1:
            place = joined.places[index]
            edge = bounds.edge_part(sharing.quantum(index), shares, thread.slot, place)
            for target, value in ((totals.dynamic_j, dynamic), (bounds.edge_j, edge)):
                _add(target, place, value[1:])
        if static_j is not None:
            static = sum_by(thread.slot, static_j, count)
            runtime_j += float(static[0])
            tasks_j += float(static[1:].sum())
            if totals is not None and count > 1:
                _add(totals.static_j, joined.places[index], static[1:])
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
