"""The power of a server by its management controller's Redfish service, over the network, by the standard library.

Where the watts stand differs between controllers. `WATTS` has the places inside a resource, and `_Finder` looks for
the resource: `EnvironmentMetrics` of the chassis (Redfish 2021.2), else its `Power` (before), else the sum of what its
supplies take in (`PowerSubsystem`). Of `PowerControl` the first entry is the chassis; Lenovo's others are parts of it.
`IntervalInMin`, which some controllers give, is that of their means, not of the value.

A request is sent at once and its answer taken when it has come, since controllers take 50 ms to a second for one. A
session is opened for a recording: otherwise each request carries the password, which the controller checks and often
logs (DMTF DSP0266, "Authentication"). No redirect is followed, so the password goes to the named host only.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import urlsplit

from tprof.errors import SensorError, UsageError
from tprof.sensors import Accuracy, Domain, Found, Quality, Quantity, Reading, Sensor, Unavailable
from tprof.sensors.advice import Remedy

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Sequence

    from tprof.sensors import Machine

GIVE_CREDENTIALS = Remedy(
    "read -rsp 'user:password: ' TPROF_REDFISH && export TPROF_REDFISH",
    "every program that this shell starts can read the password; a line of ~/.netrc does without that",
)
DOMAIN = "node"
PERIOD_S, POLL_S, UPDATE_S = 1.0, 0.05, 1.0
"""Between two questions; between two looks for an answer; of the value, if the controller does not say it."""
LONGEST_S = 10.0
CHASSIS = "/redfish/v1/Chassis"
MOST_MEMBERS = 64
OPTIONS = {"verify": "yes or no", "ca": "a file"}
WATTS: tuple[tuple[str | int, ...], ...] = (
    ("PowerWatts", "Reading"),
    ("PowerControl", 0, "PowerConsumedWatts"),
    ("InputPowerWatts", "Reading"),
    ("Oem", "ts_fujitsu", "ChassisPowerConsumption", "CurrentPowerConsumptionW"),
)
"""Where a resource has its watts: EnvironmentMetrics, Power, PowerSupplyMetrics, Power of Fujitsu's iRMC."""
_SECONDS = re.compile(r"PT(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?$")
CREDENTIALS = "TPROF_REDFISH"
"""Environment variable with `user:password`."""
ROOT = "/redfish/v1/"
SESSIONS = "/redfish/v1/SessionService/Sessions"
TIMEOUT_S = 5.0
MOST_BYTES = 4 << 20
OK, CREATED, REDIRECTS, UNAUTHORISED, FORBIDDEN = 200, 201, range(300, 400), 401, 403
TRIES = 2
"""A controller may have closed a connection that was not used for a while."""


class Place(NamedTuple):
    """The controller, and the chassis if the user names one."""

    address: Address
    chassis: str | None


class Redfish(Sensor):
    """The node as its controller measures it."""

    name = "redfish"
    covers = "a server as a whole, by its management controller over the network"
    argument_words = "https://HOST, or https://HOST/redfish/v1/Chassis/ID, then ,ca= ,verify="

    def __init__(self, argument: str = "") -> None:
        """Read the argument."""
        super().__init__(argument)
        self.place = _parsed(argument) if argument else None

    def find(self, machine: Machine) -> Found | Unavailable:
        """Ask the controller for a chassis that shows its power."""
        del machine
        if self.place is None:
            return Unavailable('no controller is named: energy="redfish:https://HOST"')
        service = None
        try:
            with Service(self.place.address) as service:
                found = _Finder(service).source(self.place.chassis)
        except SensorError as error:
            refused = service is not None and service.was_refused
            return Unavailable(str(error), (GIVE_CREDENTIALS,) if refused else (), notable=True)
        details = (("controller", str(self.place.address)), ("paths", " ".join(found.paths)))
        domain = Domain(
            DOMAIN, "machine", None, self.name, Quality.MEASURED, accuracy=found.accuracy, details=details
        )  # fmt: skip
        return Found((domain,))

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> RedfishReader:
        """Connect and log in. Raises SensorError."""
        del machine
        assert self.place is not None  # noqa: S101 - without a place `find` found no domain
        service = Service(self.place.address)
        try:
            service.log_in()
            return RedfishReader(service, dict(domains[0].details)["paths"].split())
        except BaseException:
            service.close()
            raise


