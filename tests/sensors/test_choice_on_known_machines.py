"""Which domains are read and counted on known machines, and what is left out with the reason."""

import os

import pytest
from support import fake_trees
from support.fake_trees import reasons

import tprof
from tprof import sensors
from tprof.errors import SensorError, UsageError


def names(choice, *, counted):
    return [domain.name for domain in choice.domains if domain.counted is counted]


def choose(tree, energy="powercap"):
    return sensors.choose(energy, root=tree.root, machine="x86_64")


def test_a_laptop_counts_its_package_and_neither_its_parts_nor_psys(tmp_path):
    choice = choose(fake_trees.laptop(tmp_path))

    assert names(choice, counted=True) == ["package-0"]
    assert names(choice, counted=False) == ["core-0", "uncore-0", "psys"]
    assert reasons(choice) == {
        "core-0": "it is a part of its package",
        "uncore-0": "it is a part of its package",
        "psys": "it stands around the packages and would count them twice",
    }


def test_a_server_counts_packages_and_dram_by_name_and_not_the_mirror(tmp_path):
    choice = choose(fake_trees.server(tmp_path))

    assert names(choice, counted=True) == ["package-0", "dram-0", "package-1", "dram-1"]
    assert {d.name: d.package for d in choice.domains if d.counted} == {
        "package-0": 0,
        "dram-0": 0,
        "package-1": 1,
        "dram-1": 1,
    }
    assert names(choice, counted=False) == ["psys"]
    assert reasons(choice)["intel-rapl-mmio:0"] == "it mirrors intel-rapl's package-0"


def test_each_domain_wraps_at_its_own_range(tmp_path):
    choice = choose(fake_trees.server(tmp_path))

    moduli = {domain.name: domain.modulus for domain in choice.domains}
    assert moduli["package-1"] == fake_trees.RANGE_UJ + 1
    assert moduli["dram-1"] == fake_trees.DRAM_RANGE_UJ + 1


@pytest.mark.parametrize("content", ["", "0", "garbage", "-5", "\N{SUPERSCRIPT TWO}", "9" * 25, "9" * 5000])
def test_a_range_that_says_nothing_corrects_no_wrap(tmp_path, content):
    tree = fake_trees.laptop(tmp_path)
    tree.write("sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/max_energy_range_uj", content)

    package = next(domain for domain in choose(tree).domains if domain.name == "package-0")

    assert package.modulus is None


def test_the_second_die_of_an_amd_socket_is_a_mirror(tmp_path):
    choice = choose(fake_trees.dies(tmp_path, fake_trees.AMD))

    assert names(choice, counted=True) == ["package-0-die-0"]
    assert reasons(choice) == {"package-0-die-1": "on this processor each die shows the counter of package 0"}


def test_both_dies_of_an_intel_socket_count(tmp_path):
    choice = choose(fake_trees.dies(tmp_path, fake_trees.INTEL))

    assert names(choice, counted=True) == ["package-0-die-0", "package-0-die-1"]


def test_amds_core_zone_is_one_core_and_is_not_counted(tmp_path):
    choice = choose(fake_trees.amd(tmp_path))

    assert names(choice, counted=True) == ["package-0"]
    assert "one core only" in reasons(choice)["core-0"]


def test_the_mirror_is_read_where_it_is_alone(tmp_path):
    choice = choose(fake_trees.mmio_alone(tmp_path))

    assert names(choice, counted=True) == ["package-0"]


def test_a_zone_that_cannot_be_read_is_left_out_with_the_reason(tmp_path):
    """Half of the sockets without a word would be half of the joules."""
    tree = fake_trees.server(tmp_path)
    tree.lose("intel-rapl:2")

    choice = choose(tree)

    assert names(choice, counted=True) == ["package-0", "dram-0", "dram-1"]
    assert reasons(choice)["package-1"].startswith("cannot read ")
    assert reasons(choice)["package-1"].endswith("intel-rapl:2/energy_uj: is a directory")


def test_a_zone_of_an_unknown_name_is_left_out_with_the_name(tmp_path):
    tree = fake_trees.laptop(tmp_path)
    tree.zone("intel-rapl:2", "quantum-0")

    choice = choose(tree)

    assert reasons(choice)["intel-rapl:2"] == "its name 'quantum-0' is not one that tprof knows"


def test_of_two_zones_with_one_name_the_first_is_read(tmp_path):
    tree = fake_trees.laptop(tmp_path)
    tree.zone("intel-rapl:2", "psys")

    choice = choose(tree)

    assert [domain.name for domain in choice.domains].count("psys") == 1
    assert reasons(choice)["intel-rapl:2"] == "another zone is called psys"


REFUSED = {
    fake_trees.virtual_machine: r"does not exist: a virtual machine, or a kernel without powercap",
    fake_trees.container: r"holds links that lead nowhere: this container hides the host's powercap",
    lambda root: fake_trees.machine(root, fake_trees.INTEL, {0: range(2)}): r"is empty: the processor has no RAPL",
}


@pytest.mark.parametrize("machine", REFUSED, ids=["virtual machine", "container", "no driver"])
def test_powercap_that_was_asked_for_and_is_not_there_is_one_sentence(tmp_path, machine, monkeypatch):
    tree = machine(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))

    with pytest.raises(SensorError, match=REFUSED[machine]) as caught:
        tprof.record(tmp_path / "t.tprof", energy="powercap").__enter__()

    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("powercap gives no energy: ")
    assert 'run `tprof doctor`, or record with energy="estimate"' in str(caught.value)
    assert not (tmp_path / "t.tprof").exists()


def test_psys_of_another_package_is_read_beside_the_total(tmp_path):
    tree = fake_trees.server(tmp_path)
    tree.zone("intel-rapl:3", "psys-1")

    choice = choose(tree)

    assert names(choice, counted=False) == ["psys", "psys-1"]
    assert reasons(choice)["psys-1"] == "it stands around the packages and would count them twice"


def test_only_psys_is_no_package_energy(tmp_path):
    tree = fake_trees.machine(tmp_path, fake_trees.INTEL, {0: range(2)})
    tree.zone("intel-rapl:0", "psys")

    with pytest.raises(SensorError, match="has no package zone"):
        choose(tree)


def test_without_a_sensor_auto_estimates_and_says_why(tmp_path):
    choice = choose(fake_trees.virtual_machine(tmp_path), "auto")

    assert [(domain.name, domain.quality) for domain in choice.domains] == [("package-0", sensors.Quality.ESTIMATED)]
    assert list(reasons(choice)) == ["perf", "powercap", "hwmon_processor"]
    assert choice.notes[0].startswith("energy is an ESTIMATE")


def test_auto_takes_powercap_where_the_kernel_has_no_power_pmu(tmp_path):
    choice = choose(fake_trees.server(tmp_path).count(), "auto")

    assert {domain.source for domain in choice.domains} == {"powercap"}
    assert "does not exist" in reasons(choice)["perf"]


def test_a_sensor_of_another_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"energy must be one of auto, perf, .*, got 'rapl'"):
        sensors.choose("rapl", root=tmp_path)


def test_the_environment_says_where_sys_is(monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", "/host")
    assert str(sensors.sysroot()) == "/host"

    monkeypatch.setenv("TPROF_SYSROOT", "")
    assert str(sensors.sysroot()) == os.sep
