"""`tprof sensors` lists what can be read and its watts, now or as they change."""

import json

import pytest
from support.added_sensor import CounterBench, MeterBench
from support.command_line import tprof as run_tprof
from support.fake_sensor import FakeSensor, wait_for
from support.fake_trees import INTEL, RANGE_UJ, machine
from support.powercap_bench import PowercapBench

WATTS = 40.0


@pytest.fixture
def _driven_package(tmp_path, monkeypatch):
    tree = machine(tmp_path / "root", INTEL, {0: range(2)})
    tree.zone("intel-rapl:0", "package-0")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    with FakeSensor(watts=WATTS, modulus=RANGE_UJ + 1).drives(tree.energy_of("intel-rapl:0")):
        yield


def domains(done):
    assert (done.returncode, done.stderr) == (0, "")
    return {(one["sensor"], one["name"]): one for one in json.loads(done.stdout)["domains"]}


@pytest.mark.usefixtures("_driven_package")
def test_every_domain_has_its_watts_and_what_it_is(tmp_path):
    def near():
        """Return the package, unless its counter, which a process advances, stood still or jumped meanwhile."""
        package = domains(run_tprof("sensors", "powercap", "--json", cwd=tmp_path))["powercap", "package-0"]
        return package if package["power_w"] == pytest.approx(WATTS, rel=0.5) else None

    package = wait_for(near, "the package's watts")

    assert package["counted"] is True
    assert package["shows"] == "energy"
    assert package["resolution"] == 1e-6


def test_the_table_names_what_is_missing_with_the_command(tmp_path, monkeypatch):
    bench = PowercapBench(tmp_path, monkeypatch)
    bench.begin()
    bench.forbid()

    done = run_tprof("sensors", cwd=tmp_path)

    assert done.returncode == 0
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  powercap "))
    assert "cannot read" in line
    assert "  $ sudo groupadd -f power" in done.stdout
    assert "pip install" not in done.stdout
    assert "estimate" in done.stdout
    named = run_tprof("sensors", "powercap", cwd=tmp_path).stdout
    assert named.startswith("powercap (packages and DRAM of x86 processors, by the kernel's powercap files) is not")
    assert "exposes: the group `power` can read energy" in named


def test_a_meter_of_power_shows_its_watts(tmp_path, monkeypatch):
    bench = MeterBench(tmp_path, monkeypatch)
    bench.begin()

    wall = domains(run_tprof("sensors", bench.energy, "--watch", "--once", "--json", cwd=tmp_path))[
        "added_meter", "wall"
    ]

    assert wall["power_w"] == bench.watts[0]
    assert wall["relative_error"] == 0.01


def test_what_cannot_be_read_now_says_why(tmp_path, monkeypatch):
    bench = CounterBench(tmp_path, monkeypatch)
    bench.begin()
    bench.show("no number")

    done = run_tprof("sensors", bench.energy, "--watch", "--once", cwd=tmp_path)

    assert done.stdout == "added_counter gpu-0 not read: the read failed (measured)\n"


def test_a_sensor_that_is_not_there_ends_with_its_name(tmp_path):
    done = run_tprof("sensors", "rapl", cwd=tmp_path)

    assert done.returncode == 2
    assert "energy must be one of auto, perf, powercap" in done.stderr


def test_the_interval_is_checked(tmp_path):
    done = run_tprof("sensors", "--watch", "--interval", "0", cwd=tmp_path)

    assert done.returncode == 2
    assert "--interval must be from 0.05 to 3600 seconds, got 0" in done.stderr


def test_what_cannot_be_watched_is_said(tmp_path, monkeypatch):
    bench = MeterBench(tmp_path, monkeypatch)
    bench.begin()

    both = run_tprof("sensors", bench.energy, "meter:nowhere", "--watch", "--once", cwd=tmp_path)
    none = run_tprof("sensors", "meter:nowhere", "--watch", "--once", cwd=tmp_path)

    why = "meter is not available: cannot read nowhere: no such file or directory"
    assert both.stderr == f"tprof: {why}\n"
    assert both.stdout.startswith("added_meter wall ")
    assert (none.returncode, none.stdout, none.stderr) == (1, "", f"tprof: {why}\n")
