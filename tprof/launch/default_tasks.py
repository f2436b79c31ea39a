"""Default tasks for a program without tasks: its main thread, its other threads by name, and its child processes.

As soon as the program defines a task itself, no more of these begin, and profiles leave them out.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from tprof import _core
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from threading import Thread

_START = "_bootstrap_inner"
"""The function of a `threading` thread below all frames that its exceptions show."""
_NAME = "_name"
"""Its attribute: the property `name` is a function, which a pattern may match."""
_TARGET = re.compile(r"Thread-\d+ \((.+)\)")
_NUMBERS = re.compile(r"(?<=.)[-_ ]*\d[\d\-_ ]*$")
_LONGEST_NAME = 100


class DefaultTasks:
    """The tasks that stand for a process and its threads."""

    def __init__(self, name: str, file: str | None) -> None:
        """Store the program's name, and its file if it is known."""
        self._name, self._file = name, file
        self._numbers: dict[str, int] = {}
        self._program: _core.Region | None = None
        self._active = False

    def begin(self) -> None:
        """Begin: this thread is the program's main thread."""
        self._active = True
        this_process.tasks.before_first(self.end)
        start = getattr(threading.Thread, _START, None)
        if start is not None:
            setattr(threading.Thread, _START, _core.ThreadTask(start, self._number_of_thread))
        this_process.join_in_child(self._go_on_in_child)
        if self._active:
            self._begin_program(self._name)

    def end(self) -> None:
        """Begin no more default tasks, and end the program's."""
        self._active = False
        self.end_program()

    def end_program(self) -> None:
        """End that of the main thread."""
        program, self._program = self._program, None
        if program is not None:
            program.__exit__(None, None, None)

    def _begin_program(self, name: str) -> None:
        self._program = _core.Region(self._number(name))
        self._program.__enter__()

    def _go_on_in_child(self) -> None:
        if self._active:
            self._begin_program(f"{self._name} (forked)")

    def _number_of_thread(self, thread: Thread) -> int | None:
        return self._number(f"thread {kind_of(vars(thread)[_NAME])}") if self._active else None

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = this_process.tasks.define(name, file=self._file, line=None, code=None, is_default=True)
            self._numbers[name] = number
        return number


def kind_of(thread_name: str) -> str:
    """Return a thread's name without its counter; the name of its target if Python derived the name from it."""
    by_target = _TARGET.fullmatch(thread_name)
    name = by_target[1] if by_target else _NUMBERS.sub("", thread_name)
    return name[:_LONGEST_NAME]