def _parsed(argument: str) -> Place:
    """Return the place and its options. Raises UsageError, whose text has no password."""
    if "@" in argument.partition(",ca=")[0]:
        raise UsageError(
            "energy=redfish takes no password, since a recording keeps its arguments: "
            f"set {CREDENTIALS}=user:password in the environment, or write a line for the host in ~/.netrc"
        )
    url, *words = argument.split(",")
    options = {"verify": "yes", "ca": ""}
    for word in words:
        key, _, value = word.partition("=")
        if key not in options or not value or (key == "verify" and value not in ("yes", "no")):
            allowed = ", ".join(f"{name}= ({what})" for name, what in OPTIONS.items())
            raise UsageError(f"energy=redfish takes {allowed}, got {word!r}")
        options[key] = value
    address, path = parse(url, verify=options["verify"] == "yes", ca=options["ca"] or None)
    path = path.rstrip("/")
    if path in ("", ROOT.rstrip("/"), CHASSIS):
        return Place(address, None)
    if not path.startswith(f"{CHASSIS}/"):
        raise UsageError(f"energy=redfish takes {Redfish.argument_words}, got the path {path!r}")
    return Place(address, path)


class Source(NamedTuple):
    """Resources whose watts add up to those of the node, and their error class."""

    paths: tuple[str, ...]
    accuracy: Accuracy


