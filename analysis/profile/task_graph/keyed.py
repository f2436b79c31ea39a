"""Dependences of tasks that have keys, as dask's: which instance made what another one needed, and when it could run.

A key may belong to several instances: a task was tried again, or computed again after its worker was lost. What an
instance needed came from the last of those that had ended without failure when it started. Clocks of hosts agree only
within an error, so an instance of another host may have made it even if it seems to have ended up to that much later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .lifecycle import spawn_dependences
from .runs import count_until
from .runtime_events import distinct, stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.profile import Profile

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
    names : hashes of the keys, increasing
    keyed : (n,) rows of instances that have a key
    maker, made : (k,) rows of instances that ended without failure, and the places of their keys in `names`
    waiting, needed : (m,) rows of instances, and the places of the keys that they needed
    """

    names: Ids = field(repr=False)
    keyed: Rows
    maker: Rows
    made: Rows
    waiting: Rows
    needed: Rows


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
    names = stored(distinct(np.concatenate((keys.key, keys.needs))))
    rows, waiting = ran.rows(keys.instance).astype(np.int32), ran.rows(keys.waiting).astype(np.int32)
    made = rows >= 0
    made[made] = ~ran.failed[rows[made]]
    found = Needs(
        names, rows[rows >= 0], rows[made], _places(names, keys.key[made]), waiting[waiting >= 0],
        _places(names, keys.needs[waiting >= 0]),
    )  # fmt: skip
    keys.release()
    return found


def _places(names: Ids, keys: Ids) -> Rows:
    return np.searchsorted(names, keys).astype(np.int32)


def joined_needs(parts: Sequence[Needs], offsets: Sequence[int]) -> Needs:
    """Join those of several hosts, whose rows begin at these offsets: the same key is the same task on all of them."""
    names = distinct(np.concatenate([np.empty(0, np.uint64), *(one.names for one in parts)]))
    codes = [_places(names, one.names) for one in parts]
    every = list(zip(parts, codes, map(np.int32, offsets), strict=True))
    return Needs(
        names,
        np.concatenate([one.keyed + offset for one, _, offset in every]),
        np.concatenate([one.maker + offset for one, _, offset in every]),
        np.concatenate([code[one.made] for one, code, _ in every]),
        np.concatenate([one.waiting + offset for one, _, offset in every]),
        np.concatenate([code[one.needed] for one, code, _ in every]),
    )


def dependences(profile: Profile) -> pd.DataFrame:
    """Return one row for each dependence between instances, by events or by keys: `instance`, `waits_for`."""
    trace = profile.trace
    of_events = spawn_dependences(profile.events)
    if trace.recorded is not None and len(of_events):
        is_here = profile.ran.rows(of_events["instance"].to_numpy()) >= 0
        of_events = of_events[is_here].reset_index(drop=True)
    if not len(profile.keys):
        return of_events
    ran = profile.ran
    waits, waits_for, _ = needed_rows(needs_of(profile.keys, ran), ran.start_ns, ran.end_ns)
    of_keys = pd.DataFrame({"instance": ran.instance[waits], "waits_for": ran.instance[waits_for]})
    return pd.concat([of_events, of_keys], ignore_index=True).drop_duplicates(ignore_index=True)


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
    waiting, needed = needs.waiting, needs.needed
    if not len(needs.maker) or not len(waiting):
        return np.empty(0, np.int32), np.empty(0, np.int32), 0
    maker = needs.maker[np.lexsort((end_ns[needs.maker], needs.made))]
    of_key = np.bincount(needs.made, minlength=len(needs.names))
    first = np.concatenate(([0], np.cumsum(of_key))).astype(np.int32)
    ended = count_until(first, end_ns[maker], needed, start_ns[waiting], inclusive=True)
    found = ended > 0
    # Where none had ended, the first that ended later.
    place = first[needed] + np.maximum(ended - 1, 0)
    source, contradicting = maker[np.minimum(place, len(maker) - 1)], 0
    if clocks is not None:
        later = np.flatnonzero(~found & (of_key[needed] > 0))
        error_ns = clocks.between(waiting[later], source[later])
        found[later] = end_ns[source[later]] - start_ns[waiting[later]] <= error_ns
        contradicting = int(((error_ns >= 0) & ~found[later]).sum())
    return waiting[found], source[found], contradicting


def earliest_spawn(keyed: Rows, start_ns: Times, end_ns: Times) -> Times:
    """Return when instances with keys may have been there to run, and the start of the others.

    The workers do not know when a task was submitted. It was there when what it needed was, so `waits` decides for a
    task that needs others. Any other counts as submitted when the workers last began to work after a time in which no
    task ran anywhere.
    """
    if not len(keyed):
        return start_ns
    has_key = np.zeros(len(start_ns), bool)
    has_key[keyed] = True
    order = np.argsort(start_ns, kind="stable").astype(np.int32)
    ended_ns, spawn_ns = end_ns[order], start_ns[order]
    np.maximum.accumulate(ended_ns, out=ended_ns)
    begins = np.ones(len(order), bool)
    begins[1:] = spawn_ns[1:] > ended_ns[:-1]
    del ended_ns
    since = np.maximum.accumulate(np.where(begins, np.arange(len(order), dtype=np.int32), np.int32(0)))
    of_keyed = has_key[order]
    spawn_ns[of_keyed] = spawn_ns[since[of_keyed]]
    found_ns = np.empty_like(spawn_ns)
    found_ns[order] = spawn_ns
    return found_ns
