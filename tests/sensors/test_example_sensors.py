"""The sensors of examples/sensors: found by entry points; batteries show the power of the machine."""

import pytest
from support import example_sensors, fake_trees
from support.sensor_benches import BENCHES
from tprof_battery import Battery

from tprof.sensors import Found, Machine, Unavailable
from tprof.sensors.registry import BUILT_IN, names, sensor_class


@pytest.fixture
def tree(tmp_path):
    return fake_trees.machine(tmp_path / "root", fake_trees.AMD, {0: range(4)})


def test_each_is_listed_once_it_is_installed_and_has_a_bench(tmp_path, monkeypatch):
    assert not set(example_sensors.ENTRIES) & set(names())
    example_sensors.install(tmp_path, monkeypatch)

    assert set(example_sensors.ENTRIES) <= set(names()) - set(BUILT_IN)
    assert all(sensor_class(name).name == name for name in example_sensors.ENTRIES)
    assert set(example_sensors.ENTRIES) <= set(BENCHES)


def battery(tree, name="BAT0", **files):
    for file, text in {"type": "Battery", "status": "Discharging", **files}.items():
        tree.write(f"sys/class/power_supply/{name}/{file}", text)


def watts(tree):
    (reading,) = Battery("").open(Machine(tree.root), ()).read()
    return reading.value


def test_batteries_give_their_power_together_whatever_its_sign(tree):
    battery(tree, power_now="12000000")
    battery(tree, "BAT1", current_now="-1000000", voltage_now="8000000")
    battery(tree, "hidpp_battery_0", scope="Device", power_now="1")

    assert watts(tree) == pytest.approx(20)
    found = Battery("").find(Machine(tree.root))
    assert isinstance(found, Found)
    assert [domain.scope for domain in found.domains] == ["machine"]


def test_a_battery_that_is_charged_says_nothing_of_the_machine(tree):
    battery(tree, status="Charging", power_now="12000000")

    unavailable = Battery("").find(Machine(tree.root))
    assert isinstance(unavailable, Unavailable)
    assert "does not discharge: the supply feeds the machine" in unavailable.why
    assert watts(tree) is None
