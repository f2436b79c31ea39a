"""`tprof run --live`: the view of `tprof top` in front, and behind it `tprof run` on a terminal of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTERVAL_S = 1.0
LIVE = "--live"


def prepare_live(words: Sequence[str]) -> Callable[[], None]:
    """Return what runs and shows the program of `tprof run`, given the words after that. Raises UsageError."""
    terminal = _terminal()
    if terminal is None:
        raise UsageError(
            "--live needs a terminal, and this process has none: leave it out, and watch by tprof top SESSION"
        )

    def execute() -> None:
        from tprof.live.watch import WatchedProcess

        from .live_program import LiveProgram
        from .top_view import TopApp
        from .top_widgets import end_by, own_terminal, signals_received

        program = LiveProgram(_command(words), terminal, dict(os.environ))
        app = TopApp(WatchedProcess(program.pid), INTERVAL_S, program)
        with signals_received(app.receive):
            with own_terminal():
                problem = app.run(mouse=False)
            if problem is not None:
                print(f"tprof: {problem}", file=sys.stderr)
            program.go_on_in_terminal()
            status = program.wait()
        if status < 0:
            end_by(-status)
        sys.exit(status)

    return execute


def _terminal() -> int | None:
    """Open the terminal of this process; None without one, or if it can show no view."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _command(words: Sequence[str]) -> list[str]:
    """Return the command that runs the program without a view, by this interpreter with its options."""
    at = words.index(LIVE)
    started = sys.argv[0]
    ours = ["-m", "tprof"] if Path(started).name == "__main__.py" else [started]
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing
    return [sys.executable, *options, *ours, "run", *words[:at], *words[at + 1 :]]
