"""A chain of instances, each of which had to run after the one before, in columns of any length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tprof.trace.long_arrays import AppendedColumns, blocks, computed
from tprof.trace.long_sorts import changes, first_rows, sorted_arrays

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .instances import Instances, Named
    from .runs import Rows
    from .runtime_events import Ids

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
        return self._rows(slice(None))

    def parts(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of the table in parts, one at least."""
        for at in blocks(max(len(self), 1), self.start_s, self.path_s, self.energy_j):
            yield self._rows(at)

    def head(self, count: int) -> pd.DataFrame:
        """Return the first rows of the table."""
        return self._rows(slice(0, count))

    def by(self, *names: str) -> pd.DataFrame:
        """Return sums by task, host or both: index `names`, instances, path_s, energy_j; by falling time."""
        sums: list[pd.DataFrame] = []
        numbers: dict[Any, int] = {}
        seen = AppendedColumns(np.int32, np.uint64)
        for part in self.parts():
            grouped = part.groupby(list(names), sort=False, observed=True)
            some = grouped.agg(path_s=("path_s", "sum"))
            some["energy_j"] = grouped["energy_j"].sum(min_count=1)
            number = np.array([numbers.setdefault(one, len(numbers)) for one in some.index], np.int32)
            # Rows without a name are in no group.
            group = grouped.ngroup().fillna(-1).to_numpy(np.int64)
            seen.add(number[group[group >= 0]], part["instance"].to_numpy()[group >= 0])
            sums.append(some)
        table = pd.concat(sums).groupby(level=list(range(len(names))), sort=False).sum(min_count=1)
        table.insert(0, "instances", _distinct(len(numbers), *seen.finish()))
        return table.sort_values("path_s", ascending=False, kind="stable")

    def hosts(self) -> set[str]:
        """Return the names of its hosts; none for a chain of one host's own instances."""
        number = self.named.host
        found: set[int] = set()
        if number is not None:
            for at in blocks(len(number), number):
                found.update(np.unique(number[at]).tolist())
        return {self.named.hosts[one] for one in found if one >= 0}

    def host_changes(self) -> int:
        """Return how often it goes on to another host."""
        number = self.named.host
        if number is None:
            return 0
        begins = sum(int(changes(number, at).sum()) for at in blocks(len(number), number))
        return max(begins - 1, 0)

    def _rows(self, at: slice) -> pd.DataFrame:
        named = self.named.part(at)
        columns: dict[str, Any] = {
            "task": np.asarray(named.tasks(), object),
            "instance": named.instance,
            "start_s": self.start_s[at],
            "path_s": self.path_s[at],
            "energy_j": self.energy_j[at],
        }
        hosts = named.host_names()
        return pd.DataFrame(columns if hosts is None else {"host": hosts, **columns})


def _distinct(groups: int, group: Rows, instance: Ids) -> NDArray[np.int64]:
    """Return how many instances each group has, some of which occur more than once."""
    group, _ = first_rows(sorted_arrays([group, instance], keys=2), keys=2)
    return sum((np.bincount(group[at], minlength=groups) for at in blocks(len(group), group)), np.zeros(groups, int))


def chain_of(instances: Instances, rows: Rows, shares: Floats) -> Chain:
    """Return the instances of a path, first to last, of which these parts are on it."""

    def found(values: NDArray[Any], scale: float) -> Floats:
        return computed(len(rows), np.float64, lambda at: shares[at] * values[rows[at]] * scale, shares, rows, values)

    start_ns = instances.start_ns
    start_s = computed(len(rows), np.float64, lambda at: start_ns[rows[at]] * 1e-9, rows, start_ns)
    return Chain(instances.named(rows), start_s, found(instances.own_ns, 1e-9), found(instances.energy_j, 1.0))
