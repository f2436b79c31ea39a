"""Readings become quanta with one defined outcome for each fault of a sensor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.quanta import build_quanta

from tprof.trace import Quality, Readings

MS = 1_000_000
UNIT_J = 2.0**-14
RAPL_MODULUS = 1 << 32


def readings(t_ms, value, *, modulus=RAPL_MODULUS, unit=UNIT_J, quality=Quality.MEASURED, **columns):
    count = len(t_ms)
    given_columns = {
        "missing": np.zeros(count, bool),
        "reopened": np.zeros(count, bool),
        "suspended_ns": np.zeros(count, np.int64),
    } | {name: np.asarray(values) for name, values in columns.items()}
    return Readings(
        "package-0", "energy", "package", 0, "powercap", quality, counted=True, unit=unit, modulus=modulus,
        t_ns=np.asarray(t_ms, np.int64) * MS, value=np.asarray(value, np.uint64),
        window_ns=np.zeros(count, np.uint32), dropped=0, **given_columns,
    )  # fmt: skip


def joules(counts):
    return pytest.approx(np.asarray(counts) * UNIT_J, rel=1e-12)


def test_equal_values_merge_into_the_running_quantum():
    quanta = build_quanta(readings([0, 1, 2, 3, 4], [10, 10, 30, 30, 70]))

    assert (quanta.edges_ns / MS).tolist() == [0, 2, 4]
    assert quanta.energy_j.tolist() == joules([20, 40])


@examples(100)
@given(st.integers(0, RAPL_MODULUS - 1), st.lists(st.integers(1, 60_000), min_size=1, max_size=30))
def test_one_wrap_between_readings_loses_no_count(begin, steps):
    true = begin + np.concatenate(([0], np.cumsum(steps)))

    quanta = build_quanta(readings(range(0, 10 * len(true), 10), true % RAPL_MODULUS))

    assert quanta.valid.all()
    assert quanta.energy_j.tolist() == joules(steps)


def test_a_fall_that_no_wrap_explains_is_a_fault():
    """A counter far from its end fell a little: a wrap would be 262 kJ in a millisecond."""
    quanta = build_quanta(readings([0, 1, 2, 3], [1000, 2000, 1990, 3000]))

    assert quanta.valid.tolist() == [True, False, True]
    assert quanta.measured_j == joules(1000 + 1010)
    assert "seen to go backwards in 1 intervals" in quanta.warnings[0]


def test_a_fall_without_a_known_modulus_is_a_fault():
    """The kernel's power PMU: above 200 W its signed arithmetic makes a count fall."""
    quanta = build_quanta(readings([0, 1, 2], [RAPL_MODULUS - 5, 5, 100], modulus=None))

    assert quanta.valid.tolist() == [False, True]


def test_a_jump_beyond_the_greatest_power_is_rejected_and_the_limit_is_the_callers():
    spiky = readings([0, 10, 20, 30], [0, 1000, 10_000_000, 10_001_000])

    assert build_quanta(spiky).valid.tolist() == [True, False, True]
    assert "above 1000 W" in build_quanta(spiky).warnings[0]
    assert build_quanta(spiky, max_power_w=1e6).valid.all()


def test_failed_reads_are_bridged():
    quanta = build_quanta(readings([0, 1, 2, 3], [10, 999_999_999, 30, 70], missing=[False, True, False, False]))

    assert quanta.energy_j.tolist() == joules([20, 40])
    assert "1 readings of package-0 failed" in quanta.warnings[0]


@pytest.mark.parametrize("fault", ["reopened", "suspended_ns"])
def test_a_sensor_that_came_back_or_slept_gives_no_energy_for_that_time(fault):
    """A register may be reset while nobody looks: neither a wrap nor a rise can be believed."""
    said = {"reopened": [False, False, True, False], "suspended_ns": [0, 0, 5_000 * MS, 5_000 * MS]}[fault]

    quanta = build_quanta(readings([0, 1, 2, 3], [1000, 2000, 5, 105], **{fault: said}))

    assert quanta.valid.tolist() == [True, False, True]
    assert quanta.measured_j == joules(1100)


def test_readings_that_are_not_later_are_left_out():
    quanta = build_quanta(readings([0, 2, 2, 1, 4], [0, 10, 11, 5, 30]))

    assert (quanta.edges_ns / MS).tolist() == [0, 2, 4]
    assert quanta.energy_j.tolist() == joules([10, 20])


def test_a_sensor_that_never_moves_measured_nothing_rather_than_zero():
    quanta = build_quanta(readings([0, 100, 200], [7, 7, 7]))

    assert math.isnan(quanta.measured_j)
    assert "never moved" in quanta.warnings[0]


def test_a_sensor_that_stops_moving_measures_nothing_from_then_on():
    moving = list(range(100))

    quanta = build_quanta(readings([*moving, 400], [*(100 * m for m in moving), 9900]))

    assert quanta.stuck[-1]
    assert quanta.valid.tolist() == [True] * 99 + [False]


@pytest.mark.parametrize("quality", [Quality.GIVEN, Quality.SIMULATED, Quality.ESTIMATED])
def test_joules_that_were_calculated_may_stand_still_and_rise_as_they_like(quality):
    quanta = build_quanta(readings([0, 1, 500], [5, 1 << 40, 1 << 40], quality=quality, modulus=None))

    assert quanta.valid.all()


@pytest.mark.parametrize("count", [0, 1])
def test_less_than_two_readings_resolve_nothing(count):
    quanta = build_quanta(readings(range(count), range(count)))

    assert len(quanta) == 0
    assert math.isnan(quanta.measured_j)
    assert "not resolved" in quanta.warnings[-1]
