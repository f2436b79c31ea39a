"""A server's power by Redfish: where controllers have it, what they are asked, and who learns the password."""

import shutil
import ssl
import subprocess
import time

import pytest
from support import example_sensors
from support.fake_redfish import CHASSIS, LAYOUTS, PASSWORD, USER, FakeController, chassis, control, service
from support.fake_sensor import is_missing, raw_readings, wait_for
from tprof_redfish import Redfish

import tprof
from tprof.errors import SensorError, UsageError
from tprof.sensors import Found, Machine, Unavailable, sysroot


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    example_sensors.install(tmp_path, monkeypatch)
    monkeypatch.setattr("tprof_redfish.PERIOD_S", 0.1)
    monkeypatch.setenv("TPROF_REDFISH", f"{USER}:{PASSWORD}")
    return tmp_path


@pytest.fixture
def serve():
    controllers = []

    def start(resources, **options):
        controllers.append(FakeController(LAYOUTS[resources] if isinstance(resources, str) else resources, **options))
        return controllers[-1]

    yield start
    for one in controllers:
        one.stop()


def sensor(controller, more=""):
    return Redfish(f"{controller.url}{more}")


def find(controller, more=""):
    return sensor(controller, more).find(Machine(sysroot()))


def reader(one):
    machine = Machine(sysroot())
    return one.open(machine, one.find(machine).domains)


def next_reading(opened):
    return wait_for(opened.read, "a reading")[0]


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_each_makers_watts_are_found(serve, layout):
    controller = serve(layout)
    controller.watts = 123.0

    opened = reader(sensor(controller))

    assert [(one.domain, one.value) for one in opened.read()] == [("node", 123.0)]
    opened.close()


def test_the_sensor_behind_a_value_tells_its_error_class(serve):
    (domain,) = find(serve("bmcweb")).domains

    assert (domain.scope, domain.accuracy.update_s, domain.accuracy.relative_error) == ("machine", 0.5, 0.03)
    assert domain.accuracy.covers == "the whole node (/redfish/v1/Chassis/chassis/EnvironmentMetrics)"
    (other,) = find(serve("ilo")).domains
    assert (other.accuracy.update_s, other.accuracy.relative_error, other.accuracy.resolution) == (1.0, None, 1.0)


def blades(watts=40):
    power = {f"{one}/Power": control(("Power", watts)) for one in "12"}
    return service(**{one: chassis(f"{CHASSIS}/{one}", "Power") for one in "12"}, **power)


def test_one_of_several_servers_is_named(serve):
    controller = serve(blades())

    assert find(controller).why == (
        f"{controller.url} shows the power of several chassis (/redfish/v1/Chassis/1, /redfish/v1/Chassis/2): "
        f'name that of this machine, as in energy="redfish:{controller.url}/redfish/v1/Chassis/1"'
    )
    assert "paths', '/redfish/v1/Chassis/2/Power'" in str(find(controller, "/redfish/v1/Chassis/2").domains)
    assert find(serve(blades(watts=None))).why.endswith("shows the power of no chassis")


def test_a_recording_asks_by_a_session_and_keeps_no_password(serve, tmp_path):
    controller = serve("idrac")
    with tprof.record(tmp_path / "t.tprof", energy=f"redfish:{controller.url}", counters="none", idle_s=0):
        wait_for(lambda: len(raw_readings(tmp_path / "t.tprof", "node")) > 1, "two readings")

    kinds = {kind for method, path, kind in controller.requests[-3:]}
    assert kinds == {"token"}
    assert controller.sessions == 0
    kept = b"".join(path.read_bytes() for path in (tmp_path / "t.tprof").rglob("*") if path.is_file())
    assert controller.url.encode() in kept
    for secret in (PASSWORD, USER, "a-token"):
        assert secret.encode() not in kept
    info = tprof.load(tmp_path / "t.tprof").profile().info
    assert "node (power integrated by tprof, its own error beyond its steps of 1 W is not stated)" in info["sensor"]
    account = info["domains"][0]
    assert (account["source"], account["integrated"], account["counted"]) == ("redfish", True, True)


def test_without_sessions_each_request_has_the_credentials(serve):
    controller = serve("ilo")
    controller.has_sessions = False

    opened = reader(sensor(controller))
    opened.close()

    assert {kind for _, path, kind in controller.requests if "Power" in path} == {"basic"}


def test_an_answer_is_not_waited_for(serve):
    controller = serve("supplies")
    opened = reader(sensor(controller))
    opened.read()
    controller.may_answer.clear()
    wait_for(lambda: time.monotonic() > opened._due_s, "the next question's time")  # noqa: SLF001

    assert opened.read() == []
    controller.may_answer.set()
    assert next_reading(opened).value == 100.0
    opened.close()


def test_a_controller_that_closes_each_connection_is_read_on(serve):
    controller = serve("xcc")
    controller.keeps_open = False
    opened = reader(sensor(controller))
    opened.read()

    assert next_reading(opened).value == 100.0
    opened.close()


