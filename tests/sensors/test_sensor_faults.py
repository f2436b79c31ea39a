"""A sensor that fails, stops, jumps or goes away: what the readings say, and that the program never notices."""

import errno
import threading
from typing import Self

import numpy as np
import pytest
from support import fake_trees
from support.fake_sensor import FakeSensor, is_missing, is_reopened, raw_readings, wait_for

import tprof

MODULUS = fake_trees.RANGE_UJ + 1
WATTS = 100.0
LONGEST_STEP_S = 0.005
"""Of the fake sensor: 100 W for so long are no jump, however late it is."""


@tprof.task
def add_up(n):
    return sum(range(n))


class Load:
    """A thread that runs a task each millisecond or so; what they return must be as without a recording."""

    def __enter__(self) -> Self:
        self._stop, self.results = threading.Event(), set()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        while not self._stop.wait(0.001):
            self.results.add(add_up(5000))

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self.results == {12_497_500}


class Session:
    """A recording of one package, or two, under load, while a test does something to the sensor."""

    def __init__(self, place, tree, sensor) -> None:
        self.path, self.tree, self.sensor = place / "t.tprof", tree, sensor
        self.energy = tree.energy_of("intel-rapl:0")

    def __enter__(self) -> Self:
        self._load = Load().__enter__()
        self.recording = tprof.record(self.path, energy="powercap", counters="none")
        self.recording.__enter__()
        self.until(lambda readings: len(readings) > 20, "twenty readings")
        return self

    def __exit__(self, *error: object) -> None:
        self.recording.__exit__(*error)
        self._load.__exit__(*error)

    def until(self, condition, said, domain="package-0"):
        return wait_for(lambda: condition(raw_readings(self.path, domain)), said)

    def until_missing(self, domain="package-0"):
        self.until(lambda readings: is_missing(readings)[-1], "a failed reading", domain)

    def more_good(self, said, domain="package-0"):
        before = len(raw_readings(self.path, domain))
        self.until(lambda readings: (~is_missing(readings[before:])).sum() > 20, f"readings before {said}", domain)

    def profile(self):
        return self.recording.profile()

    def read_j(self, domain="package-0"):
        """Return what is credited of all that was read: before the block, in it and after it."""
        return next(one.energy_j.sum() for one in self.profile().recipe.whole if one.name == domain)

    def drawn_j(self):
        """Return the most that the fake sensor may have drawn between the first reading and the last."""
        truth, t_ns = self.sensor.stop().truth(self.energy), raw_readings(self.path)["t_ns"]
        return truth.drawn_j(int(t_ns[0]), int(t_ns[-1]))[1]

    def shown_j(self):
        """Return the last reading that the samples of the load carry."""
        return max(int(thread.read()["energy_uj"].max()) for thread in tprof.load(self.path).threads) / 1e6

    def warned(self, words):
        return any(words in warning for warning in self.profile().info["warnings"])


def fake(**given):
    return FakeSensor(watts=WATTS, modulus=MODULUS, longest_step_s=LONGEST_STEP_S, **given)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = fake_trees.machine(tmp_path / "root", fake_trees.INTEL, {0: range(2)})
    tree.zone("intel-rapl:0", "package-0")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    return tree


@pytest.fixture
def sensor(tree):
    with fake(start_uj=100_000_000).drives(tree.energy_of("intel-rapl:0")) as sensor:
        yield sensor


@pytest.fixture
def session(tmp_path, tree, sensor):
    return Session(tmp_path, tree, sensor)


NO_NUMBERS = ["", "\n", "garbage\n", "-5\n", "12x\n", " 5\n", "18446744073709551616\n", "1e3\n", "0x10\n"]


