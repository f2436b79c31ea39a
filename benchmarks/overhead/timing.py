"""How a short call is timed: loops interleaved in rounds, the empty loop of the same round subtracted.

Rounds interleave so that a change of clock frequency or a noisy neighbour affects all subjects equally, and differences
are taken within a round. Their medians and extremes are reported; a mean would hide a disturbed round.
"""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

EMPTY = "empty loop"


def time_calls(function: Callable[[], object], calls: int) -> float:
    """Return nanoseconds a call, the loop's own share included."""
    steps = repeat(None, calls)
    begin_ns = time.perf_counter_ns()
    for _ in steps:
        function()
    return (time.perf_counter_ns() - begin_ns) / calls


def time_empty(calls: int) -> float:
    """Return nanoseconds that the loop takes for one step without a call."""
    steps = repeat(None, calls)
    begin_ns = time.perf_counter_ns()
    for _ in steps:
        pass
    return (time.perf_counter_ns() - begin_ns) / calls


@dataclass(frozen=True)
class Subject:
    """Something to time: `measure(calls)` returns nanoseconds a call with the loop's share included."""

    name: str
    measure: Callable[[int], float]


def interleave(subjects: Sequence[Subject], *, calls: int, rounds: int) -> dict[str, tuple[float, ...]]:
    """Time all subjects in each round.

    Parameters
    ----------
    subjects
        In the order of the first round; each later round begins one further on.
    calls
        In one loop.
    rounds
        Measured ones; one before them warms up and is thrown away.

    Returns
    -------
    dict
        Subject's name to nanoseconds a call, (rounds,), the empty loop of the same round subtracted.
    """
    taken: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    with no_collection():
        for turn in range(-1, rounds):
            first = max(turn, 0) % len(subjects)
            empty_ns = time_empty(calls)
            for subject in [*subjects[first:], *subjects[:first]]:
                gc.collect()
                value_ns = subject.measure(calls) - empty_ns
                if turn >= 0:
                    taken[subject.name].append(value_ns)
    return {name: tuple(values) for name, values in taken.items()}


def take_turns(subjects: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, tuple[float, ...]]:
    """Run all subjects in each round, as `interleave` does, where one run is long enough to be timed by itself.

    Parameters
    ----------
    subjects
        In the order of the first round; each returns what it took.
    rounds
        Measured ones; one before them warms up and is thrown away.

    Returns
    -------
    dict
        Subject's name to what its runs returned, (rounds,).
    """
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    with no_collection():
        for turn in range(-1, rounds):
            first = max(turn, 0) % len(names)
            for name in [*names[first:], *names[:first]]:
                gc.collect()
                value = subjects[name]()
                if turn >= 0:
                    taken[name].append(value)
    return {name: tuple(values) for name, values in taken.items()}


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from starting inside a loop, as `timeit` does."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def differences(left: tuple[float, ...], right: tuple[float, ...], *, divisor: int = 1) -> tuple[float, ...]:
    """Return left less right round by round, divided."""
    return tuple((one - other) / divisor for one, other in zip(left, right, strict=True))


def ratios(above: Sequence[float], below: Sequence[float]) -> tuple[float, ...]:
    """Return one over the other round by round."""
    return tuple(one / other for one, other in zip(above, below, strict=True))
