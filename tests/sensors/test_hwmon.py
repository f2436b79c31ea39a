"""What hwmon's channels cover is known by driver and label, from trees as machines have them."""

import re

import pytest
from support import fake_trees

from tprof.sensors import Found, LeftOut, Machine, Unavailable, choose
from tprof.sensors.contract import Quantity
from tprof.sensors.hwmon import table
from tprof.sensors.registry import create


@pytest.fixture
def tree(tmp_path):
    return fake_trees.machine(tmp_path / "root", fake_trees.AMD, {0: range(4)})


def device(tree, number, driver, **files):
    tree.write(f"sys/class/hwmon/hwmon{number}/name", driver)
    for name, text in files.items():
        tree.write(f"sys/class/hwmon/hwmon{number}/{name}", text)


def found(tree, asked):
    result = create(asked).find(Machine(tree.root))
    assert isinstance(result, Found), result
    return {domain.name: domain for domain in result.domains}


def test_every_line_of_the_table_names_its_source_and_a_domain():
    for known in table():
        assert known.source
        assert known.covers
        assert re.fullmatch(r"[a-z{}0-9-]+", known.domain)
        groups = re.compile(known.label).groups
        known.domain.format("", *["0"] * groups, n=0)


def test_sockets_of_amd_are_packages_and_their_cores_are_left_out(tree):
    device(
        tree, 4, "amd_energy", energy1_label="Ecore000", energy1_input="1", energy2_label="Esocket0",
        energy2_input="5000000", energy3_label="Esocket1", energy3_input="6000000",
    )  # fmt: skip

    domains = found(tree, "hwmon")

    assert sorted(domains) == ["package-0", "package-1"]
    assert [domains[name].package for name in sorted(domains)] == [0, 1]
    assert domains["package-0"].accuracy.shows is Quantity.ENERGY
    left_out = create("hwmon").find(Machine(tree.root)).left_out
    assert left_out == (
        LeftOut("amd_energy Ecore000", 'what it covers is not known: energy="hwmon:amd_energy" reads it'),
    )


def test_auto_takes_the_meters_of_a_grace_and_its_gpu_counts_beside(tree):
    for number, name in enumerate(("Module Power Socket 0", "Grace Power Socket 0", "CPU Power Socket 0")):
        device(
            tree, number, "power_meter", power1_average="40000000", power1_oem_info=name,
            power1_average_interval="50",
        )  # fmt: skip
    device(tree, 3, "amdgpu", power1_average="90000000", power1_input="95000000", power1_label="PPT")

    choice = choose("auto", root=tree.root)

    assert {domain.name: domain.counted for domain in choice.domains} == {"package-0": True, "gpu-amd-0": True}
    assert {domain.name: domain.accuracy.update_s for domain in choice.domains} == {
        "package-0": 0.05,
        "gpu-amd-0": None,
    }


def test_what_stands_around_the_processor_is_not_counted_twice(tree):
    for number, name in enumerate(("Module Power Socket 0", "Grace Power Socket 0", "CPU Power Socket 0")):
        device(tree, number, "power_meter", power1_average="40000000", power1_oem_info=name)

    choice = choose("hwmon", root=tree.root)

    assert {domain.name: domain.counted for domain in choice.domains} == {
        "package-0": True, "grace-0": False, "module-0": False,
    }  # fmt: skip


def test_graphics_cards_are_numbered_by_their_place_and_their_package_is_a_part(tree):
    for number in (7, 2):
        device(
            tree, number, "xe", energy1_label="card", energy1_input="1", energy2_label="pkg", energy2_input="1",
            power1_input="3",
        )  # fmt: skip

    choice = choose("intel_gpu", root=tree.root)

    assert {domain.name: domain.counted for domain in choice.domains} == {
        "gpu-intel-0": True, "gpu-intel-package-0": False, "gpu-intel-1": True, "gpu-intel-package-1": False,
    }  # fmt: skip


def test_rails_that_nobody_lists_are_read_when_their_driver_is_named(tree):
    device(tree, 0, "ina3221", power1_input="1500000", power1_label="VDD GPU", power2_input="500000")

    assert sorted(found(tree, "hwmon:ina3221")) == ["ina3221-0-VDD-GPU", "ina3221-0-channel-2"]
    nothing = create("hwmon").find(Machine(tree.root))
    assert isinstance(nothing, Unavailable)
    assert nothing.why == f"{tree.root}/sys/class/hwmon has no energy or power of a device that tprof knows"
