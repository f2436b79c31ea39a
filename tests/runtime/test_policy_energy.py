"""A policy takes its energy from the recorder's sensor thread, with a recording and without."""

import os
import sys
from pathlib import Path

import pytest
from support import fake_trees
from support.fake_sensor import wait_for
from tprof.runtime.policy.power_estimator import Meter

import tprof

JOULE = 1_000_000


@pytest.fixture
def tree(tmp_path):
    return fake_trees.laptop(tmp_path)


@pytest.fixture
def meter(tree, monkeypatch):
    show(tree, fake_trees.RANGE_UJ - 1)
    # The counter moves only as a test says.
    monkeypatch.setattr(sys.modules["tprof.sensors.choose"], "without_still", lambda found: found)
    meter = Meter(tree.root)
    yield meter
    meter.close()


def show(tree, energy_uj, zone="intel-rapl:0"):
    tree.energy_of(zone).write_text(f"{energy_uj}\n")


def seen(tree, meter, energy_uj):
    """Show a count, and return the joules once the thread has seen it."""
    before_ns, _ = meter.read()
    show(tree, energy_uj)
    wait_for(lambda: meter.read()[0] > before_ns, "a change that the sensor thread sees")
    return meter.read()[1]


def test_joules_go_on_across_a_wrap(tree, meter):
    assert seen(tree, meter, 1_999) == pytest.approx(2_001e-6)


def test_a_false_zero_is_no_energy(tree, meter):
    for energy_uj in (JOULE, 0, JOULE + 1_000):
        drawn_j = seen(tree, meter, energy_uj)

    assert seen(tree, meter, JOULE + 2_000) - drawn_j == pytest.approx(1e-3)


def test_a_zone_that_comes_back_under_another_number_is_found(tree, meter):
    tree.unlink("intel-rapl:0")
    tree.renumber("intel-rapl:0", "intel-rapl:7")
    tree.energy_of("intel-rapl:7").unlink()  # the kernel makes the zone's files anew
    energy_uj = 9 * JOULE

    def has_grown():
        nonlocal energy_uj
        energy_uj += 1_000
        show(tree, energy_uj, "intel-rapl:7")
        return meter.read()[1] > 0

    wait_for(has_grown, "energy of the zone's new file")
    assert meter.read()[1] <= (energy_uj - 9 * JOULE) * 1e-6


def test_a_recording_that_begins_and_ends_takes_no_joules_from_the_policy(tree, meter, tmp_path):
    before_j = seen(tree, meter, 1_000)
    with tprof.record(tmp_path / "run.tprof", energy="none", counters="none"):
        assert seen(tree, meter, 3_000) - before_j == pytest.approx(2e-3)

    assert seen(tree, meter, 4_000) - before_j == pytest.approx(3e-3)


def test_the_sensor_thread_runs_as_long_as_somebody_needs_it(tree, meter):
    def names():
        return [name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm")]

    other = Meter(tree.root)
    other.close()
    wait_for(lambda: names().count("tprof-sensors") == 1, "the one sensor thread")

    last = meter.read()
    meter.close()
    assert "tprof-sensors" not in names()
    assert meter.read() == last


def test_a_forked_child_leaves_the_sensor_to_its_parent(tree, meter):
    child = os.fork()
    if child == 0:
        before = meter.read()
        show(tree, 5_000)
        meter.close()
        os._exit(meter.read() != before)

    assert os.waitpid(child, 0)[1] == 0
    assert seen(tree, meter, 8_000) > 0
