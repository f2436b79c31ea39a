"""How often a sensor updates, as `tprof doctor` finds it by watching some of its updates."""

import random
from dataclasses import replace

import pytest
from support.fake_nvml import FakeGpu, FakeNvml

from tprof import sensors
from tprof.doctor import live_sensors
from tprof.doctor.live_sensors import LiveDomain, LiveSensors, UpdateTime, time_updates
from tprof.sensors import nvml_reader
from tprof.sensors.registry import create

LONGEST_S, GAP_S, JITTER_S = 0.5, 0.1, 0.001
MS = 10**6


class Clock:
    """Time that passes only as it is waited for."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self):
        return self.now_s

    def monotonic_ns(self):
        return round(self.now_s * 1e9)

    def sleep(self, seconds):
        self.now_s += seconds


class SteadyNvml(FakeNvml):
    """A GPU whose count moves each 100 ms, give or take 1 ms, and is read by calls of some length."""

    def __init__(self, clock, took_s, seed) -> None:
        super().__init__(FakeGpu("GPU-aaaa"))
        self.clock, self.took_s, self.draw = clock, took_s, random.Random(seed)  # noqa: S311 - a simulation
        begin_s = clock.now_s - GAP_S * self.draw.random()
        self.due_s = [begin_s + place * GAP_S + self.draw.uniform(-JITTER_S, JITTER_S) for place in range(20)]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: ARG002, N802 - NVML's
        """Return the count at some moment of the call."""
        took_s = self.took_s * self.draw.uniform(0.8, 1.4)
        seen_s = self.clock.now_s + took_s * self.draw.random()
        self.clock.now_s += took_s
        return 5000 + 70 * sum(due_s <= seen_s for due_s in self.due_s)


def domains_of(place, nvml, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml.install(monkeypatch)
    return create("nvml").find(sensors.Machine(place)).domains


@pytest.mark.parametrize("took_s", [20e-6, 0.003])
@pytest.mark.parametrize("seed", range(20))
def test_a_steady_gpu_updates_as_often_as_it_does(tmp_path, monkeypatch, took_s, seed):
    """Within 5 %, wherever between two updates the doctor begins, also where a call takes 3 ms as on an H200."""
    clock = Clock()
    nvml = SteadyNvml(clock, took_s, seed)
    domains = domains_of(tmp_path, nvml, monkeypatch)
    for module in (live_sensors, nvml_reader):
        monkeypatch.setattr(module, "time", clock)
    begin_s = clock.now_s

    (live,) = time_updates(sensors.Machine(tmp_path), create("nvml"), domains, LONGEST_S).domains

    assert live.update_s == pytest.approx(GAP_S, rel=0.05)
    assert clock.now_s - begin_s < LONGEST_S


def test_the_first_value_is_no_update(tmp_path, monkeypatch):
    """It was there before the sensor was watched."""
    (domain,) = domains_of(tmp_path, FakeNvml(FakeGpu("GPU-aaaa")), monkeypatch)
    live = LiveDomain(domain)
    for ms, count in ((0, 0), (8, 0), (10, 1), (108, 1), (110, 2)):
        live.saw_count(ms * MS, count, reopened=False)

    assert live.update_s is None
    for ms, count in ((208, 2), (210, 3)):
        live.saw_count(ms * MS, count, reopened=False)
    assert live.update_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("after_j", "watts"), [(50_002.0, 20.0), (1.0, None)], ids=["goes on", "reset, which no wrap explains"]
)
def test_watts_follow_the_rule_of_recordings(tmp_path, monkeypatch, after_j, watts):
    """A wrap from 50 kJ to 1 J would be 53 kW."""
    (domain,) = domains_of(tmp_path, FakeNvml(FakeGpu("GPU-aaaa")), monkeypatch)
    live = LiveDomain(replace(domain, unit_j=1e-6, modulus=round(65.536e9)))

    for ms, joules in ((0, 50_000.0), (100, after_j)):
        live.saw_count(ms * MS, round(joules * 1e6), reopened=False)
    live.settle()

    assert live.watts == watts
    for ms in (200, 300, 400):
        live.saw_count(ms * MS, round((after_j + (ms - 100) * 0.02) * 1e6), reopened=False)
    live.settle()
    assert live.watts == pytest.approx(20.0)


@pytest.mark.parametrize(
    "windows_ms",
    [
        [(0, 2), (100, 102), (200, 202), (300, 302)],
        [(0, 2), (100, 102), (300, 302), (400, 402)],
        [(0, 2), (200, 202), (300, 302)],
        [(0, 2), (100, 102), (200, 202), (250, 340)],
        [(0, 2), (99, 101), (150, 290), (300, 302)],
    ],
    ids=["steady", "one unseen", "one of two unseen", "the last seen late", "one seen late"],
)
def test_an_update_that_was_not_seen_or_late_does_no_harm(windows_ms):
    found = UpdateTime.of([(begin * MS, end * MS) for begin, end in windows_ms])

    assert found.seconds == pytest.approx(0.1, rel=0.01)
    assert found.error_s <= 0.001


def test_too_few_updates_give_no_time():
    assert UpdateTime.of([(0, MS), (100 * MS, 101 * MS)]) is None


class Hasty:
    """A sensor that says after each read that the next one is due at once."""

    def __init__(self) -> None:
        self.period_s, self.reads = 1000.0, 0

    def open(self, machine, domains):  # noqa: ARG002 - a sensor's
        return self

    def read(self):
        self.period_s, self.reads = 0.0, self.reads + 1
        return []

    def close(self):
        """Do nothing."""


def test_a_read_decides_when_the_next_is_due(tmp_path, monkeypatch):
    """A sensor that polls around its updates would miss them otherwise."""
    sensor, clock = Hasty(), Clock()
    domains = domains_of(tmp_path, FakeNvml(FakeGpu("GPU-aaaa")), monkeypatch)
    monkeypatch.setattr(live_sensors, "time", clock)

    with LiveSensors(sensors.Machine(tmp_path), [(sensor, domains)]) as live:
        live.watch(10.0, enough=lambda: sensor.reads == 3)

    assert sensor.reads == 3
    assert clock.now_s < 1001
