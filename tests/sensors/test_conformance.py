"""What any sensor does: it conserves joules, corrects wraps, and says what it cannot read, disturbing nobody."""

import os
import re
from typing import Self

import numpy as np
import pytest
from support.fake_sensor import is_missing, is_reopened, raw_readings, wait_for
from support.sensor_benches import BENCHES, WITHOUT
from support.sensor_conformance import CountBench

import tprof
from tprof import sensors
from tprof.sensors.registry import BUILT_IN, create
from tprof.trace.bounds import LARGEST_UNIT, SMALLEST_UNIT

STEPS = 6


LIKE_OTHERS = {"hwmon", "hwmon_processor", "amd_smi", "nvml_power", "ipmi", "redfish"}
"""Sensors whose reader is that of another one, or does as another one does, and those that take seconds."""


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.thorough] if name in LIKE_OTHERS else []) for name in sorted(BENCHES)]
)
def bench(request, tmp_path, monkeypatch):
    bench = BENCHES[request.param](tmp_path, monkeypatch)
    bench.begin()
    yield bench
    bench.close()


@tprof.task
def add_up(n):
    return sum(range(n))


class Session:
    """A recording of a bench's sensor, during which the test waits for readings."""

    def __init__(self, bench, place) -> None:
        self.bench, self.path = bench, place / "t.tprof"
        self.recording = tprof.record(self.path, energy=bench.energy, counters="none", idle_s=0)

    def __enter__(self) -> Self:
        self.recording.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.recording.__exit__(*error)

    def unexpected_notes(self):
        """Return what the recording notes, but for domains beside the bench's own that cannot be read."""
        return [note for note in self.recording.notes if not note.startswith("the total lacks the joules of ")]

    def readings(self):
        return raw_readings(self.path, self.bench.domain)

    def good(self):
        readings = self.readings()
        return readings[~is_missing(readings)]

    def steps(self, count=STEPS):
        """Draw joules step by step, while a task runs; each step is seen before the next."""
        for _ in range(count):
            before = len(self.good())
            self.bench.step()
            add_up(1000)
            wait_for(lambda before=before: len(self.good()) > before, "a reading after a step")

    def quanta(self):
        return next(one for one in self.recording.profile().recipe.whole if one.name == self.bench.domain)

    def truth_j(self):
        return self.bench.truth_j(self.readings()["t_ns"].tolist())


def assert_conserved(session):
    """Compare what a profile takes from the readings with what the bench drew."""
    least_j, most_j = session.truth_j()
    readings = session.readings()
    slack_j = len(readings) * session.bench.unit_j
    if is_reopened(readings).any():
        least_j = 0.0  # a machine without a moment for the reader: power over that time is unknown
    assert least_j - slack_j <= session.quanta().energy_j.sum() <= most_j + slack_j
    account = session.recording.profile().accounts.loc[session.bench.domain].drop("quality").astype(float)
    assert account.drop("measured_j").sum() == pytest.approx(account["measured_j"], rel=1e-9)


def test_every_sensor_of_tprof_has_a_bench():
    assert set(BUILT_IN) <= set(BENCHES) | set(WITHOUT)


def test_what_it_finds_is_described(bench):
    sensor = create(bench.energy)
    found = sensor.find(sensors.Machine(sensors.sysroot()))

    assert isinstance(found, sensors.Found)
    assert bench.domain in [domain.name for domain in found.domains]
    assert len({domain.name for domain in found.domains}) == len(found.domains)
    for domain in found.domains:
        assert domain.source == sensor.name
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", domain.name)
        assert SMALLEST_UNIT <= domain.unit_j <= LARGEST_UNIT
        assert domain.accuracy.update_s is None or domain.accuracy.update_s > 0
    assert sensor.covers


def test_joules_are_conserved(bench, tmp_path):
    with Session(bench, tmp_path) as session:
        session.steps()

    assert session.quanta().energy_j.sum() > 0
    assert session.unexpected_notes() == []
    assert_conserved(session)


def test_a_wrap_is_corrected(bench, tmp_path):
    if bench.modulus is None:
        pytest.skip("its values do not wrap")
    bench.begin_before_wrap()
    with Session(bench, tmp_path) as session:
        session.steps()

    assert (np.diff(session.readings()["value"].astype("i8")) < 0).sum() == 1
    assert_conserved(session)


def test_what_is_absent_is_said_in_a_sentence(bench, tmp_path):
    bench.remove()

    with pytest.raises(tprof.SensorError, match=r"^\w+ gives no energy: \S.*; run `tprof doctor`"):
        Session(bench, tmp_path).__enter__()
    assert not (tmp_path / "t.tprof").exists()


def test_what_may_not_be_read_is_said_with_the_place(bench):
    try:
        bench.forbid()
    except NotImplementedError:
        pytest.skip("no right decides about it")
    found = create(bench.energy).find(sensors.Machine(sensors.sysroot()))

    assert isinstance(found, sensors.Unavailable)
    assert "cannot" in found.why
    assert "\n" not in found.why


def test_what_is_removed_is_missing_and_no_joules_come_of_the_gap(bench, tmp_path):
    with Session(bench, tmp_path) as session:
        session.steps(3)
        bench.remove()
        wait_for(lambda: is_missing(session.readings()).sum() > 2, "failed reads")
        bench.reset()
        before = len(session.good())
        bench.put_back()
        wait_for(lambda: len(session.good()) > before, "a reading after the return")
        session.steps(3)

    readings = session.readings()
    assert set(readings["value"][is_missing(readings)]) == {0}
    assert is_reopened(readings).sum() == 1
    assert 0 < session.quanta().energy_j.sum() <= session.truth_j()[1] + len(readings) * bench.unit_j


def test_two_readers_do_not_disturb_each_other(bench, tmp_path):
    with Session(bench, tmp_path) as session:
        for _ in range(3):
            found = create(bench.energy).find(sensors.Machine(sensors.sysroot()))
            assert isinstance(found, sensors.Found)
            session.steps(2)

    assert not is_missing(session.readings()).any()
    assert_conserved(session)


def test_a_fork_neither_stops_it_nor_writes_twice(bench, tmp_path):
    with Session(bench, tmp_path) as session:
        session.steps(3)
        child = os.fork()
        if child == 0:
            os._exit(0 if add_up(1000) == 499500 else 1)
        assert os.waitpid(child, 0)[1] == 0
        session.steps(3)

    readings = session.readings()
    assert (np.diff(readings["t_ns"].astype("i8")) > 0).all()
    assert session.unexpected_notes() == []
    assert_conserved(session)


def test_counts_are_whole(bench):
    """A bench that draws less than a count in a step would show nothing."""
    if isinstance(bench, CountBench):
        assert bench.step_j >= bench.unit_j
