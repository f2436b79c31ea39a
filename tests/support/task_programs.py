"""Programs of tasks on views of one buffer: as data, run on any runtime, and watched for races while they run."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from support.views import ROOM_BYTES, View, spans, views
from tprof.runtime import current

import tprof

WHOLE = View(0, (ROOM_BYTES,), (1,), 1)


@dataclass(frozen=True)
class Step:
    """One task: what it reads, overwrites and changes, and the steps that it spawns itself."""

    reads: tuple[View, ...] = ()
    writes: tuple[View, ...] = ()
    updates: tuple[View, ...] = ()
    fails: bool = False
    children: tuple[Step, ...] = ()
    waits: bool = False
    needs: tuple[int, ...] = ()
    settled: bool = False

    def touched(self) -> tuple[View, ...]:
        """Return all its views."""
        return (*self.reads, *self.writes, *self.updates)


def steps(view=None, *, depth=0):
    """Give steps; with `depth` some spawn others, and then say that they change everything."""
    view = st.one_of(views(longest=4), spans(room=ROOM_BYTES)) if view is None else view
    some = st.lists(view, max_size=2).map(tuple)
    leaf = st.builds(Step, reads=some, writes=some, updates=some)
    if depth == 0:
        return leaf
    children = st.lists(steps(view, depth=depth - 1), min_size=1, max_size=5).map(tuple)
    parent = st.builds(Step, updates=st.just((WHOLE,)), children=children, waits=st.booleans())
    return st.one_of(leaf, parent)


class RaceError(AssertionError):
    """Two tasks touched the same bytes at once, one of them writing."""


class Owners:
    """Counts who reads and who writes each byte right now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = np.zeros(ROOM_BYTES, int)
        self._writers = np.zeros(ROOM_BYTES, int)

    def count(self, step: Step, by: int) -> None:
        """Let the step take hold of its bytes (1) or let go (-1)."""
        read = np.zeros(ROOM_BYTES, bool)
        written = np.zeros(ROOM_BYTES, bool)
        for view in step.reads:
            read |= view.bytes()
        for view in (*step.writes, *step.updates):
            written |= view.bytes()
        with self._lock:
            if by > 0 and (self._writers[read | written].any() or self._readers[written].any()):
                message = f"{step} runs beside one that it must not run beside"
                raise RaceError(message)
            self._readers[read] += by
            self._writers[written] += by


class OursError(Exception):
    """What a step raises that is to fail."""


@dataclass
class Program:
    """Steps on a buffer; the body of each leaves there what no other order would."""

    buffer: np.ndarray = field(default_factory=lambda: np.arange(ROOM_BYTES).astype(np.uint8))
    owners: Owners = field(default_factory=Owners)
    ran: list[int] = field(default_factory=list)
    futures: list[Any] = field(default_factory=list)

    def spawn(self, step: Step, number: int) -> Any:
        """Call the task of a step: spawns it inside a runtime."""
        needed = [self.futures[at] for at in step.needs]
        lists = [[view.of(self.buffer) for view in views] for views in (step.reads, step.writes, step.updates)]
        return run_step(*lists, self, step, number, *needed)

    def run(self, steps: tuple[Step, ...] | list[Step]) -> Program:
        """Call all of them."""
        for number, step in enumerate(steps):
            self.futures.append(self.spawn(step, number))
        return self


@tprof.task(reads="read", writes="written", updates="updated")
def run_step(read, written, updated, program, step, number, *_needed):
    """Do a step: what it writes depends on all that it reads, on itself and on what was there."""
    program.ran.append(number)
    if step.children:
        for at, child in enumerate(step.children):
            program.spawn(child, 100 * (number + 1) + at)
        if step.waits and in_runtime():
            current().wait()
        return number
    program.owners.count(step, 1)
    if step.fails:
        program.owners.count(step, -1)
        raise OursError(number)
    total = sum(int(view.sum()) * (at + 3) for at, view in enumerate((*read, *updated)))
    time.sleep(0)
    for at, view in enumerate((*written, *updated)):
        view[...] = (total * 31 + number * 7 + at) % 251
    time.sleep(0)
    program.owners.count(step, -1)
    return number


def in_runtime() -> bool:
    """Return whether a call of a task here spawns it."""
    try:
        current()
    except tprof.errors.UsageError:
        return False
    return True
