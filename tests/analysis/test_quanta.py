"""Readings become quanta with one defined outcome for each fault of a sensor."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution.quanta import build_quanta

from tprof.trace import Quality, Readings
from tprof.trace.readings import records_of

MS = 1_000_000
UNIT_J = 2.0**-14
RAPL_MODULUS = 1 << 32


def readings(t_ms, value, *, modulus=RAPL_MODULUS, unit=UNIT_J, quality=Quality.MEASURED, **columns):
    return Readings(
        "package-0", "energy", "package", 0, "powercap", quality, counted=True, unit=unit, modulus=modulus,
        records=records_of((np.asarray(t_ms) * MS).astype(np.int64), value, **columns), dropped=0,
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


def test_a_fall_that_no_wrap_explains_is_a_fault_and_so_is_the_rise_after_it():
    """A counter far from its end fell a little: a wrap would be 262 kJ in a millisecond."""
    quanta = build_quanta(readings([0, 1, 2, 3, 4], [1000, 2000, 1990, 3000, 3500]))

    assert quanta.valid.tolist() == [True, False, False, True]
    assert quanta.measured_j == joules(1000 + 500)
    assert "seen to go backwards in 1 interval" in quanta.warnings[0]
    assert "not to be believed yet after it went backwards in 1 interval (0.001 s)" in quanta.warnings[1]


def test_a_fall_without_a_known_modulus_is_a_fault():
    """The kernel's power PMU: above 200 W its signed arithmetic makes a count fall."""
    quanta = build_quanta(readings([0, 1, 2, 3], [RAPL_MODULUS - 5, 5, 100, 110], modulus=None))

    assert quanta.valid.tolist() == [False, False, True]


def test_a_false_zero_credits_nothing_when_the_count_comes_back():
    """It reads 0 for 0.2 s, then what it would have shown all the time: 41 J after 0, at a plausible 205 W."""
    count = round(41 / UNIT_J)
    t_ms = [0, 1, 2, 3, 103, 203, 204, 205]
    value = [count - 30, count - 20, count - 10, 0, 0, count, count + 10, count + 20]

    quanta = build_quanta(readings(t_ms, value))

    assert quanta.measured_j == joules(10 + 10 + 10 + 10)
    assert (quanta.edges_ns / MS).tolist() == [0, 1, 2, 3, 203, 204, 205]
    assert quanta.valid.tolist() == [True, True, False, False, True, True]
    assert (
        "in 1 interval (0.2 s): no energy is given for that time, and 41 J that it showed are in doubt"
        in (quanta.warnings[1])
    )


@pytest.mark.parametrize("garbage", [[0, 7], [5_000_000, 3], [40, 5_000_000], [0]])
def test_after_garbage_the_count_is_believed_again_where_it_would_be(garbage):
    value = [100_000, 100_100, *garbage, 100_700, 100_800, 100_900]

    quanta = build_quanta(readings(range(0, 100 * len(value), 100), value))

    assert quanta.valid.tolist() == [True, *[False] * (len(garbage) + 1), True, True]
    assert quanta.measured_j == joules(300)


def test_a_counter_that_was_reset_is_believed_after_one_rise():
    value = [*range(1_000_000, 1_003_000, 100), *range(0, 3000, 100)]

    quanta = build_quanta(readings(range(len(value)), value))

    assert (~quanta.valid).nonzero()[0].tolist() == [29, 30]
    assert quanta.measured_j == joules(29 * 100 + 28 * 100)


def stands_still(*, until_ms, then):
    """Return readings of a count that stands still from 49 ms on, seen each 100 ms, and then moves."""
    signs_ms = list(range(149, until_ms, 100))
    t_ms = [*range(50), *signs_ms, until_ms, until_ms + 1, until_ms + 2]
    value = [*(100 * one for one in range(50)), *[4900] * len(signs_ms), then, then + 100, then + 200]
    return readings(t_ms, value)


def test_a_count_that_stood_still_and_then_catches_up_gives_nothing_for_that_time():
    quanta = build_quanta(stands_still(until_ms=349, then=34_900))

    assert (~quanta.valid).nonzero()[0].tolist() == [49]
    assert quanta.measured_j == joules(4900 + 200)
    assert (
        "package-0 was seen to catch up after it stood still in 1 interval (0.3 s): no energy is given for that time, "
        "and 1.83 J that it showed are in doubt"
    ) in quanta.warnings


def test_a_count_that_stood_still_and_goes_on_from_there_drew_nothing_meanwhile():
    """What it stands for was switched off."""
    quanta = build_quanta(stands_still(until_ms=349, then=5000))

    assert quanta.valid.all()


def test_a_reader_that_was_delayed_saw_no_count_stand_still():
    """Nobody looked for 0.3 s: the joules between are as good as any."""
    late = build_quanta(readings([*range(50), 349, 350], [*(100 * one for one in range(50)), 34_900, 35_000]))

    assert late.valid.all()
    assert late.measured_j == joules(35_000)
    assert not late.stuck.any()


def test_a_value_read_in_a_long_window_did_not_stand_still_for_as_long():
    """The reader lost the processor between the read and the clock: the value may be as old as the window."""
    value = [*(100 * one for one in range(50)), 4900, 34_900, 35_000]
    window_ns = [MS] * 50 + [300 * MS, MS, MS]

    late = build_quanta(readings([*range(50), 349, 350, 351], value, window_ns=window_ns))

    assert late.valid.all()
    assert not late.stuck.any()


def test_a_rise_after_a_value_that_was_read_in_a_long_window_is_no_spike():
    """Its time is 300 ms late, so that all joules of these 300 ms seem to be drawn in the 0.3 ms after it."""
    t_ms = [*range(50), 349.0, 349.3, 350]
    value = [*(1000 * one for one in range(50)), 50_000, 349_000, 350_000]

    known = build_quanta(readings(t_ms, value, window_ns=[MS] * 50 + [300 * MS, MS, MS]))
    unknown = build_quanta(readings(t_ms, value, window_ns=[MS] * 53))

    assert known.valid.all()
    assert known.measured_j == joules(350_000)
    assert unknown.valid.tolist() == [True] * 50 + [False, True]


def test_a_jump_beyond_the_greatest_power_is_rejected_and_the_limit_is_the_callers():
    spiky = readings([0, 10, 20, 30], [0, 1000, 10_000_000, 10_001_000])

    assert build_quanta(spiky).valid.tolist() == [True, False, True]
    assert "above 1000 W" in build_quanta(spiky).warnings[0]
    assert build_quanta(spiky, max_power_w=1e6).valid.all()


def test_failed_reads_are_bridged():
    quanta = build_quanta(readings([0, 1, 2, 3], [10, 999_999_999, 30, 70], missing=[False, True, False, False]))

    assert quanta.energy_j.tolist() == joules([20, 40])
    assert "1 reading of package-0 failed" in quanta.warnings[0]


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
