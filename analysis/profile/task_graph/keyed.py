"""Dependences of tasks that have keys, as dask's: which instance made what another one needed, and when it could run.

A key may belong to several instances: a task was tried again, or computed again after its worker was lost. What an
instance needed came from the last of those that had ended without failure when it started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .lifecycle import Places, spawn_dependences

if TYPE_CHECKING:
    from tprof.trace import Keys, Trace

    from .lifecycle import Rows

Times = NDArray[np.int64]


def dependences(trace: Trace, tasks: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each dependence between instances, by events or by keys: `instance`, `waits_for`."""
    of_events = spawn_dependences(trace.graph)
    if not len(trace.keys):
        return of_events
    start_ns = np.rint(tasks["start_s"].to_numpy() * 1e9).astype(np.int64)
    end_ns = start_ns + np.rint(tasks["duration_s"].to_numpy() * 1e9).astype(np.int64)
    waits, waits_for = needed_rows(trace.keys, tasks, start_ns, end_ns)
    instance = tasks["instance"].to_numpy()
    of_keys = pd.DataFrame({"instance": instance[waits], "waits_for": instance[waits_for]})
    return pd.concat([of_events, of_keys], ignore_index=True).drop_duplicates(ignore_index=True)


def needed_rows(keys: Keys, tasks: pd.DataFrame, start_ns: Times, end_ns: Times) -> tuple[Rows, Rows]:
    """Return the rows of instances and of those that made what they needed; O((instances + needs) log instances)."""
    places = Places.of(tasks["instance"].to_numpy())
    codes = _numbered(keys)
    maker = places.rows(keys.instance)
    made = (maker >= 0) & ~tasks["failed"].to_numpy(bool)[np.maximum(maker, 0)]
    maker, made_key = maker[made], codes[: len(keys)][made]
    waiting, needed_key = places.rows(keys.waiting), codes[len(keys) :]
    waiting, needed_key = waiting[waiting >= 0], needed_key[waiting >= 0]
    if not len(maker) or not len(waiting):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ends = np.sort(end_ns[maker])
    span = len(ends) + 1
    place = made_key * span + np.searchsorted(ends, end_ns[maker], side="left")
    order = np.argsort(place, kind="stable")
    asked = needed_key * span + np.searchsorted(ends, start_ns[waiting], side="right")
    at = np.searchsorted(place[order], asked, side="left") - 1
    found = (at >= 0) & (made_key[order][at] == needed_key)
    return waiting[found], maker[order][at[found]]


def earliest_spawn(keys: Keys, tasks: pd.DataFrame, start_ns: Times, end_ns: Times) -> Times:
    """Return when instances with keys may have been there to run, and the start of the others.

    The workers do not know when a task was submitted. It was there when what it needed was, so `waits` decides for a
    task that needs others. Any other counts as submitted when the workers last began to work after a time in which no
    task ran anywhere.
    """
    rows = Places.of(tasks["instance"].to_numpy()).rows(keys.instance)
    keyed = np.zeros(len(tasks), bool)
    keyed[rows[rows >= 0]] = True
    order = np.argsort(start_ns, kind="stable")
    ended_ns = np.maximum.accumulate(np.concatenate(([np.iinfo(np.int64).min], end_ns[order][:-1])))
    begins = start_ns[order] > ended_ns
    since = start_ns[order][np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))]
    spawn_ns = start_ns.copy()
    spawn_ns[order] = np.where(keyed[order], since, start_ns[order])
    return spawn_ns


def _numbered(keys: Keys) -> NDArray[np.int64]:
    """Return a number for each key of an instance and then of each needed one, the same for the same key."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in (*keys.key, *keys.needs)], np.int64)
