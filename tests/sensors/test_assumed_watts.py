"""Without a sensor, watts are assumed by what the processor is, and never where it says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fake_trees
from support.properties import examples

from tprof import sensors
from tprof.sensors.assumed import assume, read_processor, table
from tprof.sensors.topology import Cpu, read_topology

INTEL, AMD = fake_trees.INTEL, fake_trees.AMD
KINDS = {
    "Intel(R) Xeon(R) CPU E5-2620 v3 @ 2.40GHz": "intel-server",
    "INTEL(R) XEON(R) PLATINUM 8592+": "intel-server",
    "Intel Xeon Processor (Skylake, IBRS)": "intel-server",
    "Intel(R) Xeon(R) 6710E": "intel-server",
    "Intel Atom(R) P5362 processor": "intel-server",
    "AMD EPYC 9555 64-Core Processor": "amd-server",
    "AMD EPYC": "amd-server",
    "AMD EPYC 4584PX 16-Core Processor": "desktop",
    "AMD Ryzen Threadripper 1950X 16-Core Processor": "desktop",
    "AMD Ryzen 5 5600X 6-Core Processor": "desktop",
    "AMD Ryzen 7 5700G with Radeon Graphics": "desktop",
    "AMD Ryzen 9 7945HX with Radeon Graphics": "laptop",
    "AMD Ryzen AI 9 HX 370 w/ Radeon 890M": "laptop",
    "AMD Ryzen 7 PRO 6850U with Radeon Graphics": "thin-laptop",
    "AMD Ryzen AI 7 350 w/ Radeon 860M": "thin-laptop",
    "Intel(R) Xeon(R) CPU E3-1240 V2 @ 3.40GHz": "desktop",
    "Intel(R) Xeon(R) E-2278G CPU @ 3.40GHz": "desktop",
    "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz": "desktop",
    "Intel(R) Core(TM) Ultra 9 285K": "desktop",
    "Intel(R) Core(TM) i7-6700HQ CPU @ 2.60GHz": "laptop",
    "Intel(R) Core(TM) i5-3230M CPU @ 2.60GHz": "laptop",
    "13th Gen Intel(R) Core(TM) i9-13900HX": "laptop",
    "Intel(R) Core(TM) i5-4200U CPU @ 1.60GHz": "thin-laptop",
    "12th Gen Intel(R) Core(TM) i7-1260P": "thin-laptop",
    "11th Gen Intel(R) Core(TM) i7-1185G7 @ 3.00GHz": "thin-laptop",
    "Intel(R) Core(TM) Ultra 5 226V": "thin-laptop",
    "Intel(R) Core(TM) m3-7Y30 CPU @ 1.00GHz": "thin-laptop",
    "Intel(R) N100": "thin-laptop",
}
ARM = {
    ("0x41", "0xd0c"): "arm-server",  # Neoverse N1: Graviton 2, Altra
    ("0x41", "0xd4f"): "arm-server",  # Neoverse V2: Grace, Graviton 4
    ("0xc0", "0xac3"): "arm-server",  # Ampere One
    ("0x61", "0x023"): "thin-laptop",  # Apple M1
    ("0x41", "0xd08"): "board",  # Cortex-A72: Raspberry Pi 4
}


def machine(root, name, maker=INTEL, *, packages=1, cores=8, threads=2, flags="fpu vme"):
    """Return a machine of so many packages, cores in each and threads of each core."""
    tree = fake_trees.Tree(root)
    tree.write("proc/cpuinfo", f"processor\t: 0\nvendor_id\t: {maker}\nmodel name\t: {name}\nflags\t\t: {flags}\n")
    for cpu in range(packages * cores * threads):
        tree.cpu(cpu, cpu // (cores * threads), cpu // threads % cores)
    tree.write("sys/devices/system/cpu/online", f"0-{packages * cores * threads - 1}")
    return tree


def kind_of(tree):
    return read_processor(tree.root, read_topology(tree.root)).kind


def assumed(tree):
    return assume(tree.root, read_topology(tree.root))


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_name_tells_what_a_processor_is(tmp_path, name, kind):
    assert kind_of(machine(tmp_path, name, AMD if name.startswith("AMD") else INTEL)) == kind


@pytest.mark.parametrize(("core", "kind"), ARM.items())
def test_arm_cores_are_told_by_maker_and_part(tmp_path, core, kind):
    tree = fake_trees.Tree(tmp_path)
    tree.write("proc/cpuinfo", f"processor\t: 0\nCPU implementer\t: {core[0]}\nCPU part\t: {core[1]}\n")
    tree.cpus({0: range(4)})

    assert kind_of(tree) == kind


def test_a_name_that_says_nothing_leaves_it_to_battery_sockets_and_cores(tmp_path):
    name = "Genuine Intel(R) CPU 0000 @ 1.00GHz"
    trees = {kind: machine(tmp_path / kind, name) for kind in ("desktop", "chassis", "battery", "mouse")}
    trees["chassis"].write("sys/class/dmi/id/chassis_type", "10")
    trees["battery"].write("sys/class/power_supply/BAT0/type", "Battery")
    trees["mouse"].write("sys/class/power_supply/hid-battery/type", "Battery")
    trees["mouse"].write("sys/class/power_supply/hid-battery/scope", "Device")

    assert {name: kind_of(tree) for name, tree in trees.items()} == {
        "desktop": "desktop",
        "chassis": "thin-laptop",
        "battery": "thin-laptop",
        "mouse": "desktop",
    }
    assert kind_of(machine(tmp_path / "sockets", name, packages=2)) == "intel-server"
    assert kind_of(machine(tmp_path / "cores", name, AMD, cores=64)) == "amd-server"


def test_the_family_and_model_of_a_processor_without_a_telling_name_are_looked_up(tmp_path):
    """Engineering samples of servers have few cores and one socket now and then."""
    tree = machine(tmp_path, "Genuine Intel(R) 0000%@")
    cpuinfo = tmp_path / "proc/cpuinfo"
    cpuinfo.write_text(f"{cpuinfo.read_text()}cpu family\t: 6\nmodel\t\t: 143\nstepping\t: 4\n")

    assert kind_of(tree) == "intel-server"


def test_a_desktops_processor_in_a_laptop_is_a_laptops(tmp_path):
    tree = machine(tmp_path, "Intel(R) Xeon(R) CPU E3-1505M v5 @ 2.80GHz")
    tree.write("sys/class/dmi/id/chassis_type", "10")

    assert kind_of(tree) == "laptop"


def test_a_model_that_a_hypervisor_makes_up_is_a_part_of_a_server(tmp_path):
    for name, maker, kind in (
        ("QEMU Virtual CPU version 2.5+", AMD, "amd-server"),
        ("Intel Core Processor (Haswell, no TSX)", INTEL, "intel-server"),
        ("Common KVM processor", INTEL, "intel-server"),
    ):
        tree = machine(tmp_path / name, name, maker, flags="fpu hypervisor")
        assert (kind_of(tree), read_processor(tree.root, ()).guest) == (kind, True)


def test_an_arm_guest_is_told_by_its_maker_and_whole_machines_of_clouds_are_none(tmp_path):
    tree = fake_trees.Tree(tmp_path)
    tree.write("proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n")
    tree.write("sys/class/dmi/id/sys_vendor", "Amazon EC2")
    guests = {}
    for product in ("c6g.large", "c6g.metal"):
        tree.write("sys/class/dmi/id/product_name", product)
        guests[product] = read_processor(tree.root, ()).guest

    assert guests == {"c6g.large": True, "c6g.metal": False}


@pytest.mark.parametrize("maker", ["Zhaoxin", ""])
def test_what_nobody_knows_is_called_unknown_and_its_watts_may_be_far_off(tmp_path, maker):
    said = assumed(machine(tmp_path, "a processor", maker))

    assert said.processor == "a processor of unknown kind"
    assert said.idle_factor > 2 * table()["desktop"].idle_factor


def test_all_busy_processors_of_a_package_draw_what_the_table_says(tmp_path):
    row, tree = table()["intel-server"], machine(tmp_path, "Intel(R) Xeon(R) Gold 6130 CPU", packages=2, cores=16)

    said = assumed(tree)

    assert said.idle_w == pytest.approx(2 * row.idle_w * 16**row.idle_exponent, rel=0.01)
    assert 32 * said.per_core_w == pytest.approx(row.busy_w * 16**row.busy_exponent, rel=0.01)
    assert (said.idle_factor, said.per_core_factor) == (row.idle_factor, row.busy_factor)


def test_a_guest_draws_its_part_of_a_large_chip_whose_size_is_one_more_doubt(tmp_path):
    row = table()["amd-server"]
    small, large = (
        assumed(machine(tmp_path / str(cores), "AMD EPYC", AMD, cores=cores, threads=1, flags="fpu hypervisor"))
        for cores in (2, 4)
    )

    assert small.processor == "a virtual machine's part of an AMD server processor"
    assert large.idle_w == pytest.approx(2 * small.idle_w, rel=0.01)
    assert large.per_core_w == small.per_core_w
    assert small.idle_w < row.idle_w * row.guest_cores**row.idle_exponent / 10
    assert small.per_core_factor > row.busy_factor


def test_a_recordings_manifest_says_what_its_watts_are_assumed_for(tmp_path):
    said = sensors.choose("estimate", root=machine(tmp_path, "AMD EPYC", AMD).root).estimate.as_json()

    assert set(said) == {"idle_w", "per_core_w", "given", "idle_factor", "per_core_factor", "processor"}
    assert said["given"] is False


@examples(200)
@given(
    st.text(max_size=200),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 300)), min_size=1, max_size=40),
    st.sampled_from(["fpu", "fpu hypervisor"]),
)
def test_any_name_on_any_machine_has_watts_that_may_be_off_by_a_known_factor(tmp_path_factory, name, places, flags):
    tree = fake_trees.Tree(tmp_path_factory.mktemp("any"))
    text = f"vendor_id\t: {AMD}\nmodel name\t: {name}\nflags\t: {flags}\n"
    (tree.root / "proc").mkdir()
    (tree.root / "proc/cpuinfo").write_text(text, "utf-8", errors="replace")

    said = assume(tree.root, tuple(Cpu(cpu, package, core) for cpu, (package, core) in enumerate(places)))

    assert 0 < said.idle_w < 1e5
    assert 0 < said.per_core_w < 1e3
    assert 1 < said.idle_factor < 100
    assert 1 < said.per_core_factor < 100
