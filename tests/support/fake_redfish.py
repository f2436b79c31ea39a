"""A management controller's Redfish service on 127.0.0.1, with the layouts of makers' controllers.

The resources have those properties that say where the watts stand, as the makers' documents and users' reports show
them: Dell iDRAC 9 and 10, HPE iLO 5, Lenovo XCC, Fujitsu iRMC S6, OpenBMC's bmcweb, and a server by DMTF's schemas
(DSP8010) that has the newer resources only.
"""

from __future__ import annotations

import base64
import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from . import example_sensors
from .sensor_conformance import PowerBench

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    import pytest

USER, PASSWORD = "monitor", "geheim:7"
TOKEN, SESSION = "a-token", "/redfish/v1/SessionService/Sessions/3"
CHASSIS = "/redfish/v1/Chassis"
WATTS = "WATTS"
"""Stands where a resource has the watts that are driven."""


def link(path: str) -> dict[str, str]:
    """Return a link."""
    return {"@odata.id": path}


def chassis(path: str, *resources: str, system: bool = True, inside: str | None = None) -> dict[str, Any]:
    """Return a chassis with resources below it."""
    links: dict[str, Any] = {"ComputerSystems": [link("/redfish/v1/Systems/1")]} if system else {}
    links |= {} if inside is None else {"ContainedBy": link(inside)}
    return {"@odata.id": path, "Links": links} | {name: link(f"{path}/{name}") for name in resources}


def service(**resources: Any) -> dict[str, Any]:
    """Return a service with these chassis and what is below them, by path behind /redfish/v1/Chassis/."""
    below = {f"{CHASSIS}/{path}": one for path, one in resources.items()}
    members = [link(path) for path in below if path.count("/") == CHASSIS.count("/") + 1]
    return {"/redfish/v1/": {"Chassis": link(CHASSIS)}, CHASSIS: {"Members": members}} | below


def control(*pairs: tuple[str, Any]) -> dict[str, Any]:
    """Return a Power resource."""
    return {"PowerControl": [{"Name": name, "PowerConsumedWatts": watts} for name, watts in pairs]}


_DELL, _INTERNAL = f"{CHASSIS}/System.Embedded.1", f"{CHASSIS}/Enclosure.Internal.0-1"
_BMC, _NEW = f"{CHASSIS}/chassis", f"{CHASSIS}/1"
_SENSOR = f"{_BMC}/Sensors/power_total_power"
_SUPPLIES = f"{_NEW}/PowerSubsystem/PowerSupplies"
LAYOUTS: dict[str, dict[str, Any]] = {
    "idrac": service(
        **{
            "System.Embedded.1": chassis(_DELL, "Power"),
            "Enclosure.Internal.0-1": chassis(_INTERNAL, system=False),
            "System.Embedded.1/Power": control(("System Power Control", WATTS)),
        }
    ),
    "ilo": service(
        **{
            "1": chassis(_NEW, "Power"),
            "1/Power": {
                "PowerControl": [
                    {"PowerConsumedWatts": WATTS, "PowerMetrics": {"AverageConsumedWatts": 1, "IntervalInMin": 20}}
                ]
            },
        }
    ),
    "xcc": service(
        **{
            "1": chassis(_NEW, "Power"),
            "1/Power": control(
                ("Server Power Control", WATTS), ("CPU Sub-system Power", 60), ("Memory Sub-system Power", 10)
            ),
        }
    ),
    "irmc": service(
        **{
            "0": chassis(f"{CHASSIS}/0", "Power"),
            "0/Power": {"Oem": {"ts_fujitsu": {"ChassisPowerConsumption": {"CurrentPowerConsumptionW": WATTS}}}},
        }
    ),
    "bmcweb": service(
        **{
            "chassis": chassis(_BMC, "EnvironmentMetrics", "Power"),
            "chassis/EnvironmentMetrics": {"PowerWatts": {"Reading": WATTS, "DataSourceUri": _SENSOR}},
            "chassis/Power": control(("Chassis Power Control", None)),
            "chassis/Sensors/power_total_power": {"Reading": 1, "SensingInterval": "PT0.5S", "Accuracy": 3},
            "gpu": chassis(f"{CHASSIS}/gpu", "EnvironmentMetrics", system=False, inside=_BMC),
            "gpu/EnvironmentMetrics": {"PowerWatts": {"Reading": 50}},
        }
    ),
    "supplies": service(
        **{
            "1": chassis(_NEW, "EnvironmentMetrics", "PowerSubsystem"),
            "1/EnvironmentMetrics": {"TemperatureCelsius": {"Reading": 20}},
            "1/PowerSubsystem": {"PowerSupplies": link(_SUPPLIES)},
            "1/PowerSubsystem/PowerSupplies": {"Members": [link(f"{_SUPPLIES}/{one}") for one in "012"]},
            **{
                f"1/PowerSubsystem/PowerSupplies/{one}": {
                    "Status": {"State": "Absent" if one == "2" else "Enabled"},
                    "Metrics": link(f"{_SUPPLIES}/{one}/Metrics"),
                }
                for one in "012"
            },
            "1/PowerSubsystem/PowerSupplies/0/Metrics": {"InputPowerWatts": {"Reading": WATTS}},
            "1/PowerSubsystem/PowerSupplies/1/Metrics": {"InputPowerWatts": {"Reading": 0}},
        }
    ),
}


