"""The kernel's power PMU: which events are opened, and that they are read for real.

Where there is no power PMU the msr PMU stands in: its time stamp counter is a count that grows at a known rate,
opened on a processor as energy is.
"""

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest
from support import fake_trees
from support.fake_sensor import is_missing, raw_readings, wait_for
from support.fake_trees import reasons

import tprof
from tprof import _core, sensors
from tprof.errors import SensorError

MSR = Path("/sys/bus/event_source/devices/msr")
SCALE_J = float(fake_trees.SCALE)
TSC = "event=0x00"
PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE = 0x2400, 0x2401


@pytest.fixture
def msr_type():
    """Return the number of the msr PMU, if its time stamp counter may be read here."""
    if not (MSR / "events/tsc").exists():
        pytest.skip("this kernel has no msr PMU to stand in for the power PMU")
    kind = int((MSR / "type").read_text())
    error = _core.perf_open_probe(type=kind, config=0, pid=-1, cpu=0, exclude_kernel=False)[0]
    if error != 0:
        pytest.skip(f"perf_event_open on a processor is refused here: {os.strerror(error)}")
    return kind


def machine(root, packages, vendor=fake_trees.INTEL):
    return fake_trees.machine(root, vendor, packages)


def by_name(choice):
    return {domain.name: domain for domain in choice.domains}


def test_events_that_are_parts_or_stand_around_are_opened_and_not_counted(tmp_path, msr_type):
    tree = machine(tmp_path, {0: range(2)})
    events = ("energy-pkg", "energy-ram", "energy-cores", "energy-gpu", "energy-psys")
    tree.power_pmu(msr_type, dict.fromkeys(events, TSC))

    choice = sensors.choose("perf", root=tmp_path, machine="x86_64")

    counted = {name: domain.counted for name, domain in by_name(choice).items()}
    assert counted == {"package-0": True, "dram-0": True, "core-0": False, "uncore-0": False, "psys": False}
    assert set(reasons(choice)) == {"core-0", "uncore-0", "psys"}
    assert {domain.unit_j for domain in choice.domains} == {SCALE_J}
    assert {domain.modulus for domain in choice.domains} == {None}


def test_an_event_that_cannot_be_opened_is_left_out_with_the_reason(tmp_path, msr_type):
    tree = machine(tmp_path, {0: range(2)})
    tree.power_pmu(msr_type, {"energy-pkg": TSC, "energy-ram": "event=0x7f"})

    choice = sensors.choose("perf", root=tmp_path, machine="x86_64")

    assert list(by_name(choice)) == ["package-0"]
    assert reasons(choice)["dram-0"].startswith("its event cannot be opened: the kernel refuses the event")


@pytest.mark.skipif(os.cpu_count() < 2, reason="two processors are needed")
def test_each_package_is_read_on_a_processor_of_the_cpumask(tmp_path, msr_type):
    tree = machine(tmp_path, {0: range(1), 1: range(1, 2)})
    tree.power_pmu(msr_type, {"energy-pkg": TSC}, cpumask="0-1")

    choice = sensors.choose("perf", root=tmp_path, machine="x86_64")

    assert {name: domain.reader.cpu for name, domain in by_name(choice).items()} == {"package-0": 0, "package-1": 1}


@pytest.mark.skipif(os.cpu_count() < 2, reason="two processors are needed")
def test_psys_that_is_shown_on_each_package_is_read_once(tmp_path, msr_type):
    tree = machine(tmp_path, {0: range(1), 1: range(1, 2)})
    tree.power_pmu(msr_type, {"energy-pkg": TSC, "energy-psys": TSC}, cpumask="0-1")

    choice = sensors.choose("perf", root=tmp_path, machine="x86_64")

    assert [domain.name for domain in choice.domains] == ["package-0", "psys", "package-1"]


def two_dies(root, vendor, msr_type):
    tree = fake_trees.Tree(root)
    tree.processor(vendor)
    tree.cpu(0, 0, die=0)
    tree.cpu(1, 0, die=1)
    tree.power_pmu(msr_type, {"energy-pkg": TSC}, cpumask="0-1")
    return sensors.choose("perf", root=root)


@pytest.mark.skipif(os.cpu_count() < 2, reason="two processors are needed")
def test_dies_that_have_counters_of_their_own_all_count(tmp_path, msr_type):
    choice = two_dies(tmp_path, fake_trees.INTEL, msr_type)

    assert {name: d.counted for name, d in by_name(choice).items()} == {"package-0": True, "package-0-die-1": True}
    assert [domain.package for domain in choice.domains] == [0, 0]


@pytest.mark.skipif(os.cpu_count() < 2, reason="two processors are needed")
def test_on_amd_a_die_is_its_sockets_mirror(tmp_path, msr_type):
    choice = two_dies(tmp_path, fake_trees.AMD, msr_type)

    assert list(by_name(choice)) == ["package-0"]
    assert reasons(choice)["package-0-die-1"] == "on this processor each die shows the counter of package 0"