def test_what_is_no_number_is_missing_and_later_readings_are_right(session):
    with session:
        for text in NO_NUMBERS:
            session.sensor.order(session.energy, text=text)
            session.until_missing()
            session.sensor.order(session.energy, text=None)
            session.more_good(f"the text {text!r}")

    readings = raw_readings(session.path)
    missing = is_missing(readings)
    good = readings[~missing]
    assert (np.diff(missing.astype("i1")) == 1).sum() == len(NO_NUMBERS)
    assert set(readings["error"][missing]) == {errno.EBADMSG}
    assert set(readings["value"][missing]) == {0}
    assert (np.diff(good["value"].astype("i8")) >= 0).all()
    assert not is_reopened(readings).any()
    assert session.read_j() == pytest.approx((int(good["value"][-1]) - int(good["value"][0])) / 1e6, rel=1e-9)
    assert session.warned("failed and were bridged")


def knows_the_gap(readings):
    """Tell whether the recorder has learnt how far updates are apart: from two that were each seen within a look."""
    sharp = (np.diff(readings["value"].astype("i8")) != 0) & (readings["window_ns"][1:] <= 1_500_000)
    gap_ns = np.diff(readings["t_ns"].astype("i8"))
    return (sharp[1:] & sharp[:-1] & (gap_ns[1:] > 200_000) & (gap_ns[1:] < 20_000_000)).any()


def test_a_failed_read_tells_since_when(session):
    """The value after a gap is that of the last update before it was read, not of any update in the gap."""
    with session:
        session.until(knows_the_gap, "updates that were timed well, one after the other")
        session.sensor.order(session.energy, text="garbage\n")
        session.until(lambda readings: is_missing(readings).sum() >= 3, "failures over more than 0.2 s")
        session.sensor.order(session.energy, text=None)

    readings = raw_readings(session.path)
    missing = np.flatnonzero(is_missing(readings))
    after, before = readings[missing[-1] + 1], readings[missing[0] - 1]
    assert 0 < after["window_ns"] <= after["t_ns"] - before["t_ns"]
    assert after["window_ns"] < readings["t_ns"][missing[-1]] - readings["t_ns"][missing[0]]


def test_a_file_that_became_a_folder_is_missing_with_the_kernels_errno(session):
    held = session.tree.energy_of("intel-rapl:0")
    with session:
        session.sensor.order(held, watts=0.0)
        held.rename(held.with_name("aside"))
        held.mkdir()
        session.until_missing()
        held.rmdir()
        held.with_name("aside").rename(held)
        session.sensor.order(held, watts=WATTS)
        session.more_good("the file's return")

    readings = raw_readings(session.path)
    assert set(readings["error"][is_missing(readings)]) <= {errno.EISDIR, errno.ENOENT}
    assert is_reopened(readings[~is_missing(readings)]).any()
    assert session.warned("was reopened")
    assert not session.warned("were bridged")


def test_a_sensor_that_is_gone_until_the_end_is_one_sentence(session):
    with session:
        session.sensor.order(session.energy, text="garbage\n")
        session.until_missing()

    assert session.warned("package-0 could not be read in the last")
    assert not session.warned("were bridged")


FAR_UJ = 100_000_000_000


def two_packages(root):
    tree = fake_trees.machine(root, fake_trees.INTEL, {0: range(1), 1: range(1, 2)})
    tree.zone("intel-rapl:0", "package-0")
    tree.zone("intel-rapl:1", "package-1")
    tree.zone("intel-rapl-mmio:0", "package-1")
    return tree


@pytest.fixture
def two(tmp_path, monkeypatch):
    tree = two_packages(tmp_path / "two")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    sensor = fake()
    sensor.drives(tree.energy_of("intel-rapl:0")).drives(tree.energy_of("intel-rapl:1"), start_uj=FAR_UJ)
    with sensor:
        yield Session(tmp_path, tree, sensor)


