"""A machine is described from what its /proc and /sys say, and from nothing else."""

import pytest
from tprof.benchmarks.machine_description import describe_machine, find_hypervisor, machine_sentence


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"sys/class/dmi/id/sys_vendor": "QEMU"}, "KVM or QEMU"),
        ({"sys/class/dmi/id/product_name": "VMware20,1"}, "VMware"),
        ({"sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc kvm-clock"}, "KVM"),
        ({"proc/cpuinfo": "flags\t\t: fpu vme hypervisor lahf_lm"}, "unnamed"),
        ({"proc/cpuinfo": "flags\t\t: fpu vme lahf_lm", "sys/class/dmi/id/sys_vendor": "Dell Inc."}, None),
        ({}, None),
    ],
)
def test_a_hypervisor_is_found_by_what_it_leaves(tmp_path, files, hypervisor):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="ascii")

    assert find_hypervisor(tmp_path) == hypervisor


def test_what_the_machine_does_not_tell_is_none(tmp_path):
    machine = describe_machine(tmp_path)

    assert machine["clock_source"] is None
    assert machine["governor"] is None


def test_the_sentence_names_processor_kernel_and_python():
    machine = describe_machine()

    for name in ("processor", "kernel", "python"):
        assert str(machine[name]) in machine_sentence(machine)
