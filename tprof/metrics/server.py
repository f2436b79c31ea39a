"""Serves a page by HTTP from one thread, in which no client waits for another."""

from __future__ import annotations

import re
import selectors
import socket
import time
from typing import TYPE_CHECKING

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answer = tuple[str, str, bytes]
    """Status, kind of content, content."""

REQUEST_S = 5.0
"""Longest time from a client's connection until it has read its answer; a second more at most."""
MOST_CLIENTS = 64
"""Connections at a time; one more closes the oldest."""
REFUSED_S = 0.05
"""Wait after a connection that could not be accepted, such as without a free file descriptor."""
QUEUE = 128
"""Clients that wait to be accepted: those beyond it would try again after a second or more."""
MOST_BYTES = 1 << 14
"""Of a request."""
PLAIN = "text/plain; charset=utf-8"
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")


class Server:
    """Reads from each client and writes to it when the kernel says it is ready; writes nothing on standard error."""

    def __init__(self, address: str, port: int, page: Callable[[str], Answer]) -> None:
        """Listen. Raises UsageError."""
        self._address, self._page = address.lower(), page
        self._deadlines_s: dict[socket.socket, float] = {}  # of the clients, in the order of their connections
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
        self._selector = selectors.EpollSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to serve."""
        return self._selector.fileno()

    def close(self) -> None:
        """Close all sockets; in a forked child, the parent's stay open."""
        self._selector.close()
        for each in (self._listening, *self._deadlines_s):
            each.close()

    def serve(self) -> None:
        """Serve each client as far as it is ready, and close those that took too long; never waits for one."""
        for key, _ in self._selector.select(0):
            if key.fileobj is self._listening:
                self._accept()
            elif key.fileobj in self._deadlines_s:  # else it was closed in favour of one that came in this round
                self._advance(key.fileobj, key.data)
        now_s = time.monotonic()
        for client in [client for client, deadline_s in self._deadlines_s.items() if deadline_s < now_s]:
            self._close(client)

    def _accept(self) -> None:
        try:
            client = self._listening.accept()[0]
        except BlockingIOError:
            return
        except OSError:
            time.sleep(REFUSED_S)
            return
        if len(self._deadlines_s) == MOST_CLIENTS:
            self._close(next(iter(self._deadlines_s)))
        client.settimeout(0)
        self._deadlines_s[client] = time.monotonic() + REQUEST_S
        conversation = self._conversation(client)
        self._selector.register(client, next(conversation), conversation)

    def _advance(self, client: socket.socket, conversation: Iterator[int]) -> None:
        try:
            self._selector.modify(client, next(conversation), conversation)
        except (StopIteration, OSError):
            self._close(client)

    def _close(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        del self._deadlines_s[client]
        client.close()

    def _conversation(self, client: socket.socket) -> Iterator[int]:
        """Read the request and write the answer; yields the event that each next step needs."""
        request = b""
        while b"\r\n\r\n" not in request and len(request) < MOST_BYTES:
            yield selectors.EVENT_READ
            piece = client.recv(MOST_BYTES)
            if not piece:
                return
            request += piece
        status, kind, content = self._answer(request.partition(b"\r\n\r\n")[0])
        head = f"HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        left = memoryview(head.encode() + (b"" if request.startswith(b"HEAD ") else content))
        while left:
            yield selectors.EVENT_WRITE
            left = left[client.send(left) :]

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