def test_an_event_that_the_kernel_does_not_have_is_explained_in_one_sentence(tmp_path):
    machine(tmp_path, {0: range(1)}).power_pmu(0x7FFF, {"energy-pkg": "event=0x02"})

    with pytest.raises(SensorError, match=r"^perf gives no energy: the power PMU cannot be opened: ") as caught:
        sensors.choose("perf", root=tmp_path, machine="x86_64")

    assert "\n" not in str(caught.value)


def test_a_power_pmu_that_was_asked_for_and_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(
        SensorError, match=r"^perf gives no energy: .*/power does not exist: a virtual machine"
    ) as caught:
        sensors.choose("perf", root=fake_trees.virtual_machine(tmp_path).root, machine="x86_64")

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", ["garbage", "", "nan", "0", "-1", "1e308", "1e-300", "1e999", "9" * 400])
def test_an_event_without_a_scale_is_no_energy(tmp_path, scale):
    machine(tmp_path, {0: range(1)}).power_pmu(0x7FFF, {"energy-pkg": "event=0x02"}, scale=scale)

    with pytest.raises(SensorError, match="has no event for the package's energy"):
        sensors.choose("perf", root=tmp_path, machine="x86_64")


@pytest.mark.parametrize("kind", ["garbage", "", "-1", "\N{SUPERSCRIPT TWO}", "9" * 12, "9" * 5000])
def test_a_pmu_without_a_number_is_none(tmp_path, kind):
    tree = machine(tmp_path, {0: range(1)})
    tree.power_pmu(0x7FFF, {"energy-pkg": "event=0x02"})
    tree.write("sys/bus/event_source/devices/power/type", kind)

    with pytest.raises(SensorError, match="power does not exist"):
        sensors.choose("perf", root=tmp_path, machine="x86_64")


def test_counts_are_read_at_the_rate_at_which_they_grow(tmp_path, msr_type, monkeypatch):
    tree = machine(tmp_path / "root", {0: range(1)})
    tree.power_pmu(msr_type, {"energy-pkg": TSC})
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))

    with tprof.record(tmp_path / "t.tprof", energy="perf", counters="none") as recording:
        wait_for(lambda: len(raw_readings(recording.path)) > 200, "200 readings")

    readings = tprof.load(recording.path).readings["package-0"]
    # A probe lasts so short that a pause between its two clocks shows: of several one is taken.
    probes = [_core.perf_open_probe(type=msr_type, config=0, pid=-1, cpu=0, exclude_kernel=False) for _ in range(15)]
    rate = np.median([ticks / enabled_ns for _, ticks, enabled_ns, _ in probes])
    counted = np.diff(readings.value.astype("i8"))
    assert (readings.source, readings.unit, readings.modulus) == ("perf", SCALE_J, None)
    assert not readings.missing.any()
    assert (counted > 0).all()
    # A reader may lose the processor between a count and its clock: of many intervals hardly any.
    assert np.median(counted / np.diff(readings.t_ns)) == pytest.approx(rate, rel=0.05)
    (quanta,) = recording.profile().recipe.whole
    assert quanta.energy_j.sum() == pytest.approx(counted.sum() * SCALE_J, rel=1e-9)


def test_an_event_that_does_not_count_for_some_time_is_missing_and_not_a_value_that_stands(
    tmp_path, msr_type, monkeypatch
):
    """So is one whose processor is offline: the kernel then returns the last count without an error."""
    tree = machine(tmp_path / "root", {0: range(1)})
    tree.power_pmu(msr_type, {"energy-pkg": TSC})
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))

    with tprof.record(tmp_path / "t.tprof", energy="perf", counters="none") as recording:
        (event,) = perf_events()
        fcntl.ioctl(event, PERF_EVENT_IOC_DISABLE, 0)
        wait_for(lambda: is_missing(raw_readings(recording.path)).sum() > 1, "readings that are missing")
        fcntl.ioctl(event, PERF_EVENT_IOC_ENABLE, 0)
        wait_for(lambda: not is_missing(raw_readings(recording.path)[-1:]).any(), "a reading again")

    warnings = recording.profile().info["warnings"]
    assert any("package-0 was reopened" in warning for warning in warnings)


def test_an_event_that_never_counts_again_is_replaced(tmp_path, msr_type, monkeypatch):
    """The kernel takes an event from a processor that goes offline, and leaves it out when that comes back."""
    tree = machine(tmp_path / "root", {0: range(1)})
    tree.power_pmu(msr_type, {"energy-pkg": TSC})
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))

    with tprof.record(tmp_path / "t.tprof", energy="perf", counters="none") as recording:
        (event,) = perf_events()
        fcntl.ioctl(event, PERF_EVENT_IOC_DISABLE, 0)
        wait_for(lambda: is_missing(raw_readings(recording.path)).any(), "a reading that is missing")
        wait_for(lambda: not is_missing(raw_readings(recording.path)[-1:]).any(), "a reading of another event")
        assert perf_events() == [event]

    warnings = recording.profile().info["warnings"]
    assert any("package-0 was reopened" in warning for warning in warnings)


def perf_events():
    """Return the descriptors of perf's events in this process."""
    names = {int(link.name): link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    return [number for number, name in names.items() if str(name) == "anon_inode:[perf_event]"]
