"""The tasks of this interpreter: numbers for the core, names and places for the trace.

The numbers are unique in the process, and so is the list of definitions of all its interpreters
(`csrc/definitions.c`): a recording writes the tasks of the other interpreters from there.
"""

from __future__ import annotations

import functools
import os
import stat
import threading
from _weakref import ref  # `weakref` imports more than this

from tprof import _core
from tprof.work import UNDECLARED, numbers

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from tprof.declarations import Budget
    from tprof.work import Work

SOURCE_CHARACTERS = 4096
NAME_CHARACTERS = 1000  # the limit of readers; a line that is too long for them would lose the whole name


class Definition:
    """The definition of a task: a function's code, or the line of a region."""

    __slots__ = ("_code", "budget", "file", "is_default", "library", "line", "name", "number", "work")

    def __init__(  # noqa: PLR0913 - the fields
        self,
        number: int,
        name: str,
        file: str | None,
        line: int | None,
        code: CodeType | None,
        work: Work,
        budget: Budget | None,
        *,
        is_default: bool,
        library: str | None = None,
    ) -> None:
        self.number, self.name, self.file, self.line, self.work = number, name, file, line, work
        self._code = None if code is None else ref(code)
        self.budget, self.is_default, self.library = budget, is_default, library

    @property
    def is_own(self) -> bool:
        """Whether the program itself defined it."""
        return not self.is_default and self.library is None

    @property
    def code(self) -> CodeType | None:
        """The function's code while the program references it: this does not keep it alive."""
        return None if self._code is None else self._code()

    def source(self) -> str | None:
        """Return the lines of the task's function, cut to a trace's limit; None if they are in no file.

        This has no side effects: it adds no entry to `linecache` and does not read a pipe again.
        """
        if self._code is None or self.file is None or self.line is None:
            return None
        import inspect  # noqa: PLC0415 - only a recording asks, and it takes long to load
        import linecache  # noqa: PLC0415

        lines = linecache.getlines(self.file) if self.file in linecache.cache else _lines_of(self.file)
        block = lines[self.line - 1 :]
        try:
            return "".join(inspect.getblock(block))[:SOURCE_CHARACTERS] if block else None
        except (IndexError, SyntaxError):
            return None  # edited since it was compiled


@functools.lru_cache(maxsize=16)  # the functions of a module become tasks one after another, so the last file is cached
def _lines_of(file: str) -> list[str]:
    import tokenize  # noqa: PLC0415 - see above

    try:
        if not stat.S_ISREG(os.stat(file).st_mode):  # noqa: PTH116 - pathlib takes longer to import
            return []
        with tokenize.open(file) as text:
            return text.readlines()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []


class Registry:
    """The tasks that this interpreter has defined, by their numbers."""

    def __init__(self) -> None:
        """Begin without tasks."""
        # Re-entrant: a signal handler or a finaliser may define a task in the middle of `define`.
        self._lock = threading.RLock()
        self._definitions: dict[int, Definition] = {}
        self._listener: Callable[[Definition], None] | None = None
        self._before_first: Callable[[], None] | None = None

    def before_first(self, call: Callable[[], None]) -> None:
        """Register a function to call before the program's first own task; call it at once if there is one."""
        self._before_first = call
        if self.has_own():
            self._end_default()

    def has_own(self) -> bool:
        """Return whether the program itself has defined a task."""
        return any(definition.is_own for definition in list(self._definitions.values()))

    def _end_default(self) -> None:
        call, self._before_first = self._before_first, None
        if call is not None:
            call()

    def define(
        self,
        name: str,
        *,
        file: str | None,
        line: int | None,
        code: CodeType | None,
        work: Work = UNDECLARED,
        budget: Budget | None = None,
        is_default: bool = False,
        library: str | None = None,
    ) -> int:
        """Enter a task and return its number; a running recording writes it to its table at once.

        Parameters
        ----------
        name, file, line, code, work
            As in the program.
        budget
            Joules of each instance, and the action if one takes more.
        is_default
            Whether it stands for a program, or a thread of one, that defines no tasks itself.
        library
            Whose function it is, if the program does not define it.
        """
        if not is_default and library is None and self._before_first is not None:
            self._end_default()
        figures = numbers(work) if budget is None else {**numbers(work), "budget_j": budget[0]}
        number, table = _core.define(name[:NAME_CHARACTERS], file, -1 if line is None else line, **figures)
        definition = Definition(number, name, file, line, code, work, budget, is_default=is_default, library=library)
        with self._lock:
            self._definitions[number] = definition
            listener = self._listener
            if listener is not None:
                listener(definition)
        if listener is None and table is not None:
            from .membership import append_to  # noqa: PLC0415 - only while another interpreter records

            append_to(table, definition)
        return number

    def listen(self, listener: Callable[[Definition], None] | None) -> None:
        """Pass every known task to the listener, then each new one before it can run.

        A task that a signal handler defines meanwhile may be passed twice.
        """
        with self._lock:
            self._listener = listener
            if listener is not None:
                for definition in list(self._definitions.values()):
                    listener(definition)

    def reset(self) -> None:
        """Forget the listener in a forked child, and free the lock: another thread may have held it at the fork."""
        self._lock = threading.RLock()
        self._listener = None

    def has_budgets(self) -> bool:
        """Return whether a task has a budget."""
        with self._lock:
            return any(definition.budget is not None for definition in self._definitions.values())

    def least_budget_j(self) -> float:
        """Return the smallest budget of any task's instances, in J; infinite if no task has one."""
        with self._lock:
            budgets = [one.budget[0] for one in self._definitions.values() if one.budget is not None]
        return min(budgets, default=float("inf"))

    def budget_of(self, number: int) -> Budget | None:
        """Return the joules of each instance of a task, and the action if one takes more."""
        definition = self._definitions.get(number)  # None: another interpreter's
        return None if definition is None else definition.budget

    def names_function(self, name: str) -> bool:
        """Return whether a task of this name has a place in the program."""
        with self._lock:
            return any(one.name == name and one.file is not None for one in self._definitions.values())

    def name_of(self, number: int) -> str:
        """Return the name of a task."""
        return self._definitions[number].name

    def codes(self) -> list[CodeType]:
        """Return the code objects of all tasks."""
        with self._lock:
            return [code for one in self._definitions.values() if (code := one.code) is not None]

    def definition_of(self, number: int) -> Definition:
        """Return the definition of a task."""
        return self._definitions[number]
