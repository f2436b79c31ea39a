"""The magics ``%%tprof`` and ``%tprof``.

A cell magic of the usual kind runs the cell's text itself, and then neither its value, nor its exceptions, nor a
top-level ``await`` are the cell's any more. So the first line of the cell becomes a call that begins the recording, the
cell runs as any other, and IPython's event after the cell ends the recording.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as LineError
from IPython.core.magic import needs_local_scope

from tprof import _core
from tprof.errors import TprofError, UsageError
from tprof.session.process_state import this_process
from tprof.session.recording import record

from .marking import Marking
from .options import USAGE, CellOptions
from .progress import Progress

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from tprof.analysis import Profile
    from tprof.session.recording import Recording

BEGIN = "_tprof_begin"
RESULT = "_tprof"
_FIRST_LINE = re.compile(r"%%tprof(?:[ \t]+(.*))?")
_HELP = f"""Record a cell (%%tprof) or a statement (%tprof), and show where its joules went.

%%tprof {USAGE}

%tprof [options] STATEMENT

The profile is in the variable {RESULT}. Output, value and exceptions are those of the cell without it.
"""


class Recorded:
    """A cell or statement that is recorded."""

    def __init__(self, options: CellOptions, marking: Marking | None, info: ExecutionInfo | None) -> None:
        """Take what is asked for, and which cell it is; None: a statement."""
        self.options, self.info = options, info
        self._marking = marking
        self._recording: Recording | None = None
        self._region: _core.Region | None = None

    def begin(self) -> None:
        """Begin to record. Raises TprofError."""
        asked = self.options
        recording = record(
            asked.output,
            energy=asked.energy,
            counters=asked.counter_names,
            watts=asked.watts,
            idle_s=asked.idle,
            overwrite=asked.overwrite,
        )
        recording.__enter__()
        self._recording = recording
        if self._marking is not None:
            self._marking.begin()
        self._region = _core.Region(_number("cell" if self.info is not None else "statement"))
        self._region.__enter__()

    def end(self, error: BaseException | None) -> Recording:
        """End the recording. Raises BudgetExceededError if a task went over its budget."""
        recording, region = self._recording, self._region
        if recording is None or region is None:
            raise UsageError("nothing is recorded")
        region.__exit__(None, None, None)
        if self._marking is not None:
            self._marking.end()
        recording.__exit__(None if error is None else type(error), error, None)
        return recording

    def unmet(self, recording: Recording) -> list[str]:
        """Return a sentence for each pattern that matched no function."""
        return [] if self._marking is None else self._marking.unmet(recording.path)


class Cells:
    """The magics of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        """Add them."""
        self._shell = shell
        self._info: ExecutionInfo | None = None
        self._running: Recorded | None = None
        self._marking: tuple[str, Marking] | None = None
        shell.input_transformers_cleanup.append(self._rewrite_first_line)
        shell.ast_transformers.append(self)
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)
        shell.register_magic_function(self._begin, "line", BEGIN)
        shell.register_magic_function(self._magic(), "line_cell", "tprof")

    def close(self) -> None:
        """Take them out."""
        self._shell.input_transformers_cleanup.remove(self._rewrite_first_line)
        self._shell.ast_transformers.remove(self)
        self._shell.events.unregister("pre_run_cell", self._before_cell)
        self._shell.events.unregister("post_run_cell", self._after_cell)
        magics = self._shell.magics_manager.magics
        for kind, name in (("line", BEGIN), ("line", "tprof"), ("cell", "tprof")):
            magics[kind].pop(name, None)

    def visit(self, tree: ast.Module) -> ast.Module:
        """Let a cell's own functions be tasks if its first line asks for it; called by IPython."""
        line = _line_that_begins(tree)
        self._marking = None
        if line is None or "--task" not in line:
            return tree
        try:
            marking = Marking(CellOptions.parse(line)[0].task, self._shell.user_module)
        except TprofError:
            return tree  # the beginning of the recording raises it
        self._marking = line, marking
        return marking.rewrite(tree)

    def _rewrite_first_line(self, lines: list[str]) -> list[str]:
        found = _FIRST_LINE.fullmatch(lines[0].rstrip()) if lines else None
        if found is None:
            return lines
        rest = lines[1:]
        if next((one for one in rest if one.strip()), "").startswith("%%"):  # another magic runs the cell
            rest = self._shell.transform_cell("".join(rest)).splitlines(keepends=True)
        return [f"get_ipython().run_line_magic({BEGIN!r}, {found[1] or ''!r})\n", *rest]

    def _before_cell(self, info: ExecutionInfo) -> None:
        self._info = info

    def _begin(self, line: str) -> None:
        """Begin to record this cell: the first line of ``%%tprof`` becomes this call."""
        __tracebackhide__ = True
        try:
            options, rest = CellOptions.parse(line)
            if rest:
                raise UsageError(f"%%tprof takes options only, got {rest!r}: the statements go on the lines below it")
            self._start(options, line, self._info)
        except TprofError as error:
            raise LineError(str(error)) from None

    def _start(self, options: CellOptions, line: str, info: ExecutionInfo | None) -> Recorded:
        if self._running is not None:
            raise UsageError("a cell is recorded already: wait until it has ended")
        marking = None
        if options.task:
            given, prepared = self._marking or ("", None)
            is_same = prepared is not None and given == line
            marking = prepared if is_same else Marking(options.task, self._shell.user_module)
        recorded = Recorded(options, marking, info)
        recorded.begin()
        self._running = recorded
        return recorded

    def _after_cell(self, result: ExecutionResult) -> None:
        running = self._running
        if running is not None and running.info is result.info:
            self._end(running, result.error_in_exec)

    def _end(self, recorded: Recorded, error: BaseException | None) -> None:
        """End the recording and show its profile; what prevents that is one line on standard error."""
        self._running = None
        try:
            recording = recorded.end(error)
            for sentence in recorded.unmet(recording):
                print(f"tprof: {sentence}", file=sys.stderr)  # noqa: T201 - what a user must see
            with Progress("attributing the joules", shows=self._has_pages) as progress:
                profile = recording.profile(recorded.options.model)
            self._shell.user_ns[RESULT] = profile
            if not recorded.options.quiet:
                self._show(profile, progress)
        except TprofError as problem:
            print(f"tprof: {problem}", file=sys.stderr)  # noqa: T201 - see above

    @property
    def _has_pages(self) -> bool:
        """Whether outputs are pages: a terminal has no HTML."""
        return hasattr(self._shell, "kernel")

    def _show(self, profile: Profile, progress: Progress) -> None:
        if self._has_pages:
            progress.show(profile)
            return
        from tprof.cli.summary import show  # noqa: PLC0415 - loaded when used

        show(profile, sys.stdout, top=10)

    def _magic(self) -> Any:
        """Return the function of the magics; a method cannot carry the mark of local names."""

        def tprof(line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
            __tracebackhide__ = True
            if cell is not None:  # called by a program: a cell that is typed is rewritten
                return self._shell.run_cell(f"%%tprof {line}\n{cell}").result
            return self._run_statement(line, local_ns)

        tprof.__doc__ = _HELP
        return needs_local_scope(tprof)

    def _run_statement(self, line: str, local_ns: dict[str, Any] | None) -> Any:
        __tracebackhide__ = True
        try:
            options, statement = CellOptions.parse(line)
            if not statement:
                raise UsageError("%tprof needs a statement after its options; %%tprof records a whole cell")
            code, is_value = self._compiled(statement)
            recorded = self._start(options, line, None)
        except TprofError as error:
            raise LineError(str(error)) from None
        stopped_by: BaseException | None = None
        try:
            run = eval if is_value else exec
            return run(code, self._shell.user_ns, local_ns)
        except BaseException as error:
            stopped_by = error
            raise
        finally:
            self._end(recorded, stopped_by)

    def _compiled(self, statement: str) -> tuple[Any, bool]:
        """Return the code of a statement, and whether it has a value. Raises UsageError for await."""
        tree = ast.parse(self._shell.transform_cell(statement))
        if any(isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) for one in tree.body for node in _own(one)):
            raise UsageError("%tprof cannot await: write %%tprof above the statement, in a cell of its own")
        tree = self._shell.transform_ast(tree)
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            return compile(ast.Expression(tree.body[0].value), "<tprof>", "eval"), True
        return compile(tree, "<tprof>", "exec"), False


def _own(node: ast.AST) -> list[ast.AST]:
    """Return the nodes that run in the statement itself, not in functions that it defines."""
    found, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        found.append(one)
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(one)
    return found


def _line_that_begins(tree: ast.Module) -> str | None:
    """Return the options of ``%%tprof`` if a cell begins with the call that it becomes."""
    match tree.body[:1]:
        case [ast.Expr(ast.Call(ast.Attribute(attr="run_line_magic"), [ast.Constant(name), ast.Constant(str(line))]))]:
            return line if name == BEGIN else None
    return None


_numbers: dict[str, int] = {}


def _number(name: str) -> int:
    """Return the number of the task that stands for a cell, or for a statement."""
    if name not in _numbers:
        _numbers[name] = this_process.tasks.define(name, file=None, line=None, code=None)
    return _numbers[name]
