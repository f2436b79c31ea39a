"""Curves pass what was measured, follow the laws between, and spread where nothing is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.operating_points import measured
from support.properties import examples
from tprof.analysis.operating_points.draws import draw

HZ = np.linspace(1.6e9, 3.3e9, 18)
ONE = np.ones(len(HZ), np.int64)
TOP = 3.3e9


def spread(values):
    return values.std(axis=0) / values.mean(axis=0)


@examples(25)
@given(some.floats(0, 1), some.floats(0, 0.9), some.floats(1.2, 2.8), some.floats(1e-6, 1e6))
def test_intervals_from_two_frequencies_hold_what_the_law_gives_between(work, static, exponent, scale):
    def time_s(hz, _):
        return scale * (1 - work + work * TOP / hz)

    def power_w(hz, _):
        return 50 * (static + (1 - static) * (hz / TOP) ** exponent)

    draws = draw(measured([1.6e9, TOP], time_s, power_w), HZ, ONE)

    low, high = np.percentile(draws.energy_j, (0.5, 99.5), axis=0)
    truth = time_s(HZ, 1) * power_w(HZ, 1)
    assert (truth >= low * 0.98).all()
    assert (truth <= high * 1.02).all()


def test_curves_pass_measured_points_and_are_least_sure_between():
    draws = draw(measured([1.6e9, TOP], [2.0, 1.0], [20.0, 60.0]), HZ, ONE)

    assert draws.time_s[:, [0, -1]].mean(axis=0) == pytest.approx([2.0, 1.0], rel=0.01)
    assert draws.power_w[:, [0, -1]].mean(axis=0) == pytest.approx([20.0, 60.0], rel=0.01)
    assert spread(draws.power_w)[9] > 3 * spread(draws.power_w)[0]


@pytest.mark.parametrize("time_noise", [0.005, 0.1, 0.3])
def test_at_a_point_that_was_run_the_energy_is_what_was_measured_however_noisy_the_time(time_noise):
    hz = np.array([1.6e9, 2.4e9, TOP])
    shaken = np.array([2.1, 1.3, 1.0]) * (1 + time_noise * np.array([1, -1, 0.5]))
    energy_j = np.array([30.0, 36.0, 60.0])
    points = replace(measured(hz, shaken, energy_j / shaken), time_noise=np.full(3, time_noise))
    draws = draw(points, hz, ONE[:3])

    assert draws.energy_j.mean(axis=0) == pytest.approx(energy_j, rel=0.005)
    assert (spread(draws.energy_j) < 0.0075).all()
    assert (spread(draws.time_s) <= 1.2 * time_noise).all()


def test_a_third_point_makes_the_others_surer():
    def power_w(hz, _):
        return 5 + 55 * (hz / TOP) ** 2.6

    two = draw(measured([1.6e9, TOP], lambda hz, _: TOP / hz, power_w), HZ, ONE)
    three = draw(measured([1.6e9, 2.4e9, TOP], lambda hz, _: TOP / hz, power_w), HZ, ONE)

    assert spread(three.power_w)[12] < spread(two.power_w)[12] / 2


def test_a_kink_that_no_law_has_is_followed_where_it_was_measured():
    power_w = np.where(HZ < 2.4e9, 30.0, 45.0)
    draws = draw(measured(HZ, np.full(len(HZ), 1.0), power_w), HZ, ONE)

    assert draws.power_w.mean(axis=0) == pytest.approx(power_w, rel=0.05)


def test_stalls_tell_how_time_goes_where_runs_are_noisy():
    points = {"setting": [3.0e9, TOP], "time_s": [1.02, 1.0], "power_w": [50.0, 60.0], "noise": 0.03}
    told = [draw(measured(**points, waiting=waiting), HZ, ONE).waiting.mean() for waiting in (0.1, None, 0.95)]

    assert told[0] < told[1] < told[2]


def test_the_same_points_give_the_same_curves():
    points = measured([1.6e9, TOP], [2.0, 1.0], [20.0, 60.0])

    assert np.array_equal(draw(points, HZ, ONE).energy_j, draw(points, HZ, ONE).energy_j)


def test_above_what_a_job_wants_a_power_limit_changes_nothing():
    limits = np.array([100.0, 125, 150, 175, 200, 225, 250])
    one = np.ones(7, np.int64)
    draws = draw(measured([100, 250], [1.6, 1.0], [95.0, 150.0], unit="W"), limits, one)

    time_s, power_w = draws.time_s.mean(axis=0), draws.power_w.mean(axis=0)
    assert time_s[4:] == pytest.approx(1.0, rel=0.04)
    assert power_w[4:] == pytest.approx(150.0, rel=0.04)
    assert (np.diff(time_s[:4]) < 0).all()


def test_workers_between_the_measured_ones_follow_serial_and_parallel_parts():
    counts = np.arange(1, 17)
    nowhere = np.full(16, np.nan)

    def time_s(_, p):
        return 1 + 15 / p

    def power_w(_, p):
        return 20 + 5 * p

    shown = [0, 3, 15]
    points = measured(nowhere[shown], time_s, power_w, unit="", workers=counts[shown])
    draws = draw(points, nowhere, counts)

    assert draws.time_s.mean(axis=0) == pytest.approx(time_s(0, counts), rel=0.1)
    assert draws.power_w.mean(axis=0) == pytest.approx(power_w(0, counts), rel=0.1)


def test_frequency_and_workers_together():
    hz, count = (one.ravel() for one in np.meshgrid(np.linspace(1.6e9, TOP, 5), np.array([1, 2, 4, 8])))

    def time_s(hz, p):
        return (1 + 8 / p) * TOP / hz

    def power_w(hz, p):
        return 10 + 6 * p * (hz / TOP) ** 2

    corners = [0, 4, 15, 19, 7]
    points = measured(hz[corners], time_s, power_w, workers=count[corners])
    draws = draw(points, hz, count)

    assert np.abs(draws.energy_j.mean(axis=0) / (time_s(hz, count) * power_w(hz, count)) - 1).max() < 0.2
