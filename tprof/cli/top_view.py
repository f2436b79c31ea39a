"""The full-screen view of `tprof top`.

The lines come from `top_lines`; textual draws those that changed, reads the keys and follows the terminal's size. One
widget draws them all: a table of textual's own takes more of a core than reading the recording does. Colours are the
terminal's own.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import set_cell_size
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import Input

from tprof.errors import TprofError

from .render import clean
from .top_lines import SORTS, Choices, Line, Span, lines_of_view, rows_scrolled
from .top_widgets import Help, Lines, end_by, has_terminal

if TYPE_CHECKING:
    from typing import Protocol

    from textual.binding import BindingType

    from tprof.live.snapshot import Snapshot

    from .live_program import LiveProgram

    class Watched(Protocol):
        """What gives snapshots."""

        def read(self, most_s: float) -> Snapshot:
            """Read what is new, for about so many seconds at most."""


READ_S = 0.5
"""Longest time for which a read holds up the view, while it catches up with a long recording."""
PROGRAM_S = 0.25
"""Between two looks at what the program of `tprof run --live` printed."""
PANES = ("part", "all", "none")
INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
SHARE = 0.008
"""Of a core, which the view takes at most unless a short interval is asked for."""
LONGEST_PAUSE_S = 10.0


def pause_s(interval_s: float, used_s: float) -> float:
    """Return how long to wait after a turn that took this much CPU time.

    A default or longer interval is stretched so that the view stays below 1 % of a core beside busy programs; who asks
    for a shorter one gets it.
    """
    return interval_s if interval_s < 1 else max(interval_s, min(used_s / SHARE, LONGEST_PAUSE_S))


class TopApp(App[str | None]):
    """Shows a watched recording until the user leaves; returns a sentence if it cannot be read any more."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Input { dock: bottom; height: 1; border: none; padding: 0; background: ansi_default; display: none; }
    Input.asked { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", priority=False),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("question_mark,h,f1", "help"),
        Binding("e", "sort('energy')"),
        Binding("w", "sort('power')"),
        Binding("i", "sort('instances')"),
        Binding("n", "sort('name')"),
        Binding("s", "next_sort"),
        Binding("slash", "filter"),
        Binding("escape", "show_all", priority=True),
        Binding("tab", "other_table", priority=True),
        Binding("p,space", "pause"),
        Binding("plus", "interval(-1)"),
        Binding("minus", "interval(1)"),
        Binding("down", "scroll(1)"),
        Binding("up", "scroll(-1)"),
        Binding("pagedown", "scroll(10)"),
        Binding("pageup", "scroll(-10)"),
        Binding("home", "scroll(-1000000)"),
        Binding("o", "output"),
        Binding("t", "type"),
    ]

    def __init__(self, watch: Watched, interval_s: float, program: LiveProgram | None = None) -> None:
        """Show a recording, read once an interval; the view ends with a program that is given."""
        super().__init__(ansi_color=True)
        self._watch = watch
        self._program = program
        self._pane = "part"
        self._printed: list[str] = []
        self._is_typing = False
        self.interval_s = interval_s
        self.choices = Choices()
        self._latest: Snapshot | None = None
        self.shown: Snapshot | None = None
        self._stop, self._now = threading.Event(), threading.Event()
        self._loop_of_view: asyncio.AbstractEventLoop | None = None
        self.ended_by: int | None = None
        self._reader = threading.Thread(target=self._follow, name="tprof-top", daemon=True)

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield Lines()
        yield Input(compact=True)

    def on_mount(self) -> None:
        """Begin to read."""
        self._loop_of_view = asyncio.get_running_loop()
        if self.ended_by is not None:
            self.exit()
            return
        self._draw()
        self._reader.start()
        if self._program is not None:
            self.set_interval(PROGRAM_S, self._look_at_program)

    def receive(self, number: int) -> None:
        """Take a signal: the program of `tprof run --live` gets it, and without one the view ends, by it.

        Ctrl-C leaves the view as the key q does. If the terminal was closed there is nothing to put back.
        """
        if self._program is not None:
            self._program.send(number)
        if number == signal.SIGHUP and not has_terminal():
            end_by(number)
        if self._program is not None:
            return
        if number != signal.SIGINT:
            self.ended_by = number
        if self._loop_of_view is not None:
            with suppress(RuntimeError):  # the view has ended
                self._loop_of_view.call_soon_threadsafe(self.exit)

    def on_unmount(self) -> None:
        """End the reader."""
        self._stop.set()
        self._now.set()

    def on_resize(self) -> None:
        """Fit the lines to the terminal."""
        if self._program is not None:
            self._program.fit()
        self._draw()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())

    def action_interrupt(self) -> None:
        """Pass Ctrl-C on to the program; leave if there is none."""
        if self._program is None:
            self.exit()
        else:
            self._program.type("\x03")

    def action_output(self) -> None:
        """Give the program's output more rows, none, or a part."""
        self._pane = PANES[(PANES.index(self._pane) + 1) % len(PANES)]
        self._draw()

    def action_type(self) -> None:
        """Ask for a line to type into the program's terminal."""
        if self._program is not None:
            self._is_typing = True
            self._ask("a line for the program")

    def action_sort(self, by: str) -> None:
        """Sort by one of `SORTS`."""
        self._choose(sort=by, offset=0)

    def action_next_sort(self) -> None:
        """Sort by the next one."""
        orders = list(SORTS)
        self._choose(sort=orders[(orders.index(self.choices.sort) + 1) % len(orders)], offset=0)

    def action_filter(self) -> None:
        """Ask for a text that names contain."""
        self._ask("a text in the names of tasks and threads", self.choices.filter)

    def on_input_changed(self, changed: Input.Changed) -> None:
        """Filter while the text is typed."""
        if not self._is_typing:
            self._choose(filter=changed.value, offset=0)

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Keep the filter, or type the line into the program's terminal."""
        if self._is_typing and self._program is not None:
            self._program.type(f"{submitted.value}\n")
        self._end_asking()

    def action_show_all(self) -> None:
        """Forget the filter, or what is being typed."""
        if isinstance(self.screen, Help):
            self.screen.dismiss()
        elif self._is_typing:
            self._end_asking()
        else:
            self._end_asking()
            self._choose(filter="", offset=0)

    def action_other_table(self) -> None:
        """Give the rows to the other table."""
        self._choose(threads_first=not self.choices.threads_first, offset=0)

    def action_pause(self) -> None:
        """Let the figures stand still, or go on; they are read meanwhile."""
        self._choose(paused=not self.choices.paused)

    def action_interval(self, step: int) -> None:
        """Read at the next shorter or longer interval."""
        further = [one for one in INTERVALS if (one - self.interval_s) * step > 0]
        if further:
            self.interval_s = further[0] if step > 0 else further[-1]
            self._now.set()
            self._draw()

    def action_scroll(self, rows: int) -> None:
        """Scroll the table that has the rows."""
        if self.shown is not None:
            last = max(rows_scrolled(self.shown, self.choices) - 1, 0)
            self._choose(offset=min(max(self.choices.offset + rows, 0), last))

    def _ask(self, what: str, value: str = "") -> None:
        asked = self.query_one(Input)
        asked.placeholder = what
        with asked.prevent(Input.Changed):
            asked.value = value
        asked.add_class("asked")
        asked.focus()

    def _end_asking(self) -> None:
        self.query_one(Input).remove_class("asked")
        self.set_focus(None)
        self._is_typing = False

    def _look_at_program(self) -> None:
        if self._program is None or self._program.has_ended:
            self.exit()
            return
        printed = self._program.lines(self._pane_rows - 1)
        if printed != self._printed:
            self._printed = printed
            self._draw()

    @property
    def _pane_rows(self) -> int:
        """Rows for the program's output, with its heading."""
        if self._program is None or self._pane == "none":
            return 0
        return self.size.height - 1 if self._pane == "all" else max(self.size.height // 4, 2)

    def _choose(self, **changed: Any) -> None:
        self.choices = replace(self.choices, **changed)
        if not self.choices.paused:
            self.shown = self._latest
        self._draw()

    def _show(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        if not self.choices.paused:
            self.shown = snapshot
        self._draw()

    def _draw(self) -> None:
        view = self.query_one(Lines)
        width, height = self.size.width, self.size.height
        shown = self.shown
        room = max(height - 1 - self._pane_rows, 0)
        lines = [] if shown is None else lines_of_view(shown, self.choices, width, room)
        lines += [()] * (room - len(lines))
        view.show([*lines, *self._output(width), self._keys(width)])

    def _output(self, width: int) -> list[Line]:
        rows = self._pane_rows
        if not rows:
            return []
        lines = [(Span("output  o more or less  t type a line"[:width], "heading"),)]
        lines += [(Span(set_cell_size(clean(line), width)),) for line in self._printed[-(rows - 1) :]]
        return [*lines, *[()] * (rows - len(lines))]

    def _keys(self, width: int) -> Line:
        if self._latest is not None and self._latest.is_final:
            text = "The recording has ended: these figures are final.  q leave  ? help"
            return (Span(text[:width], "good"),)
        text = f"q leave  ? help  / filter  s sort  tab threads  p pause  every {self.interval_s:g} s"
        return (Span(text[:width], "dim"),)

    def _follow(self) -> None:
        """Read until the end of the view or of the recording; the reader's thread."""
        try:
            self._read_until_end()
        except TprofError as error:
            self._leave(str(error))
        except Exception as error:  # noqa: BLE001 - a thread's main: without it the view would stand still
            self._leave(f"the view ended by {type(error).__name__}: {error}")

    def _read_until_end(self) -> None:
        snapshot, has_caught_up, before_s = None, False, time.process_time()
        while not self._stop.is_set() and not (snapshot is not None and snapshot.is_final):
            snapshot = self._watch.read(READ_S)
            if self._stop.is_set():
                return
            self.call_from_thread(self._show, snapshot)
            if snapshot.is_caught_up:
                used_s = time.process_time() - before_s if has_caught_up else 0.0  # what was there before takes longer
                has_caught_up, before_s = True, time.process_time()
                self._now.wait(pause_s(self.interval_s, used_s))
                self._now.clear()

    def _leave(self, problem: str) -> None:
        """End the view with a sentence, unless it ends already."""
        if not self._stop.is_set():
            with suppress(RuntimeError):  # it has ended meanwhile
                self.call_from_thread(self.exit, problem)
