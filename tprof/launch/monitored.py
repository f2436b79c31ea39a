"""Makes tasks of unchanged code objects: sys.monitoring calls the core when they run."""

from __future__ import annotations

import sys

from tprof import _core
from tprof.session.process_state import this_process

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType
    from typing import Any

    Observer = Callable[[FrameType, Any], object]

# A debugger, coverage, a profiler and an optimizer have 0, 1, 2 and 5 by PEP 669.
_TOOLS = (4, 3)
_UNMARKED, _IGNORED, _OBSERVED, _UNDEFINED, _FIRST_TASK = range(5)  # as csrc/binding_monitor.c has them
_RESUMED = 0x20 | 0x80 | 0x100 | 0x200  # bits of co_flags: generators and coroutines of all kinds


class Monitored:
    """The tool of this interpreter: it marks code as tasks, or for observation."""

    def __init__(self, monitoring: Any, tool: int) -> None:
        """Register the callbacks for a tool that is in use."""
        self._monitoring, self._tool = monitoring, tool
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._observers: dict[int, tuple[CodeType, Observer]] = {}
        self._observer: Callable[[FrameType], object] | None = None
        self.files: dict[str, bool] = {}
        self._monitor = _core.Monitor(self._define, self._observe, self._classify, self.files, monitoring.DISABLE)
        events = monitoring.events
        self._ends = events.PY_RETURN
        self._steps = events.PY_RETURN | events.PY_RESUME | events.PY_YIELD
        callbacks = {
            events.PY_START: self._monitor.on_start,
            events.PY_RESUME: self._monitor.on_resume,
            events.PY_THROW: self._monitor.on_throw,
            events.PY_YIELD: self._monitor.on_yield,
            events.PY_RETURN: self._monitor.on_return,
            events.PY_UNWIND: self._monitor.on_unwind,
        }
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)

    def begin(self, observer: Callable[[FrameType], object]) -> None:
        """Begin to record selected code.

        The observer is called with the frame when code starts for the first time, unless its file is in `files`; it
        may select the code.
        """
        self._observer = observer
        events = self._monitoring.events
        # Before Python 3.15 the last two cannot be enabled for single code objects.
        self._monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND | events.PY_THROW)

    def unseen(self, function: Callable[[Any], Any], value: Any) -> Any:
        """Call a function of tprof, without recording selected code that it uses."""
        return self._monitor.unseen(function, value)

    def select(self, code: CodeType) -> None:
        """Make code a task; its first call in a recording enters it into the table of tasks."""
        if self._monitor.marked(code) == _UNMARKED:
            self._monitor.mark(code, _UNDEFINED)
            self._listen(code)

    def select_as(self, code: CodeType, number: int) -> None:
        """Make code the task with this number."""
        self._monitor.mark(code, _FIRST_TASK + number)
        self._listen(code)

    def release(self, code: CodeType) -> None:
        """Exclude code that belongs to another task."""
        if self._monitor.marked(code) >= _UNDEFINED:
            self._monitoring.set_local_events(self._tool, code, 0)
        self._monitor.mark(code, _IGNORED)

    def on_return(self, code: CodeType, observer: Observer) -> None:
        """Call the observer with the frame and the return value when the code returns."""
        self._observers[id(code)] = (code, observer)
        self._monitor.mark(code, _OBSERVED)
        self._monitoring.set_local_events(self._tool, code, self._monitoring.events.PY_RETURN)

    def _listen(self, code: CodeType) -> None:
        events = self._steps if code.co_flags & _RESUMED else self._ends
        self._monitoring.set_local_events(self._tool, code, events)

    def _define(self, code: CodeType) -> int:
        """Return the number of a place in the program; copies of its code share it."""
        place = (code.co_filename, code.co_qualname, code.co_firstlineno)
        number = self._numbers.get(place)
        if number is None:
            name = code.co_qualname.rpartition("<locals>.")[2]
            number = this_process.tasks.define(name, file=code.co_filename, line=code.co_firstlineno, code=code)
            number = self._numbers.setdefault(place, number)
        return number

    def _classify(self, _: CodeType) -> None:
        if self._observer is not None:
            self._observer(sys._getframe(1))  # noqa: SLF001 - the only way to the frame

    def _observe(self, code: CodeType, value: Any) -> None:
        self._observers[id(code)][1](sys._getframe(1), value)  # noqa: SLF001 - the only way to the frame


def monitored() -> Monitored | None:
    """Return this interpreter's tool; None before Python 3.12, or if other tools have taken every number."""
    monitoring = getattr(sys, "monitoring", None)
    if this_process.monitored is None and monitoring is not None:
        for tool in _TOOLS:
            try:
                monitoring.use_tool_id(tool, "tprof")
            except ValueError:
                continue
            this_process.monitored = Monitored(monitoring, tool)
            break
    return this_process.monitored
