"""A model checker: runs small programs of threads in every order of their atomic steps.

A thread is a generator. What it does between two yields is one atomic step; a yield names the line of C that the next
step stands for, as ``"ending.c: atomic_store(&work->body_ended, true)"``, and may add a condition without which it
cannot be taken (another thread holds a lock). Generators cannot be copied, so each order is replayed from its
beginning; two orders that lead to the same state are followed once. Memory is sequentially consistent here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

C_FILES = Path(__file__).parents[2] / "runtime" / "csrc"

Condition = Callable[[], bool]
Step = str | tuple[str, Condition]
Thread = Generator[Step, None, None]


@dataclass
class Found:
    """What was explored.

    Attributes
    ----------
    states : different ones.
    lines : of C that steps stand for.
    problem : of the first order that breaks the rules, with its steps; None without any.
    """

    states: int = 0
    lines: set[str] = field(default_factory=set)
    problem: str | None = None


class BrokenError(AssertionError):
    """A rule that the model states does not hold."""


class Model:
    """The memory that threads share, with locks; a fault is the name of a line that is changed."""

    def __init__(self, fault=None) -> None:
        self.fault = fault
        self.held = set()

    def acquire(self, name, line) -> Thread:
        yield line, lambda: name not in self.held
        self.held.add(name)

    def release(self, name, line) -> Thread:
        yield line
        self.held.discard(name)


class _Run:
    """One order of steps, from the beginning."""

    def __init__(self, make: Callable[[], Any], order: tuple[int, ...]) -> None:
        self.model = make()
        self.threads: list[Thread] = self.model.threads()
        self.next: list[Step | None] = [next(thread, None) for thread in self.threads]
        self.steps: list[str] = []
        for number in order:
            self.take(number)

    def take(self, number: int) -> None:
        self.steps.append(f"{number}: {_line(self.next[number])}")
        self.next[number] = next(self.threads[number], None)

    def enabled(self) -> list[int]:
        return [at for at, step in enumerate(self.next) if step is not None and (isinstance(step, str) or step[1]())]

    def state(self) -> str:
        return repr((vars(self.model), [_place(thread) for thread in self.threads]))


def _line(step: Step | None) -> str:
    return step if isinstance(step, str) else step[0] if step is not None else ""


def _place(thread: Any) -> list[tuple[int, str]]:
    """Return where the generator is, and in those that it yields from, with the variables there."""
    places = []
    while thread is not None and getattr(thread, "gi_frame", None) is not None:
        known = {name: value for name, value in thread.gi_frame.f_locals.items() if name != "self"}
        places.append((thread.gi_frame.f_lineno, repr(known)))
        thread = thread.gi_yieldfrom
    return places


def explore(make: Callable[[], Any]) -> Found:
    """Run the model in every order.

    Parameters
    ----------
    make
        Returns a new model: its attributes are the memory that threads share, `threads()` returns them, and `check()`
        raises `BrokenError` if the state in which all have ended is not as it must be. A thread may raise it too.

    Returns
    -------
    Found
        With a problem if a rule breaks in some order, or if threads wait for ever.
    """
    found = Found()
    seen: set[str] = set()
    orders: list[tuple[int, ...]] = [()]
    while orders and found.problem is None:
        order = orders.pop()
        run = None
        try:
            run = _Run(make, order)
            found.lines.update(_line(step) for step in run.next if step is not None)
            if (state := run.state()) in seen:
                continue
            seen.add(state)
            ready = run.enabled()
            if not ready:
                _check_end(run)
        except BrokenError as error:
            found.problem = "\n".join([str(error), *_replay(make, order)])
            break
        orders += [(*order, number) for number in ready]
    found.states = len(seen)
    return found


def _check_end(run: _Run) -> None:
    if any(step is not None for step in run.next):
        raise BrokenError("threads wait for ever")
    run.model.check()


def _replay(make: Callable[[], Any], order: tuple[int, ...]) -> Iterator[str]:
    run = _Run(make, ())
    for number in order:
        yield f"{number}: {_line(run.next[number])}"
        try:
            run.take(number)
        except BrokenError:
            return


def missing_lines(lines: set[str]) -> list[str]:
    """Return those that are not in the C file that they name; spaces and line ends do not count."""
    return [line for line in sorted(lines) if not _is_in_c(*line.split(": ", 1))]


def _is_in_c(name: str, code: str) -> bool:
    source = (C_FILES / name).read_text(encoding="utf-8")
    return re.sub(r"\s+", "", code) in re.sub(r"\s+", "", source)