class _Finder:
    """Looks for the power of the node among the controller's resources."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def source(self, named: str | None) -> Source:
        """Return it. Raises SensorError if no chassis shows its power, or several do."""
        chassis = {path: self._service.get(path) for path in ([named] if named else self._members(self._collection()))}
        with_system = {path: one for path, one in chassis.items() if _at(one, "Links", "ComputerSystems")}
        for some in (with_system, chassis):
            outer = {path: one for path, one in some.items() if _inside(one) not in some}
            found = {path: source for path, one in outer.items() if (source := self._of(one)) is not None}
            if len(found) == 1:
                return next(iter(found.values()))
            if found:
                names = ", ".join(sorted(found))
                raise SensorError(
                    f"{self._service.address} shows the power of several chassis ({names}): name that of this machine, "
                    f'as in energy="redfish:{self._service.address}{min(found)}"'
                )
        raise SensorError(f"{self._service.address} shows the power of no chassis")

    def _collection(self) -> str:
        return _link(self._service.get(ROOT), "Chassis") or CHASSIS

    def _members(self, collection: str) -> list[str]:
        members = self._service.get(collection).get("Members")
        links = [_at(one, "@odata.id") for one in members] if isinstance(members, list) else []
        return [link for link in links if isinstance(link, str)][:MOST_MEMBERS]

    def _of(self, chassis: dict[str, Any]) -> Source | None:
        """Return where a chassis shows its watts; None: nowhere, or not now."""
        for resource in ("EnvironmentMetrics", "Power"):
            path = _link(chassis, resource)
            document = None if path is None else self._try(path)
            if path is not None and document is not None and watts_of(document) is not None:
                return Source((path,), self._accuracy(document, f"the whole node ({path})"))
        paths = tuple(self._supplies(chassis))
        if paths and all(watts_of(self._try(path) or {}) is not None for path in paths):
            return Source(paths, self._accuracy({}, f"the whole node (what its {len(paths)} supplies take in)"))
        return None

    def _supplies(self, chassis: dict[str, Any]) -> Iterable[str]:
        """Yield the metrics of each supply that is there."""
        subsystem = _link(chassis, "PowerSubsystem")
        collection = None if subsystem is None else _link(self._try(subsystem) or {}, "PowerSupplies")
        for path in self._members(collection) if collection is not None else ():
            supply = self._try(path) or {}
            metrics = _link(supply, "Metrics")
            if metrics is not None and _at(supply, "Status", "State") != "Absent":
                yield metrics

    def _try(self, path: str) -> dict[str, Any] | None:
        """Return a resource, or None if the controller links what it does not have."""
        try:
            return self._service.get(path)
        except SensorError:
            if self._service.was_refused:
                raise
            return None

    def _accuracy(self, document: dict[str, Any], covers: str) -> Accuracy:
        """Return the error class, as the sensor behind the value says it."""
        link = _at(document, "PowerWatts", "DataSourceUri")
        sensor = (self._try(link) if isinstance(link, str) else None) or {}
        interval = _SECONDS.match(str(sensor.get("SensingInterval")))
        update_s = 60 * float(interval[1] or 0) + float(interval[2] or 0) if interval else 0.0
        error = _number(sensor.get("Accuracy"))
        return Accuracy(
            update_s=update_s or UPDATE_S,
            resolution=1.0,
            relative_error=error / 100 if error is not None and 0 < error <= 100 else None,
            shows=Quantity.POWER,
            covers=covers,
        )


def watts_of(document: dict[str, Any]) -> float | None:
    """Return the watts of a resource, wherever it has them; None: nowhere, or null."""
    return next((watts for place in WATTS if (watts := _number(_at(document, *place))) is not None), None)


def _number(value: object) -> float | None:
    if isinstance(value, str):  # some controllers quote their numbers
        try:
            return float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _at(document: object, *keys: str | int) -> object:
    """Return what stands at a place of a JSON document; None: nothing."""
    for key in keys:
        if isinstance(document, dict):
            document = document.get(key)
        elif isinstance(document, list) and isinstance(key, int) and key < len(document):
            document = document[key]
        else:
            return None
    return document


def _link(document: dict[str, Any], name: str) -> str | None:
    link = _at(document, name, "@odata.id")
    return link if isinstance(link, str) and link.startswith("/") else None


def _inside(chassis: dict[str, Any]) -> str | None:
    """Return the chassis that contains a chassis."""
    link = _at(chassis, "Links", "ContainedBy", "@odata.id")
    return link if isinstance(link, str) else None


class RedfishReader:
    """Asks once a second, and takes the answer when it has come."""

    period_s = POLL_S

    def __init__(self, service: Service, paths: Sequence[str]) -> None:
        """Take over the connection, and wait for first values, so that a recording begins with them."""
        self._service, self._paths = service, paths
        self._left: list[str] = []
        self._since_ns = time.monotonic_ns()
        self._due_s = time.monotonic() + PERIOD_S
        self._watts = [watts_of(service.get(path)) for path in paths]
        self._first = [self._reading()]

    def _reading(self) -> Reading:
        known = [watts for watts in self._watts if watts is not None]
        # The controller took the value somewhen between the question and the answer.
        t_ns = (self._since_ns + time.monotonic_ns()) // 2
        return Reading(DOMAIN, sum(known) if len(known) == len(self._paths) else None, t_ns)

    def read(self) -> list[Reading]:
        """Return the watts if all their answers have come. Raises SensorError if the controller does not answer."""
        now_s = time.monotonic()
        if self._first:
            first, self._first = self._first, []
            return first
        if not self._left:
            if now_s < self._due_s:
                return []
            self._left, self._watts = list(self._paths), []
            self._due_s, self._since_ns = now_s + PERIOD_S, time.monotonic_ns()
            self._service.ask(self._left[0])
        if not self._service.has_answer():
            if now_s > self._due_s + LONGEST_S:
                raise SensorError(f"cannot read {self._service.address}: it has not answered for {LONGEST_S:g} s")
            return []
        document = self._service.answer()
        if document is not None:
            self._watts.append(watts_of(document))
            del self._left[0]
        if self._left:
            self._service.ask(self._left[0])
            return []
        return [self._reading()]

    def close(self) -> None:
        """End the session."""
        self._service.close()


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
