"""How far an analysis is, below a cell: what is done and since when, from the first second on."""

from __future__ import annotations

import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any, Self

from IPython.display import HTML, display

from tprof import log

if TYPE_CHECKING:
    from types import TracebackType

FIRST_S, EVERY_S = 1.0, 0.5


class Progress:
    """Shows what is logged meanwhile in one output of the cell, which `show` then replaces."""

    def __init__(self, doing: str, *, shows: bool) -> None:
        """Take what is done; a terminal cannot change an output, so nothing is shown there."""
        self._doing, self._shows = doing, shows
        self._begun_s = 0.0
        self._output: Any = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._update, name="tprof-progress", daemon=True)

    def __enter__(self) -> Self:
        """Begin to show."""
        self._begun_s = time.monotonic()
        log.listeners.append(self._listen)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the updates; what is shown stays until it is replaced."""
        log.listeners.remove(self._listen)
        self._ended.set()
        self._thread.join()
        if error is not None and self._output is not None:
            self._output.update(HTML(""))

    def show(self, value: object) -> None:
        """Show the result in place of the progress."""
        if self._output is None:
            display(value)
        else:
            self._output.update(value)

    def _listen(self, text: str) -> None:
        self._doing = text

    def _update(self) -> None:
        wait_s = FIRST_S
        while self._shows and not self._ended.wait(wait_s):
            wait_s = EVERY_S
            text = f"tprof, {time.monotonic() - self._begun_s:.0f} s: {escape(self._doing[:200])} …"
            if self._output is None:
                self._output = display(HTML(text), display_id=True)
            else:
                self._output.update(HTML(text))