def test_a_zone_that_comes_back_under_another_number_is_found_by_its_name(two):
    """Its package was offline: the counter may have been reset, so the gap is no energy and no wrap."""
    lost = two.tree.energy_of("intel-rapl:1")
    with two:
        two.sensor.order(lost, watts=0.0)
        two.tree.unlink("intel-rapl:1")
        two.until_missing("package-1")
        two.sensor.order(lost, watts=WATTS, step_uj=-900_000)
        two.tree.renumber("intel-rapl:1", "intel-rapl:7")
        two.more_good("the zone's return", "package-1")

    readings = raw_readings(two.path, "package-1")
    missing = is_missing(readings)
    first_back = np.flatnonzero(missing)[-1] + 1
    steps_uj = np.diff(readings["value"][~missing].astype("i8"))
    assert set(readings["error"][missing]) == {errno.ENOENT}
    assert np.flatnonzero(is_reopened(readings) & ~missing).tolist() == [first_back]
    gap = np.flatnonzero(~missing).tolist().index(first_back) - 1
    assert two.read_j("package-1") == pytest.approx((steps_uj.sum() - steps_uj[gap]) / 1e6, rel=1e-9)
    assert two.warned("package-1 was reopened")
    assert not is_missing(raw_readings(two.path, "package-0")).any()


