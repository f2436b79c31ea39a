"""A page of metrics for Prometheus, served by this process."""

from __future__ import annotations

import socket
from socketserver import TCPServer
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tprof.errors import UsageError
from tprof.trace.metric_names import MOST_TASKS

from .election import Election
from .service import service

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

USUAL_PORT = 9464
"""What OpenTelemetry's exporters for Prometheus take."""
ANSWER_S = 1.0
"""Longest wait for a client that sends or reads nothing."""
_election = Election("metrics")


def start(port: int = USUAL_PORT, *, address: str = "127.0.0.1", most_tasks: int = MOST_TASKS) -> int | None:
    """Serve the metrics of the recording that this process takes part in: ``http://ADDRESS:PORT/metrics``.

    The page is of all processes of the recording, so one of them serves it: the first one that calls this. In the
    others nothing happens. A program may call it before its recording begins, and goes on to be served in the next one.

    Parameters
    ----------
    port
        0: any free one.
    address
        That of this machine by default. Energy reveals more of a program than its duration, so think before you serve
        it to all (``"0.0.0.0"``).
    most_tasks
        Series of tasks; further ones are ``<other tasks>``.

    Returns
    -------
    int or None
        The port; None if another process of the recording serves.

    Raises
    ------
    UsageError
        If the port is taken, this process serves already, or prometheus_client is not installed.

    Examples
    --------
    >>> import tempfile, tprof, tprof.metrics
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with tprof.record(directory + "/a.tprof", energy="estimate"):
    ...         port = tprof.metrics.start(0)
    ...         tprof.metrics.stop()
    """
    if type(port) is not int or not 0 <= port < 1 << 16:
        raise UsageError(f"a port is a number from 0 to 65535, got {port!r}")
    if service.is_serving:
        raise UsageError("this process serves metrics already: call tprof.metrics.stop() before another start()")
    if not _election.is_won():
        return None
    server = _Server.on(address, port, _application(most_tasks))
    service.start(server)
    return server.server_port


def stop() -> None:
    """Serve no more, and close the port; nothing happens if this process serves nothing."""
    service.stop()
    _election.leave()


def _application(most_tasks: int) -> WSGIApplication:
    try:
        from prometheus_client import CollectorRegistry, make_wsgi_app  # noqa: PLC0415 - it may be absent

        from .prometheus import EnergyCollector  # noqa: PLC0415 - see above
    except ImportError as error:
        raise UsageError("metrics need prometheus_client: pip install 'tprof-energy[prometheus]'") from error
    registry = CollectorRegistry()
    registry.register(EnergyCollector(most_tasks))
    return make_wsgi_app(registry)


class _Handler(WSGIRequestHandler):
    """Answers without a word on standard error."""

    timeout = ANSWER_S

    def log_message(self, *_: object) -> None:
        """Write no log."""


class _Server(WSGIServer):
    timeout = ANSWER_S
    request_queue_size = 128  # clients wait in turn: those beyond it would try again after a second or more

    @classmethod
    def on(cls, address: str, port: int, application: WSGIApplication) -> WSGIServer:
        """Listen. Raises UsageError."""
        kind = _Server6 if ":" in address else cls
        try:
            return make_server(address, port, application, kind, _Handler)
        except OSError as error:
            raise UsageError(
                f"cannot serve metrics on {address}:{port}: {(error.strerror or str(error)).lower()}; "
                "choose another port, or 0 for a free one"
            ) from error

    def server_bind(self) -> None:
        """Listen, without looking up the machine's full name, which may take seconds."""
        TCPServer.server_bind(self)
        address, port = self.server_address[:2]
        self.server_name, self.server_port = str(address), int(port)
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """Let a client go that went away while it was answered."""


class _Server6(_Server):
    address_family = socket.AF_INET6
