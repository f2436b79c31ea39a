"""What a recording says of instances besides its samples: events of a task runtime, and keys of an engine's tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tprof.trace import EventKind, layout
from tprof.trace.graph import notes_of
from tprof.trace.keys import read_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tprof.trace import Trace

UNKNOWN = np.iinfo(np.int64).min
"""A time that no event says."""


@dataclass(frozen=True)
class RuntimeEvents:
    """What the events of a task runtime say.

    Attributes
    ----------
    table : the events of known kinds, file by file: t_ns (CLOCK_MONOTONIC), kind, instance, other (the instance that it
        names besides: which spawned it, for which it waits, or whose end made it ready; 0: none), task, worker, and the
        ordinals of their thread and process
    notes : sentences on missing events
    """

    table: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of events of known kinds."""
        return len(self.table)

    def of(self, *kinds: EventKind) -> pd.DataFrame:
        """Return the events of some kinds."""
        return self.table[self.table["kind"].isin(kinds)]

    @cached_property
    def spawns(self) -> pd.DataFrame:
        """When instances were spawned: the earliest event of each, index `instance`."""
        return self._earliest(EventKind.SPAWN)

    @cached_property
    def releases(self) -> pd.DataFrame:
        """When instances could run, as `spawns`."""
        return self._earliest(EventKind.READY)

    @cached_property
    def steals(self) -> pd.DataFrame:
        """When a worker took instances from another one, as `spawns`."""
        return self._earliest(EventKind.STEAL)

    @cached_property
    def cancels(self) -> pd.DataFrame:
        """When instances were cancelled before they ran, as `spawns`."""
        return self._earliest(EventKind.CANCEL)

    def _earliest(self, kind: EventKind) -> pd.DataFrame:
        events = self.of(kind)
        by_time = events[events["instance"] != 0].sort_values("t_ns", kind="stable")
        return by_time.drop_duplicates("instance").set_index("instance")


def looked_up(table: pd.DataFrame, instances: Any, name: str, absent: int) -> NDArray[Any]:
    """Return a column for some instances of a table's index, with another value for those that are not in it."""
    return table[name].reindex(instances, fill_value=absent).to_numpy()


def read_events(trace: Trace) -> RuntimeEvents:
    """Read the events of a trace. Raises TraceError."""
    parts = [pd.DataFrame(np.empty(0, layout.EVENT)).assign(thread=0, process=0)]
    parts += [pd.DataFrame(one.read()).assign(thread=one.ordinal, process=one.process) for one in trace.events]
    table = pd.concat(parts, ignore_index=True).astype({"t_ns": np.int64})
    is_known = table["kind"].isin(list(EventKind))
    return RuntimeEvents(table[is_known], notes_of(trace.events, int((~is_known).sum())))


def lifecycle_columns(events: RuntimeEvents, trace: Trace, tasks: pd.DataFrame) -> dict[str, Any]:
    """Return the columns that events add to some rows of the table of instances, with `parent` from the events.

    Times are adjusted to spawned <= ready <= started, which clocks of several processors may violate. In a window it is
    not known when instances started that ran when it began, nor so how long they had waited for a worker.
    """
    ids = tasks["instance"].to_numpy(np.uint64)
    start_s = tasks["start_s"].to_numpy()
    spawn_s, ready_s = (_seconds(trace, one, ids) for one in (events.spawns, events.releases))
    spawned_s = np.minimum(spawn_s, start_s)
    released_s = np.where(np.isnan(ready_s), np.nan, np.minimum(np.fmax(ready_s, spawned_s), start_s))
    ran_before = (start_s <= 0) & (trace.recorded is not None and trace.start_ns > trace.recorded.start_ns)
    spawner = looked_up(events.spawns, ids, "other", 0)
    return {
        "parent": np.where(np.isnan(spawn_s), tasks["parent"].to_numpy(np.uint64), spawner),
        "spawn_s": spawned_s,
        "ready_s": released_s,
        "wait_data_s": released_s - spawned_s,
        "wait_worker_s": np.where(ran_before, np.nan, start_s - released_s),
        "stolen": np.isin(ids, events.steals.index),
    }


def _seconds(trace: Trace, events: pd.DataFrame, instances: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return when the events of instances were, from the start of the recorded block; NaN without one."""
    t_ns = looked_up(events, instances, "t_ns", UNKNOWN)
    return np.where(t_ns == UNKNOWN, np.nan, (t_ns - trace.start_ns) * 1e-9)


@dataclass(frozen=True)
class InstanceKeys:
    """The keys of instances. Two of ten million keys have the same hash with a probability of 3 in a million.

    Attributes
    ----------
    notes : sentences on what was left out
    made : index `instance`: text and hash of its key
    needs : instance, and the hash of a key that it needed
    """

    notes: tuple[str, ...]
    made: pd.DataFrame = field(repr=False)
    needs: pd.DataFrame = field(repr=False)

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self.made)


def read_instance_keys(trace: Trace) -> InstanceKeys:
    """Read the keys of a trace's instances; of several of one instance the first counts. Raises TraceError."""
    notes: list[str] = []
    texts: dict[int, str] = {}
    needs: list[tuple[int, int]] = []
    for number, text, needed in read_keys(trace.key_files, notes):
        texts.setdefault(number, text)
        needs += ((number, _hash(one)) for one in needed)
    # As objects, since not every text may be stored as UTF-8.
    made = pd.DataFrame({"text": pd.Series(list(texts.values()), dtype=object)}).set_index(
        pd.Index(np.array(list(texts), np.uint64), name="instance")
    )
    made["hash"] = np.array([_hash(text) for text in texts.values()], np.uint64)
    pairs = np.array(needs, np.uint64).reshape(-1, 2)
    return InstanceKeys(tuple(notes), made, pd.DataFrame(pairs, columns=["instance", "hash"]))


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