def test_a_part_is_found_below_its_packages_new_number(tmp_path, monkeypatch):
    """Each package has a zone called dram."""
    tree = fake_trees.server(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    lost = ["intel-rapl:2", "intel-rapl:2:0"]
    sensor = fake().drives(tree.energy_of("intel-rapl:0"))
    sensor.drives(tree.energy_of("intel-rapl:0:0")).drives(tree.energy_of("intel-rapl:2"), start_uj=FAR_UJ)
    part = tree.energy_of("intel-rapl:2:0")
    sensor.drives(part, start_uj=FAR_UJ, modulus=fake_trees.DRAM_RANGE_UJ * 4)
    with sensor, Session(tmp_path, tree, sensor) as session:
        sensor.order(part, watts=0.0)
        for zone in lost:
            tree.unlink(zone)
        session.until_missing("dram-1")
        tree.renumber("intel-rapl:2", "intel-rapl:9")
        sensor.order(part, watts=WATTS)
        session.more_good("the part's return", "dram-1")

    readings = raw_readings(session.path, "dram-1")
    assert set(readings["value"][~is_missing(readings)] >= FAR_UJ) == {True}
    assert is_reopened(readings).sum() == 1


def test_zones_that_come_back_with_numbers_exchanged_are_told_apart(two):
    """What stands under the old number now is another package's counter."""
    zones = ("intel-rapl:0", "intel-rapl:1")
    energies = [two.tree.energy_of(zone) for zone in zones]
    with two:
        for zone, energy in zip(zones, energies, strict=True):
            two.sensor.order(energy, watts=0.0)
            two.tree.unlink(zone)
        for domain in ("package-0", "package-1"):
            two.until_missing(domain)
        two.tree.swap(*zones)
        for energy in energies:
            two.sensor.order(energy, watts=WATTS)
        for domain in ("package-0", "package-1"):
            two.more_good("the zones' return", domain)

    for domain, is_far in (("package-0", False), ("package-1", True)):
        readings = raw_readings(two.path, domain)
        assert set(readings["value"][~is_missing(readings)] >= FAR_UJ) == {is_far}


def test_a_vanished_zone_is_not_replaced_by_its_twin(two):
    """The twin counts from elsewhere; and after a while of it nobody would look for the zone itself."""
    with two:
        two.sensor.order(two.tree.energy_of("intel-rapl:1"), watts=0.0)
        two.tree.unlink("intel-rapl:1")
        two.until(lambda readings: is_missing(readings).sum() >= 5, "failures over half a second", "package-1")

    readings = raw_readings(two.path, "package-1")
    assert set(readings["value"][np.flatnonzero(is_missing(readings))[0] :]) == {0}


def stands_still(readings):
    moved = np.flatnonzero(np.diff(readings["value"].astype("i8"))) + 1
    gap_ns = np.median(np.diff(readings["t_ns"][moved].astype("i8")))
    return int(readings["t_ns"][-1]) - int(readings["t_ns"][moved[-1]]) > max(30 * gap_ns, 500_000_000)


def test_a_sensor_that_stands_still_is_called_stuck(session):
    with session:
        session.sensor.order(session.energy, watts=0.0)
        session.until(stands_still, "signs of life of one value for far longer than the usual gap")
        session.sensor.order(session.energy, watts=WATTS)

    assert not is_missing(raw_readings(session.path)).any()
    assert session.warned("stuck")


def test_a_counter_that_is_always_zero_is_said_to_report_nothing(session):
    session.sensor.order(session.energy, text="0\n")
    with Load(), tprof.record(session.path, energy="powercap", counters="none") as session.recording:
        session.until(lambda readings: len(readings) > 3, "three signs of life")

    assert set(raw_readings(session.path)["value"]) == {0}
    assert session.warned("package-0 never moved")


def test_a_jump_above_any_power_gives_no_energy(session):
    with session:
        session.more_good("the jump")
        session.sensor.order(session.energy, step_uj=9 * 10**9)
        session.more_good("the end")

    steps_uj = np.diff(raw_readings(session.path)["value"].astype("i8"))
    assert (steps_uj > 8 * 10**9).sum() == 1
    assert session.read_j() == pytest.approx(steps_uj[steps_uj < 8 * 10**9].sum() / 1e6, rel=1e-9)
    assert session.warned("seen above 1000 W in 1 interval")
    assert session.shown_j() <= session.drawn_j()


def changes_uj(session):
    """Return by what the count moved at each of its changes."""
    value = raw_readings(session.path)["value"].astype("i8")
    return np.diff(value)[np.diff(value) != 0]


def test_a_false_zero_credits_nothing_of_what_comes_back(session):
    """The count comes back at a plausible power: all of it over the time in which it read 0."""
    with session:
        session.more_good("the zero")
        session.sensor.order(session.energy, text="0\n")
        session.until(lambda readings: (readings["value"] == 0).sum() >= 4, "0.3 s of it")
        session.sensor.order(session.energy, text=None)
        session.more_good("the end")

    steps_uj = changes_uj(session)
    (fall,) = np.flatnonzero(steps_uj < 0)
    believed_uj = steps_uj.sum() - steps_uj[fall] - steps_uj[fall + 1]
    assert session.read_j() == pytest.approx(believed_uj / 1e6, rel=1e-9)
    assert session.warned(f"and {steps_uj[fall + 1] / 1e6:.3g} J that it showed are in doubt")
    assert session.shown_j() <= session.drawn_j()


def test_a_small_step_back_is_no_wrap(session):
    with session:
        session.more_good("the step")
        session.sensor.order(session.energy, step_uj=-90_000_000)
        session.more_good("the end")

    steps_uj = changes_uj(session)
    (fall,) = np.flatnonzero(steps_uj < 0)
    believed_uj = steps_uj.sum() - steps_uj[fall] - steps_uj[fall + 1]
    assert session.read_j() == pytest.approx(believed_uj / 1e6, rel=1e-9)
    assert session.warned("seen to go backwards in 1 interval")
    assert session.warned(f"and {steps_uj[fall + 1] / 1e6:.3g} J that it showed are in doubt")
    assert session.shown_j() <= session.drawn_j()


def test_a_count_without_a_range_that_falls_is_a_fault(session):
    """So it is with the kernel's power PMU, whose count falls when nobody read it at high power."""
    session.energy.with_name("max_energy_range_uj").unlink()
    with session:
        session.sensor.order(session.energy, step_uj=-90_000_000)
        session.more_good("the fall")

    readings = tprof.load(session.path).readings["package-0"]
    assert readings.modulus is None
    assert session.warned("seen to go backwards in 1 interval")
    assert 0 < session.read_j() <= session.drawn_j()
