"""A policy reads the package's energy as a recording does: across wraps, false readings and zones that come back."""

import pytest
from support import fake_trees
from support.fake_sensor import wait_for
from tprof.runtime.policy.power_estimator import Meter

JOULE = 1_000_000


@pytest.fixture
def tree(tmp_path):
    return fake_trees.laptop(tmp_path)


def show(tree, energy_uj, zone="intel-rapl:0"):
    tree.energy_of(zone).write_text(f"{energy_uj}\n")


def test_joules_go_on_across_a_wrap(tree):
    show(tree, fake_trees.RANGE_UJ - 1)
    meter = Meter(tree.root)

    show(tree, 1_999)

    assert meter.read_j() == pytest.approx(2_001e-6)


def test_a_false_zero_is_no_energy(tree):
    show(tree, JOULE)
    meter = Meter(tree.root)

    for energy_uj in (0, JOULE + 1_000, JOULE + 2_000):
        show(tree, energy_uj)
        drawn_j = meter.read_j()

    assert drawn_j == pytest.approx(1e-3)


def test_a_zone_that_comes_back_under_another_number_is_found(tree):
    show(tree, JOULE)
    meter = Meter(tree.root)
    tree.unlink("intel-rapl:0")
    tree.renumber("intel-rapl:0", "intel-rapl:7")
    tree.energy_of("intel-rapl:7").unlink()  # the kernel makes the zone's files anew
    energy_uj = 9 * JOULE

    def has_grown():
        nonlocal energy_uj
        energy_uj += 1_000
        show(tree, energy_uj, "intel-rapl:7")
        return meter.read_j() > 0

    wait_for(has_grown, "energy of the zone's new file")
    assert meter.read_j() <= (energy_uj - 9 * JOULE) * 1e-6
