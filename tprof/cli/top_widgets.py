"""The parts of the screen of `tprof top`: the lines, and the help; and the terminal on which they are shown."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.app import ComposeResult

    from .top_lines import Line

HELP = """\
e  w  i  n    sort by energy, watts, instances, name
s             next order
/             show only tasks and threads with a text in their names
escape        show all again
tab           give the rows to threads, or back to tasks
up down       scroll; also page up, page down, home
p  space      pause the figures, and go on
+  -          read more often, less often
o  t          with run --live: more or less of the program's output,
              and type a line into its terminal
q             leave; the recording goes on

Energy of a task leaves out tasks nested in it. While a recording
runs its figures are preliminary: joules are shared by CPU time,
and those of GPUs count as runtime's.
tprof summary SESSION has the figures to quote.

Any key closes this."""

_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_STYLES = {
    "plain": Style(),
    "title": Style(bold=True),
    "dim": Style(dim=True),
    "heading": Style(reverse=True),
    "spark": Style(color="green"),
    "good": Style(color="green", bold=True),
    "warning": Style(color="yellow", bold=True),
}


@contextmanager
def own_terminal() -> Iterator[None]:
    """Let textual have the terminal itself, wherever the standard streams lead. Raises UsageError without one."""
    names = ("__stdin__", "__stdout__", "__stderr__")
    before = {name: getattr(sys, name) for name in names}
    with ExitStack() as opened:
        try:
            read = opened.enter_context(Path("/dev/tty").open(encoding="utf-8"))
            written = opened.enter_context(Path("/dev/tty").open("w", encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot use the terminal: {error.strerror}; use --once, or a pipe") from error
        vars(sys).update(zip(names, (read, written, written), strict=True))
        try:
            yield
        finally:
            vars(sys).update(before)


def has_terminal() -> bool:
    """Return whether the terminal of this process is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextmanager
def signals_received(receive: Callable[[int], None]) -> Iterator[None]:
    """Have a function called for signals that would end this process and leave the terminal as it is.

    Signals that this process ignores stay ignored, such as SIGHUP under nohup.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}
    before = {number: former for number, former in before.items() if former not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, lambda received, _: receive(received))
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def end_by(number: int) -> None:
    """End this process by a signal, as if it had not been received."""
    with suppress(OSError, ValueError):  # of SIGKILL
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Lines(Widget):
    """Lines of text from the top of the screen."""

    DEFAULT_CSS = "Lines { width: 1fr; height: 1fr; }"

    def __init__(self) -> None:
        """Begin without lines."""
        super().__init__()
        self._lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        """Show other lines; only those that differ are drawn."""
        width = self.size.width
        before, self._lines = self._lines, lines
        for y in range(max(len(before), len(lines))):
            if before[y : y + 1] != lines[y : y + 1]:
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        """Return a line as textual draws it."""
        width = self.size.width
        if y >= len(self._lines):
            return Strip.blank(width)
        line = self._lines[y]
        fill = _STYLES["heading"] if line and line[-1].role == "heading" else None
        strip = Strip([Segment(span.text, _STYLES[span.role]) for span in line])
        return strip.adjust_cell_length(width, fill)


class Help(ModalScreen[None]):
    """The keys; any key closes it."""

    DEFAULT_CSS = """
    Help { align: center middle; background: transparent; }
    Help Static { width: 72; max-width: 100%; height: auto; max-height: 100%; border: solid ansi_default;
                  background: ansi_default; padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        """Show the text."""
        yield Static(HELP, markup=False)

    def on_key(self) -> None:
        """Close it."""
        self.dismiss()
