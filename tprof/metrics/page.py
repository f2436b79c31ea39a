"""A page of metrics for Prometheus, served by this process."""

from __future__ import annotations

import re
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tprof.errors import UsageError
from tprof.trace.metric_names import MOST_TASKS

from .election import Election
from .service import service

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = tuple[str, str, bytes]
    """Status, kind of content, content."""

USUAL_PORT = 9464
"""What OpenTelemetry's exporters for Prometheus take."""
ANSWER_S = 1.0
"""Longest wait for a client's request, and for it to read the answer: others wait meanwhile."""
REFUSED_S = 0.05
"""Wait after a connection that could not be accepted, such as without a free file descriptor."""
QUEUE = 128
"""Clients that wait in turn: those beyond it would try again after a second or more."""
MOST_BYTES = 1 << 14
"""Of a request."""
PLAIN = "text/plain; charset=utf-8"
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
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
    server = _Server(address, port, _page(most_tasks))
    service.start(server)
    return server.server_port


def stop() -> None:
    """Serve no more, and close the port; nothing happens if this process serves nothing."""
    service.stop()
    _election.leave()


def _page(most_tasks: int) -> Callable[[str], Answer]:
    """Return what makes the page for a header `Accept`."""
    try:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - it may be absent
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - see above

        from .prometheus import EnergyCollector  # noqa: PLC0415 - see above
    except ImportError as error:
        raise UsageError("metrics need prometheus_client: pip install 'tprof-energy[prometheus]'") from error
    registry = CollectorRegistry()
    registry.register(EnergyCollector(most_tasks))

    def page(accept: str) -> Answer:
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):  # as of a version that is no number
            encode, kind = choose_encoder("")
        return "200 OK", kind, encode(registry)

    return page


class _Server:
    """Answers one client after the other, each within a time, and writes nothing on standard error."""

    def __init__(self, address: str, port: int, page: Callable[[str], Answer]) -> None:
        """Listen. Raises UsageError."""
        self._address, self._page = address.lower(), page
        self._listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listening.bind((address, port))
            self._listening.listen(QUEUE)
        except OSError as error:
            self._listening.close()
            raise UsageError(
                f"cannot serve metrics on {address}:{port}: {(error.strerror or str(error)).lower()}; "
                "choose another port, or 0 for a free one"
            ) from error
        self._listening.settimeout(0)
        self.server_port = int(self._listening.getsockname()[1])

    def fileno(self) -> int:
        """Return the descriptor that listens."""
        return self._listening.fileno()

    def server_close(self) -> None:
        """Close the listening socket."""
        self._listening.close()

    def handle_request(self) -> None:
        """Answer a client, or let it go if it is slow or gone."""
        try:
            client = self._listening.accept()[0]
        except BlockingIOError:
            return
        except OSError:
            time.sleep(REFUSED_S)
            return
        with client, suppress(OSError):
            request = _read(client)
            status, kind, content = self._answer(request)
            head = f"HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
            client.settimeout(ANSWER_S)
            client.sendall(head.encode() + (b"" if request.startswith(b"HEAD ") else content))

    def _answer(self, request: bytes) -> Answer:
        first, *lines = request.decode("latin-1").split("\r\n")
        words = first.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            return "400 Bad Request", PLAIN, b"this is no request of HTTP\n"
        if words[0] not in ("GET", "HEAD"):
            return "405 Method Not Allowed", PLAIN, b"metrics can be read only\n"
        if not self._is_here(headers.get("host") or "localhost"):
            return "403 Forbidden", PLAIN, b'this is no name of this machine: to be read by it, serve on "0.0.0.0"\n'
        if words[1].partition("?")[0] != "/metrics":
            return "404 Not Found", PLAIN, b"metrics are at /metrics\n"
        try:
            return self._page(headers.get("accept", ""))
        except Exception as error:  # noqa: BLE001 - of a library, or at the end of a recording; the program must not see it
            return "500 Internal Server Error", PLAIN, f"{type(error).__name__}: {error}\n".encode()

    def _is_here(self, host: str) -> bool:
        """Return whether a header `Host` names this machine; else a web page may be behind a name that leads here."""
        name = (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).lower()
        is_for_all = self._address in ("0.0.0.0", "::", "")  # noqa: S104 - the user asked for it
        return is_for_all or name in (self._address, socket.gethostname().lower()) or bool(_LOOPBACK.fullmatch(name))


def _read(client: socket.socket) -> bytes:
    """Return the lines of a request up to the empty one. Raises OSError, also if it does not come in time."""
    found, deadline_s = b"", time.monotonic() + ANSWER_S
    while b"\r\n\r\n" not in found and len(found) < MOST_BYTES:
        client.settimeout(max(deadline_s - time.monotonic(), 0.001))
        piece = client.recv(MOST_BYTES)
        if not piece or time.monotonic() > deadline_s:
            raise TimeoutError
        found += piece
    return found.partition(b"\r\n\r\n")[0]
