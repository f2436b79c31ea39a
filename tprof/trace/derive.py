"""Derives the kinds of samples, which a writer of arrays may omit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .kinds import Kind

if TYPE_CHECKING:
    import numpy.typing as npt

IntArray = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Story:
    """A thread's samples with their kinds.

    Attributes
    ----------
    source : (n,) index of each one's given sample; an inserted one repeats that of its successor.
    instance : (n,) uint64.
    kind : (n,) uint8.
    """

    source: IntArray
    instance: npt.NDArray[np.uint64]
    kind: npt.NDArray[np.uint8]


def first_seen(instances: list[npt.NDArray[np.uint64]], times: list[IntArray]) -> list[npt.NDArray[np.bool_]]:
    """Mark the sample with which each instance begins: its earliest in all threads.

    Parameters
    ----------
    instances, times
        One array per thread, as given to `write_trace`.
    """
    if not instances:
        return []
    lengths = [len(one) for one in instances]
    every = np.concatenate(instances)
    order = np.argsort(np.concatenate(times), kind="stable")
    _, first = np.unique(every[order], return_index=True)
    begins = np.zeros(len(every), bool)
    begins[order[first]] = True
    begins &= every != 0
    return np.split(begins, np.cumsum(lengths)[:-1])


def derive_story(instance: npt.NDArray[np.uint64], begins: npt.NDArray[np.bool_]) -> Story:
    """Derive the kind of each sample of a thread.

    An instance that begins is nested in the one before it only if that one runs again later on this
    thread; otherwise the one before has finished, and a sample of that is inserted.
    """
    before = np.concatenate([np.zeros(1, np.uint64), instance[:-1]])
    runs_again = _runs_again(instance)
    previous_runs_again = np.concatenate([np.zeros(1, bool), runs_again[:-1]])
    ended_unsaid = begins & (before != 0) & (before != instance) & ~previous_runs_again
    kind = np.full(len(instance), Kind.FINISH, np.uint8)
    kind[begins] = Kind.START
    went_on = ~begins & (instance != 0) & (before == 0)
    kind[went_on] = Kind.RESUME
    paused = (instance == 0) & (before != 0) & previous_runs_again
    kind[paused] = Kind.SUSPEND
    if not ended_unsaid.any():
        return Story(np.arange(len(instance)), instance, kind)
    places = np.flatnonzero(ended_unsaid)
    source = np.insert(np.arange(len(instance)), places, places)
    return Story(source, np.insert(instance, places, np.uint64(0)), np.insert(kind, places, np.uint8(Kind.FINISH)))


def _runs_again(instance: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Mark the samples whose instance has a later one on this thread."""
    order = np.argsort(instance, kind="stable")
    ordered = instance[order]
    again = np.zeros(len(instance), bool)
    again[order[:-1]] = ordered[1:] == ordered[:-1]
    return again