def test_an_answer_without_watts_is_missing_and_no_answer_an_error(serve):
    controller = serve(dict(LAYOUTS["idrac"]))
    opened = reader(sensor(controller))
    opened.read()

    controller.resources[f"{CHASSIS}/System.Embedded.1/Power"] = control(("System Power Control", None))
    assert next_reading(opened).value is None
    controller.status = 503
    with pytest.raises(SensorError, match=r"/Power: it answers HTTP 503$"):
        next_reading(opened)
    opened.close()


@pytest.mark.parametrize(
    ("given", "words", "remedies"),
    [
        (None, "it asks for user and password (HTTP 401)", 1),
        ("monitor:wrong", "it refuses these credentials (HTTP 401)", 1),
        ("monitor", "TPROF_REDFISH is not of the form user:password", 0),
    ],
)
def test_credentials_that_do_not_do_are_said(serve, monkeypatch, given, words, remedies):
    monkeypatch.delenv("TPROF_REDFISH")
    if given is not None:
        monkeypatch.setenv("TPROF_REDFISH", given)

    found = find(serve("idrac"))

    assert found.why.endswith(words)
    assert len(found.remedies) == remedies
    assert "wrong" not in found.why


def test_netrc_has_the_credentials_of_this_host_only(serve, monkeypatch, home):
    monkeypatch.delenv("TPROF_REDFISH")
    file = home / ".netrc"
    file.write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    file.chmod(0o600)

    assert isinstance(find(serve("idrac")), Found)
    file.write_text(f"machine elsewhere login {USER} password {PASSWORD}\ndefault login x password y\n")
    assert "asks for user" in find(serve("idrac")).why
    file.write_text(f"machine 127.0.0.1 logn {PASSWORD}\n")
    assert find(serve("idrac")).why == f"cannot read {file}: it is not of netrc's form, line 1"


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (f"https://{USER}:{PASSWORD}@bmc", "takes no password, since a recording keeps its arguments"),
        (f"https://{USER}:ge/h,eim@bmc", "takes no password"),
        ("ftp://bmc", "takes https://HOST or https://HOST:PORT, got 'ftp://bmc'"),
        ("https://bmc:x", "takes https://HOST or https://HOST:PORT, got 'https://bmc:x'"),
        ("https://bmc/power", "got the path '/power'"),
        ("https://bmc,verify=perhaps", "takes verify= (yes or no), ca= (a file), got 'verify=perhaps'"),
    ],
)
def test_what_names_no_controller_is_refused(argument, words):
    with pytest.raises(UsageError) as caught:
        Redfish(argument)

    assert words in str(caught.value)
    assert not {PASSWORD, "ge/h", "eim"} & set(str(caught.value).replace("'", " ").split())


def test_a_password_does_not_leave_the_machine_unencrypted():
    found = Redfish("http://192.0.2.1").find(Machine(sysroot()))

    assert found.why == (
        "cannot read http://192.0.2.1: it would get the password unencrypted, so name it with https://"
    )


def test_nobody_there_and_something_else_there_are_said(serve):
    controller = serve("idrac")
    controller.stop()
    assert find(controller).why == f"cannot reach {controller.url}: connection refused"
    controller.start()
    controller.status = 302
    assert "it is at another address (HTTP 302), so name that" in find(controller).why
    controller.status, controller.resources = None, {"/redfish/v1/": ["no object"]}
    assert find(controller).why.endswith("/redfish/v1/: it is no JSON object; is that a Redfish service?")
    assert isinstance(Redfish().find(Machine(sysroot())), Unavailable)


def test_certificates_are_checked_unless_the_user_says_no(serve, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bmc"
    places = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "ca"]
    subprocess.run(["openssl", *words.split(), *places], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca", tmp_path / "key")
    controller = serve("idrac", tls=context)

    refused = find(controller).why
    assert refused.startswith(f"cannot read {controller.url}: its certificate is not trusted (self-signed certificate)")
    assert controller.requests == []
    assert isinstance(find(controller, f",ca={tmp_path / 'ca'}"), Found)
    assert "cannot read /nowhere: no such file" in find(controller, ",ca=/nowhere").why
    opened = reader(sensor(controller, ",verify=no"))
    assert [one.value for one in opened.read()] == [100.0]
    assert next_reading(opened).value == 100.0
    opened.close()


def test_a_controller_that_goes_away_gives_missing_readings(serve, tmp_path):
    controller = serve("idrac")
    path = tmp_path / "t.tprof"
    with tprof.record(path, energy=f"redfish:{controller.url}", counters="none", idle_s=0) as recording:
        controller.stop()
        wait_for(lambda: is_missing(raw_readings(path, "node")).any(), "a failed read")
        controller.start()

    assert f"so energy may be missing: cannot reach {controller.url}: connection refused" in recording.notes[0]
