"""The thread that reads the figures once a second, and serves them if it is given a server."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tprof.session.own_thread import OwnThread
from tprof.session.process_state import this_process

from .figures import Figures

if TYPE_CHECKING:
    from .server import Server

PERIOD_S = 1.0
FORK_S = 0.2
"""Longest wait of a fork for an answer in progress; a longer one goes on in the parent meanwhile."""
_log = logging.getLogger("tprof.metrics")


class Service:
    """The metrics of this process; its thread ends before a fork and starts again in the parent."""

    def __init__(self) -> None:
        """Begin without a thread."""
        self.figures = Figures()
        self._server: Server | None = None
        self._thread: OwnThread | None = None
        self._runs = False
        self._waking: tuple[socket.socket, socket.socket] | None = None
        this_process.reset_in_child(self._forget)

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._runs

    @property
    def is_serving(self) -> bool:
        """Whether it has a server."""
        return self._server is not None

    def start(self, server: Server | None = None) -> None:
        """Read from now on, and serve."""
        self._end(-1)
        if server is not None:
            self._server = server
        self._runs = this_process.shows_metrics = True
        self._waking = self._waking or socket.socketpair()
        this_process.pause_no_more(self)
        this_process.pause_around_forks(self)
        self.resume()

    def stop(self) -> None:
        """End the thread, and close the port."""
        self._runs = this_process.shows_metrics = False
        this_process.pause_no_more(self)
        self._end(-1)
        self._close()

    def pause(self) -> None:
        """End the thread, unless that takes long."""
        self._end(FORK_S)

    def _end(self, timeout_s: float) -> None:
        thread = self._thread
        if thread is not None and self._waking is not None:
            with suppress(OSError):
                self._waking[1].send(b"\0")
            if thread.end(timeout_s):
                self._thread = None

    def resume(self) -> None:
        """Start it again."""
        if self._runs and self._thread is None:
            with suppress(RuntimeError):  # no thread can be started: there are no more figures
                self._thread = OwnThread(self._run, "tprof-metrics")

    def _forget(self) -> None:
        """Begin anew in a forked child: the parent serves the figures of all."""
        self._runs, self._thread = False, None
        self._close()
        self.figures = Figures()

    def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for end in self._waking or ():
            end.close()
        self._waking = None

    def _run(self, thread: OwnThread) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                self._serve(thread, selector)
        except Exception as error:  # noqa: BLE001 - a thread's main: the program must not see it
            _log.error("metrics end here: %s: %s", type(error).__name__, error)

    def _serve(self, thread: OwnThread, selector: selectors.BaseSelector) -> None:
        if self._waking is None:
            return
        waking, server = self._waking[0], self._server
        selector.register(waking, selectors.EVENT_READ)
        if server is not None:
            selector.register(server, selectors.EVENT_READ)
        due_s = time.monotonic()
        while not thread.is_over(0):
            for key, _ in selector.select(max(due_s - time.monotonic(), 0.0)):
                if key.fileobj is waking and waking.recv(64) and thread.is_over(FORK_S):
                    return  # what wakes the thread is sent before it is asked to end
            if server is not None:
                server.serve()
            if time.monotonic() >= due_s:
                self.figures.poll()
                due_s = time.monotonic() + PERIOD_S


service = Service()
"""That of this process."""
