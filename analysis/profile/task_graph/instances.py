"""The instances of one host as its own trace has them, and those of several hosts on one clock.

What an instance needed may have been made on another host, and workers may have been idle on all of them, so this is
what every host contributes before it is found what each instance waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tprof.analysis.attribution.segments import begun_in
from tprof.analysis.profile.memory import GRAPH_BYTES, lacking

from tprof.errors import UsageError
from tprof.trace import EventKind

from .events import UNKNOWN, looked_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.instances import Piece

    from tprof.trace import Trace

Rows = NDArray[np.intp]
Times = NDArray[np.int64]
TIMES = ["start_ns", "end_ns", "spawn_ns", "ready_ns"]
FROM_TASKS = ("instance", "task", "energy_j", "parent", "failed", "stolen", "wait_data_s", "wait_worker_s")
NOT_NAMED = -2
"""No event names the instance whose end made another one ready."""


@dataclass(frozen=True)
class Instances:
    """The instances of one host or of several, when they ran, and what events and keys say of what they waited for.

    Attributes
    ----------
    table : by row, of one host in order of ids; times in ns from the start of the recorded block: instance (its id),
        task, energy_j (exclusive of nested tasks; NaN if not resolved), failed, own_s and own_ns (in which its thread
        ran it), start_ns, end_ns, spawn_ns and ready_ns (by events, `UNKNOWN` without), parent (row of the instance
        that spawned it, or in which it nests; -1: none), releaser (row of the instance whose end made it ready, by
        events; -1: none; `NOT_NAMED`), key (hash; 0: none); with events also stolen, wait_data_s and wait_worker_s; of
        several hosts also host, and error_ns, the most by which its clock may be off
    edges : waits, waits_for: rows of instances and of their dependences, by events, each pair once
    needs : row, and the hash of a key that it needed
    runs : when threads ran them, by row and then by time: row, begin_ns, end_ns, thread (its ordinal), before (the
        thread's previous run; -1: none)
    """

    table: pd.DataFrame
    edges: pd.DataFrame
    needs: pd.DataFrame
    runs: pd.DataFrame

    @cached_property
    def ids(self) -> pd.Index[int]:
        """The ids of the instances of one host, in which their rows are found."""
        ids: pd.Index[int] = pd.Index(self.table["instance"])
        return ids

    @property
    def first_runs(self) -> Rows:
        """Where the runs of each row begin, (rows + 1,)."""
        return np.searchsorted(self.runs["row"], np.arange(len(self.table) + 1))


def read_instances(profile: Profile) -> Instances:
    """Combine a profile's instances with the trace's samples, events and keys. Raises UsageError without memory."""
    if (lack := lacking(profile.sums.rows, GRAPH_BYTES)) is not None:
        raise UsageError(f"what {profile.sums.rows:,} instances waited for {lack}: take a window of time, --between")
    parts: list[pd.DataFrame] = []
    profile.instances.share(lambda piece: parts.append(_of_piece(profile.trace, piece)))
    table = pd.concat(parts).sort_values("instance", ignore_index=True)
    ids, events, keys = pd.Index(table["instance"]), profile.events, profile.keys
    named = events.of(EventKind.DEPENDENCE, EventKind.READY)
    edges = pd.DataFrame(
        {"waits": ids.get_indexer(named["instance"]), "waits_for": ids.get_indexer(named["other"])}
    ).drop_duplicates()
    other = looked_up(events.releases, ids, "other", 0)
    releaser = ids.get_indexer(other)
    is_named = ids.isin(events.releases.index) & ((releaser >= 0) | (other == 0))
    table = table.assign(
        parent=ids.get_indexer(table["parent"]), releaser=np.where(is_named, releaser, NOT_NAMED),
        key=looked_up(keys.made, ids, "hash", 0),
    )  # fmt: skip
    needs = keys.needs.assign(row=ids.get_indexer(keys.needs["instance"]))
    return Instances(
        table,
        edges[(edges >= 0).all(axis=1)].sort_values(["waits", "waits_for"]),
        needs.loc[needs["row"] >= 0, ["row", "hash"]],
        _read_runs(profile, ids),
    )


def _of_piece(trace: Trace, piece: Piece) -> pd.DataFrame:
    tasks = piece.tasks
    start_ns, length_ns, own_ns = map(_ns, (tasks["start_s"], tasks["duration_s"], piece.own_s))
    return tasks[[name for name in FROM_TASKS if name in tasks]].assign(
        own_s=piece.own_s, own_ns=np.minimum(own_ns, length_ns), start_ns=start_ns, end_ns=start_ns + length_ns,
        spawn_ns=_in_window(trace, tasks, "spawn_s"), ready_ns=_in_window(trace, tasks, "ready_s"),
    )  # fmt: skip


def _in_window(trace: Trace, tasks: pd.DataFrame, name: str) -> Times:
    """Return times that may be unknown, not before a window: chains are followed in the window only."""
    found = np.full(len(tasks), UNKNOWN)
    if name in tasks:
        known = tasks[name].notna().to_numpy()
        t_ns = _ns(tasks[name].to_numpy()[known])
        found[known] = t_ns if trace.recorded is None else np.maximum(t_ns, 0)
    return found


def _ns(seconds: Any) -> Times:
    """Return whole nanoseconds; exact below a hundred days, where a float's step is less than half a nanosecond."""
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


def _read_runs(profile: Profile, ids: pd.Index[int]) -> pd.DataFrame:
    """Return the runs of all threads; one may go on from one window into the next."""
    start_ns = profile.trace.start_ns
    parts: list[tuple[NDArray[Any], ...]] = [(np.empty(0, np.int64),) * 4]
    for own_ns, segments in profile.host_instances.segments():
        for one in segments:
            own = begun_in(one.t_ns, own_ns)
            t_ns = one.t_ns[own.start : own.stop + 1] - start_ns
            row = ids.get_indexer(pd.Index(one.owners.instance[one.slot[own]]))
            parts.append(_joined(np.full(len(row), one.thread.ordinal), row, t_ns[:-1], t_ns[1:]))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    by_thread = np.argsort(columns[0], kind="stable")
    names = "thread", "row", "begin_ns", "end_ns"
    runs = pd.DataFrame(dict(zip(names, _joined(*(column[by_thread] for column in columns)), strict=True)))
    runs = runs[runs["row"] >= 0].reset_index(drop=True)
    order = runs.sort_values(["row", "begin_ns"]).index.to_numpy()
    place_before = np.roll(np.argsort(order), 1)
    before = np.where(runs["thread"] == runs["thread"].shift(), place_before, -1)
    return runs.assign(before=before).iloc[order].reset_index(drop=True)


def _joined(thread: Times, row: Rows, begin_ns: Times, end_ns: Times) -> tuple[NDArray[Any], ...]:
    """Join what one thread ran of one instance without a pause."""
    goes_on = (thread[1:] == thread[:-1]) & (row[1:] == row[:-1]) & (begin_ns[1:] == end_ns[:-1])
    is_first = np.append(True, ~goes_on)[: len(row)]
    return thread[is_first], row[is_first], begin_ns[is_first], end_ns[np.roll(is_first, -1)]


def on_one_clock(
    hosts: Sequence[str], parts: Sequence[Instances], late_ns: Sequence[int], error_ns: Sequence[int]
) -> Instances:
    """Join the instances of several hosts.

    Parameters
    ----------
    hosts : their names; several recordings of one host have one
    parts : the instances of each
    late_ns : when the recorded block of each began, from the earliest begin
    error_ns : the most by which the clock of each may be off
    """
    found: list[tuple[pd.DataFrame, ...]] = []
    rows = runs = 0
    for host, one, late, error in zip(hosts, parts, late_ns, error_ns, strict=True):
        table = one.table.assign(host=host, error_ns=error, task=one.table["task"].astype(object))
        table[TIMES] = _later(table[TIMES], late, UNKNOWN)
        table[["parent", "releaser"]] = _later(table[["parent", "releaser"]], rows, -1)
        of_runs = one.runs.assign(row=one.runs["row"] + rows, before=_later(one.runs["before"], runs, -1))
        of_runs[["begin_ns", "end_ns"]] += late
        found.append((table, one.edges + rows, one.needs.assign(row=one.needs["row"] + rows), of_runs))
        rows, runs = rows + len(table), runs + len(of_runs)
    return Instances(*(pd.concat(tables, ignore_index=True) for tables in zip(*found, strict=True)))


def _later(values: Any, more: int, none: int) -> Any:
    """Return values that are so much greater, but for those that stand for none, and less."""
    return values.where(values <= none, values + more)
