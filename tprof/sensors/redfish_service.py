"""One connection to a server's management controller by Redfish: JSON over HTTP, by the standard library.

A request is sent at once and its answer taken when it has come, since controllers take 50 ms to a second for one. A
session is opened for a recording: otherwise each request carries the password, which the controller checks and often
logs (DMTF DSP0266, "Authentication"). No redirect is followed, so the password goes to the named host only.
"""

from __future__ import annotations

import http.client
import json
import os
import select
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from tprof.errors import SensorError, UsageError

if TYPE_CHECKING:
    import ssl

CREDENTIALS = "TPROF_REDFISH"
"""Environment variable with `user:password`."""
ROOT = "/redfish/v1/"
SESSIONS = "/redfish/v1/SessionService/Sessions"
TIMEOUT_S = 5.0
MOST_BYTES = 4 << 20
OK, CREATED, REDIRECTS, UNAUTHORISED, FORBIDDEN = 200, 201, range(300, 400), 401, 403
TRIES = 2
"""A controller may have closed a connection that was not used for a while."""


@dataclass(frozen=True)
class Address:
    """The controller: `https://HOST[:PORT]`, and how its certificate is checked."""

    scheme: str
    host: str
    port: int | None
    verify: bool = True
    ca: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port is None else f":{self.port}")

    @property
    def is_here(self) -> bool:
        """Whether what is sent stays on this machine."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse(url: str, *, verify: bool, ca: str | None) -> tuple[Address, str]:
    """Return the address and the path of a URL. Raises UsageError."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise UsageError(f"energy=redfish takes https://HOST or https://HOST:PORT, got {url!r}")
    return Address(parts.scheme, parts.hostname, port, verify, ca), parts.path


def credentials(host: str) -> tuple[str, str] | None:
    """Return user and password: of the environment, or of this host in ~/.netrc. Raises SensorError, which has none."""
    given = os.environ.get(CREDENTIALS)
    if given:
        user, colon, password = given.partition(":")
        if not colon:
            raise SensorError(f"{CREDENTIALS} is not of the form user:password")
        return user, password
    return _of_netrc(host)


def _of_netrc(host: str) -> tuple[str, str] | None:
    from netrc import NetrcParseError, netrc  # noqa: PLC0415 - seldom needed

    try:
        found = netrc().hosts.get(host)
    except FileNotFoundError:
        return None
    except RuntimeError:  # no home directory
        return None
    except OSError as error:
        raise SensorError(f"cannot read {Path.home() / '.netrc'}: {error.strerror}") from error
    except NetrcParseError as error:
        # Its message may hold what it stumbled over, the password.
        line = "" if error.lineno is None else f", line {error.lineno}"
        why = "others may read it: chmod 600" if "permissive" in error.msg else f"it is not of netrc's form{line}"
        raise SensorError(f"cannot read {Path.home() / '.netrc'}: {why}") from None
    return None if found is None else (found[0], found[2])