class FakeController:
    """The service; it runs until it is closed.

    Attributes
    ----------
    resources : by path; `WATTS` in them is what `watts` is.
    has_login, has_sessions : whether it asks for credentials, and opens sessions.
    keeps_open : whether a connection serves several requests.
    may_answer : each answer waits for it.
    status : of every answer; None: as it should be.
    requests : method, path and kind of authorisation of each.
    """

    def __init__(self, resources: dict[str, Any], *, tls: ssl.SSLContext | None = None) -> None:
        """Begin to serve."""
        self.resources, self.watts = resources, 100.0
        self.has_login = self.has_sessions = self.keeps_open = True
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.status: int | None = None
        self.requests: list[tuple[str, str, str]] = []
        self.sessions = 0
        self._tls = tls
        self._connections: set[Any] = set()
        self._serve(0)

    def _serve(self, port: int) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                outer._connections.add(self.connection)

            def do_GET(self) -> None:
                outer.answer(self)

            do_POST = do_DELETE = do_GET  # noqa: N815 - the library's names

            def log_message(self, *_: object) -> None:
                """Write nothing."""

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        given = "token" if request.headers.get("X-Auth-Token") == TOKEN else ""
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        given = "basic" if request.headers.get("Authorization") == f"Basic {basic}" else given
        self.requests.append((request.command, request.path, given))
        self.may_answer.wait(60)
        status, headers, document = self._result(request.command, request.path, given, body)
        status = self.status or status
        data = json.dumps(document).replace(f'"{WATTS}"', str(self.watts)).encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(name, value)
        if not self.keeps_open:
            request.send_header("Connection", "close")
        request.end_headers()
        request.wfile.write(data)

    def _result(self, method: str, path: str, given: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        if method == "POST" and self.has_sessions:
            if json.loads(body) != {"UserName": USER, "Password": PASSWORD}:
                return 401, {}, {}
            self.sessions += 1
            return 201, {"X-Auth-Token": TOKEN, "Location": SESSION}, {}
        if self.has_login and not given and path != "/redfish/v1/":
            return 401, {}, {}
        if method == "DELETE" and path == SESSION:
            self.sessions -= 1
            return 204, {}, {}
        found = self.resources.get(path)
        return (404, {}, {}) if found is None or method != "GET" else (200, {}, found)

    def stop(self) -> None:
        """Go away, with its connections."""
        self._server.shutdown()
        self._server.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def start(self) -> None:
        """Come back at the same address."""
        self._serve(self.port)


class RedfishBench(PowerBench):
    """A controller."""

    domain = "node"
    watts = (200.0, 300.0)

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(place, monkeypatch)
        example_sensors.install(place, monkeypatch)
        monkeypatch.setenv("TPROF_REDFISH", f"{USER}:{PASSWORD}")
        self.controller = FakeController(LAYOUTS["idrac"])
        self.energy = f"redfish:{self.controller.url}"
        self.is_up = True

    def show(self, value: float) -> None:
        """Show watts from now on."""
        self.controller.watts = value

    def remove(self) -> None:
        """Pull the controller's cable."""
        self.controller.stop()
        self.is_up = False

    def put_back(self) -> None:
        """Plug it in again."""
        self.controller.start()
        self.is_up = True

    def forbid(self) -> None:
        """Give wrong credentials."""
        self.monkeypatch.setenv("TPROF_REDFISH", "monitor:wrong")

    def close(self) -> None:
        """End it."""
        if self.is_up:
            self.controller.stop()
