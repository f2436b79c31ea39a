"""Dependences of tasks that have keys, as dask's: which instance made what another one needed, and when it could run.

A key may belong to several instances: a task was tried again, or computed again after its worker was lost. What an
instance needed came from the last of those that had ended without failure when it started. Clocks of hosts agree only
within an error, so an instance of another host may have made it even if it seems to have ended up to that much later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.trace.long_arrays import Appended, AppendedColumns, blocks, empty, release, zeros
from tprof.trace.long_sorts import places, sorted_columns

from .runs import count_until, joined_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .instance_keys import InstanceKeys
    from .instances import Ran
    from .runtime_events import Ids

Rows = NDArray[np.int32]
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Needs:
    """What instances made, and what they needed.

    Attributes
    ----------
    keyed : (n,) rows of instances that have a key
    maker, made : (k,) rows of instances that ended without failure, and their keys' hashes
    waiting, needed : (m,) rows of instances, and the hashes of the keys that they needed
    """

    keyed: Rows
    maker: Rows
    made: Ids
    waiting: Rows
    needed: Ids


@dataclass(frozen=True)
class Clocks:
    """How well the clocks of the instances' hosts are known.

    Attributes
    ----------
    host : (rows,) the number of each instance's host
    error_ns : (hosts,) the most by which the clock of each may be off
    """

    host: Rows
    error_ns: Times

    def between(self, rows: Rows, others: Rows) -> Times:
        """Return the most by which the difference of two instances' times may be off; -1 on the same host."""
        one, other = self.host[rows], self.host[others]
        return np.where(one == other, -1, self.error_ns[one] + self.error_ns[other])


def needs_of(keys: InstanceKeys, ran: Ran) -> Needs:
    """Find the rows of instances that have keys or needed some."""
    keyed, made, needed = (
        Appended(np.int32), AppendedColumns(np.int32, np.uint64), AppendedColumns(np.int32, np.uint64)
    )  # fmt: skip
    for at in blocks(len(keys.instance), keys.instance, keys.key, ran.instance, ran.failed):
        rows = ran.rows(keys.instance[at])
        keyed.add(rows[rows >= 0])
        good = rows >= 0
        good[good] = ~ran.failed[rows[good]]
        made.add(rows[good], keys.key[at][good])
    for at in blocks(len(keys.waiting), keys.waiting, keys.needs, ran.instance):
        rows = ran.rows(keys.waiting[at])
        needed.add(rows[rows >= 0], keys.needs[at][rows >= 0])
    return Needs(keyed.finish(), *made.finish(), *needed.finish())


def joined_needs(parts: Sequence[Needs], offsets: Sequence[int]) -> Needs:
    """Join those of several hosts, whose rows begin at these offsets: the same key is the same task on all of them."""
    rows = joined_columns(parts, ("keyed", "maker", "waiting"), offsets)
    return Needs(**rows, **joined_columns(parts, ("made", "needed")))


def needed_rows(needs: Needs, start_ns: Times, end_ns: Times, clocks: Clocks | None = None) -> tuple[Rows, Rows, int]:
    """Return the rows of instances and of those that made what they needed; O((instances + needs) log instances).

    Parameters
    ----------
    needs : of all instances
    start_ns, end_ns : (rows,) of the instances
    clocks : of the instances' hosts; None: all are of one host

    Returns
    -------
    waits, waits_for : (edges,) rows
    contradicting : how many needs only an instance of another host could have made, which ended too late for it
    """
    if not len(needs.maker) or not len(needs.waiting):
        return np.empty(0, np.int32), np.empty(0, np.int32), 0
    makers = _Makers.of(needs, end_ns)
    found, contradicting = AppendedColumns(np.int32, np.int32), 0
    for at in blocks(len(needs.waiting), needs.waiting, needs.needed, start_ns):
        waiting = needs.waiting[at]
        source, is_made, late = makers.of_needs(needs.needed[at], waiting, start_ns[waiting], clocks)
        found.add(waiting[is_made], source[is_made])
        contradicting += late
    waits, waits_for = found.finish()
    return waits, waits_for, contradicting


@dataclass(frozen=True)
class _Makers:
    """What was made, by the hash of its key and then by time: (k,) each."""

    made: Ids
    end_ns: Times
    row: Rows

    @classmethod
    def of(cls, needs: Needs, end_ns: Times) -> _Makers:
        def read(at: slice) -> tuple[NDArray[Any], ...]:
            return needs.made[at], end_ns[needs.maker[at]], needs.maker[at]

        return cls(*sorted_columns(len(needs.maker), read, needs.made, needs.maker, end_ns, keys=2))

    def of_needs(
        self, hashes: Ids, waiting: Rows, at_ns: Times, clocks: Clocks | None
    ) -> tuple[Rows, NDArray[np.bool_], int]:
        """Return who made the keys with some hashes for whom, whether anybody did, and how many too late."""
        first = np.zeros(2 * len(hashes) + 1, np.int32)
        edges = first[:-1].reshape(-1, 2)
        edges[:, 0] = np.searchsorted(self.made, hashes)
        edges[:, 1] = np.searchsorted(self.made, hashes, side="right")
        rows = np.arange(0, 2 * len(hashes), 2, dtype=np.int32)
        ended = count_until(first, self.end_ns, rows, at_ns, inclusive=True)
        is_made, contradicting = ended > 0, 0
        # Where none had ended, the first that ended later.
        place = np.minimum(edges[:, 0] + np.maximum(ended - 1, 0), len(self.row) - 1)
        source = self.row[place]
        if clocks is not None:
            later = np.flatnonzero(~is_made & (edges[:, 1] > edges[:, 0]))
            error_ns = clocks.between(waiting[later], source[later])
            is_made[later] = self.end_ns[place[later]] - at_ns[later] <= error_ns
            contradicting = int(((error_ns >= 0) & ~is_made[later]).sum())
        release(self.made, self.end_ns, self.row)
        return source, is_made, contradicting


def earliest_spawn(keyed: Rows, start_ns: Times, end_ns: Times) -> Times:
    """Return when instances with keys may have been there to run, and the start of the others.

    The workers do not know when a task was submitted. It was there when what it needed was, so `waits` decides for a
    task that needs others. Any other counts as submitted when the workers last began to work after a time in which no
    task ran anywhere.
    """
    if not len(keyed):
        return start_ns
    has_key = zeros(len(start_ns), np.bool_)
    for at in blocks(len(keyed), keyed, has_key):
        has_key[keyed[at]] = True

    def read(at: slice) -> tuple[NDArray[Any], ...]:
        return start_ns[at], end_ns[at], places(at), has_key[at]

    by_start = sorted_columns(len(start_ns), read, start_ns, end_ns, has_key)
    found_ns = empty(len(start_ns), np.int64)
    last_ns = since_ns = np.iinfo(np.int64).min
    for at in blocks(len(start_ns), found_ns, *by_start):
        spawn_ns, ended_ns, row, of_keyed = (column[at] for column in by_start)
        ended_ns = np.maximum(np.maximum.accumulate(ended_ns), last_ns)
        begins = spawn_ns > np.append(last_ns, ended_ns[:-1])
        begins[0] |= at.start == 0
        # Starts increase, so the last one at which work began again is the greatest.
        since = np.maximum(np.maximum.accumulate(np.where(begins, spawn_ns, since_ns)), since_ns)
        found_ns[row] = np.where(of_keyed, since, spawn_ns)
        last_ns, since_ns = ended_ns[-1], since[-1]
    return found_ns