class Service:
    """A controller's service, connected when it is first asked."""

    def __init__(self, address: Address) -> None:
        """Store the address and find the credentials. Raises SensorError."""
        self.address = address
        self.was_refused = False
        self._credentials = credentials(address.host)
        if self._credentials is not None and address.scheme == "http" and not address.is_here:
            raise SensorError(f"cannot read {address}: it would get the password unencrypted, so name it with https://")
        self._connection: http.client.HTTPConnection | None = None
        self._headers = {"Accept": "application/json", "OData-Version": "4.0"}
        self._session: str | None = None
        self._asked: str | None = None
        self._use_basic()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.close()

    def _use_basic(self) -> None:
        if self._credentials is not None:
            from base64 import b64encode  # noqa: PLC0415 - seldom needed

            word = b64encode(":".join(self._credentials).encode()).decode()
            self._headers["Authorization"] = f"Basic {word}"

    def log_in(self) -> None:
        """Open a session; a controller that has none gets the credentials with each request. Raises SensorError."""
        if self._credentials is None:
            return
        user, password = self._credentials
        body = json.dumps({"UserName": user, "Password": password})
        status, headers, _ = self._exchange("POST", SESSIONS, body)
        token = headers.get("X-Auth-Token")
        if status in (OK, CREATED) and token:
            del self._headers["Authorization"]
            self._headers["X-Auth-Token"] = token
            self._session = urlsplit(headers.get("Location", "")).path or None

    def get(self, path: str) -> dict[str, Any]:
        """Return a resource, waiting for it. Raises SensorError."""
        status, headers, data = self._exchange("GET", path)
        return self._document(path, status, headers, data)

    def _exchange(self, method: str, path: str, body: str | None = None) -> tuple[int, http.client.HTTPMessage, bytes]:
        for attempt in range(1, TRIES + 1):
            try:
                self._send(method, path, body)
                return self._take()
            except (http.client.HTTPException, OSError) as error:
                self._disconnect()
                if attempt == TRIES or not isinstance(error, (http.client.RemoteDisconnected, ConnectionError)):
                    raise self._failure(error) from error
        raise AssertionError

    def _send(self, method: str, path: str, body: str | None = None) -> None:
        if self._connection is None:
            self._connection = self._connect()
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        self._connection.request(method, path, body, headers)

    def _connect(self) -> http.client.HTTPConnection:
        if self.address.scheme == "http":
            return http.client.HTTPConnection(self.address.host, self.address.port, timeout=TIMEOUT_S)
        context = _context(self.address)
        return http.client.HTTPSConnection(self.address.host, self.address.port, timeout=TIMEOUT_S, context=context)

    def _take(self) -> tuple[int, http.client.HTTPMessage, bytes]:
        assert self._connection is not None  # noqa: S101 - `_send` made it
        response = self._connection.getresponse()
        data = response.read(MOST_BYTES)
        if not response.isclosed():
            self._disconnect()
            raise SensorError(f"cannot read {self.address}: it answers with more than {MOST_BYTES >> 20} MiB")
        return response.status, response.headers, data

    def ask(self, path: str) -> None:
        """Send a request whose answer `answer` takes. Raises SensorError."""
        for attempt in range(1, TRIES + 1):
            try:
                self._send("GET", path)
                break
            except (http.client.HTTPException, OSError) as error:
                self._disconnect()
                if attempt == TRIES:
                    raise self._failure(error) from error
        self._asked = path

    def has_answer(self) -> bool:
        """Return whether the answer, or the end of the connection, has come."""
        socket = None if self._connection is None else self._connection.sock
        if socket is None:
            return True
        if getattr(socket, "pending", int)():
            return True
        poll = select.poll()
        poll.register(socket, select.POLLIN)
        return bool(poll.poll(0))

    def answer(self) -> dict[str, Any] | None:
        """Return the resource that was asked for; None: the connection had ended before. Raises SensorError."""
        path, self._asked = self._asked, None
        assert path is not None  # noqa: S101 - `ask` comes first
        try:
            status, headers, data = self._take()
        except (http.client.RemoteDisconnected, ConnectionError):
            self._disconnect()
            return None
        except (http.client.HTTPException, OSError) as error:
            self._disconnect()
            raise self._failure(error) from error
        return self._document(path, status, headers, data)

    def _document(self, path: str, status: int, headers: http.client.HTTPMessage, data: bytes) -> dict[str, Any]:
        if status != OK:
            raise SensorError(self._refusal(path, status, headers))
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SensorError(f"cannot read {self.address}{path}: it is no JSON object; is that a Redfish service?")
        return found

    def _refusal(self, path: str, status: int, headers: http.client.HTTPMessage) -> str:
        if status in (UNAUTHORISED, FORBIDDEN):
            self.was_refused = True
            why = "it asks for user and password" if self._credentials is None else "it refuses these credentials"
            return f"cannot read {self.address}: {why} (HTTP {status})"
        if status in REDIRECTS:
            where = headers.get("Location", "another address")
            return f"cannot read {self.address}{path}: it is at {where} (HTTP {status}), so name that"
        return f"cannot read {self.address}{path}: it answers HTTP {status}"

    def _failure(self, error: Exception) -> SensorError:
        """Return an error of the connection as a sentence."""
        if isinstance(error, SensorError):
            return error
        reason = getattr(error, "verify_message", None)
        if reason:
            return SensorError(
                f"cannot read {self.address}: its certificate is not trusted ({reason}); name that of its issuer by "
                "ca=FILE, or trust any by verify=no"
            )
        if isinstance(error, TimeoutError):
            return SensorError(f"cannot read {self.address}: it has not answered for {TIMEOUT_S:g} s")
        why = getattr(error, "strerror", None) or f"{type(error).__name__} {error}".strip()
        return SensorError(f"cannot reach {self.address}: {why[:1].lower() + why[1:]}")

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """End the session and the connection. Raises SensorError if the controller keeps the session."""
        session, self._session = self._session, None
        try:
            if session is not None:
                if self._asked is not None:
                    self._disconnect()  # its answer would be taken for the next one's
                self._exchange("DELETE", session)
        finally:
            self._disconnect()


def _context(address: Address) -> ssl.SSLContext:
    """Return how TLS is checked: by the system's authorities, or one that is named. Raises SensorError."""
    import ssl  # noqa: PLC0415 - kept off recordings without it

    try:
        context = ssl.create_default_context(cafile=address.ca)
    except OSError as error:
        why = (error.strerror or "it holds no certificate").lower()
        raise SensorError(f"cannot read {address.ca}: {why}") from error
    if not address.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
