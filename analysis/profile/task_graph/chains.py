"""A chain of instances, each of which had to run after the one before, in columns of any length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace.long_arrays import AppendedColumns, blocks, computed

if TYPE_CHECKING:
    from .instances import Instances, Named
    from .runs import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """Instances in order: (k,) each, as `CriticalPath` describes them."""

    named: Named
    start_s: Floats
    path_s: Floats
    energy_j: Floats

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.start_s)

    def joules(self) -> float:
        """Return the sum of resolved joules, NaN if there are none."""
        sums, known = 0.0, 0
        for at in blocks(len(self), self.energy_j):
            resolved = ~np.isnan(self.energy_j[at])
            sums, known = sums + float(self.energy_j[at][resolved].sum()), known + int(resolved.sum())
        return sums if known else float("nan")

    def table(self) -> pd.DataFrame:
        """Return the table of a chain."""
        columns: dict[str, Any] = {
            "task": np.asarray(self.named.tasks(), object),
            "instance": self.named.instance,
            "start_s": self.start_s,
            "path_s": self.path_s,
            "energy_j": self.energy_j,
        }
        hosts = self.named.host_names()
        return pd.DataFrame(columns if hosts is None else {"host": hosts, **columns})


def chain_of(instances: Instances, row_of: Rows, nodes: Rows, share: Floats) -> Chain:
    """Return the instances of a path of nodes, last to first, each with the share of its instance that is on the path.

    Parameters
    ----------
    row_of : the instance of each node; nodes of an instance follow each other
    """
    rows, shares = _by_row(row_of, nodes, share)

    def found(values: NDArray[Any], scale: float) -> Floats:
        return computed(len(rows), np.float64, lambda at: shares[at] * values[rows[at]] * scale, shares, rows, values)

    start_ns = instances.start_ns
    start_s = computed(len(rows), np.float64, lambda at: start_ns[rows[at]] * 1e-9, rows, start_ns)
    return Chain(instances.named(rows), start_s, found(instances.own_ns, 1e-9), found(instances.energy_j, 1.0))


def _by_row(row_of: Rows, nodes: Rows, share: Floats) -> tuple[Rows, Floats]:
    """Return the instances of which a share is on the path, first to last, and the shares."""
    found = AppendedColumns(np.int32, np.float64)
    last, last_share = np.empty(0, np.int32), np.empty(0)
    for at in blocks(len(nodes), nodes, share, row_of, backwards=True):
        is_on = share[at][::-1] > 0
        on = np.concatenate((last, row_of[nodes[at][::-1][is_on]]))
        parts = np.concatenate((last_share, share[at][::-1][is_on]))
        if len(on):
            begins = np.flatnonzero(np.diff(on, prepend=-1))
            on, parts = on[begins], np.add.reduceat(parts, begins)
        # The first node of the next block may be of the last instance.
        found.add(on[:-1], parts[:-1])
        last, last_share = on[-1:], parts[-1:]
    found.add(last, last_share)
    rows, shares = found.finish()
    return rows, shares
