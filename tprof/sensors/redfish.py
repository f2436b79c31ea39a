"""The power of a server by its management controller's Redfish service, over the network.

Where the watts stand differs between controllers. `WATTS` has the places inside a resource, and `_Finder` looks for
the resource: `EnvironmentMetrics` of the chassis (Redfish 2021.2), else its `Power` (before), else the sum of what its
supplies take in (`PowerSubsystem`). Of `PowerControl` the first entry is the chassis; Lenovo's others are parts of it.
`IntervalInMin`, which some controllers give, is that of their means, not of the value.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof import _core
from tprof.errors import SensorError, UsageError

from .advice import REDFISH_CREDENTIALS
from .contract import Accuracy, Domain, Found, Quality, Quantity, Reading, Sensor, Unavailable
from .redfish_service import CREDENTIALS, ROOT, Address, Service, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .contract import Machine

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
            return Unavailable(str(error), (REDFISH_CREDENTIALS,) if refused else (), notable=True)
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
        self._since_ns = _core.now_ns()
        self._due_s = time.monotonic() + PERIOD_S
        self._watts = [watts_of(service.get(path)) for path in paths]
        self._first = [self._reading()]

    def _reading(self) -> Reading:
        known = [watts for watts in self._watts if watts is not None]
        # The controller took the value somewhen between the question and the answer.
        t_ns = (self._since_ns + _core.now_ns()) // 2
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
            self._due_s, self._since_ns = now_s + PERIOD_S, _core.now_ns()
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
