"""A sweep visits the frequencies that were asked for, each once, and says where the processor has others."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.benchmarks.sweep.frequencies import clamped, visited
from tprof.benchmarks.sweep.plan import Point

from tprof.errors import UsageError
from tprof.frequency import Bounds, Policy

LISTED = (1_600_000_000, 2_400_000_000, 3_200_000_000)
GHZ = 10**9


def policy(listed=LISTED, lowest=LISTED[0], highest=LISTED[-1], name="policy0"):
    return Policy(Path(name), (0,), "a driver", "schedutil", Bounds(lowest, highest), listed)


FAST = policy((), 800_000_000, 5 * GHZ)
SLOW = policy((), 1_200_000_000, 3_800_000_000, "policy1")


@pytest.mark.parametrize(
    ("text", "hz"),
    [
        ("all", LISTED),
        ("1.6GHz, 3200 MHz", (LISTED[0], LISTED[2])),
        ("2.4", (LISTED[1],)),
        ("2400000khz", (LISTED[1],)),
        ("2.5GHz,2.4GHz", (LISTED[1],)),
        ("1.6GHz..2.5GHz", LISTED[:2]),
        ("1.6..3.2:2", (LISTED[0], LISTED[2])),
    ],
)
def test_frequencies_are_those_that_the_processor_has(text, hz):
    assert visited(text, [policy()]).frequencies_hz == hz


def test_where_any_frequency_is_taken_a_grid_is_spread_between_the_ends():
    grid = visited("all", [policy(listed=())]).frequencies_hz

    assert grid[0] == LISTED[0]
    assert grid[-1] == LISTED[-1]
    assert len(grid) == 8
    assert visited("2GHz..3GHz:3", [policy(listed=())]).frequencies_hz == (2_000_000_000, 2_500_000_000, 3_000_000_000)


def test_of_two_kinds_of_core_the_faster_decides():
    slow = policy(listed=(), highest=2_400_000_000)

    assert visited("all", [slow, policy()]).frequencies_hz == LISTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", "must be all, a list"),
        ("2400", "lacks its unit"),
        ("9GHz", "9 GHz is outside of what this processor has: 1.6 GHz to 3.2 GHz"),
        ("3GHz..2GHz:4", "lower end first"),
        ("2GHz..3GHz:1", "at least 2"),
        ("2GHz..3GHz:", "at least 2"),
        ("2GHz..3GHz:\N{SUPERSCRIPT TWO}", "at least 2"),
        ("2GHz..3GHz:" + "9" * 12, "at most 1000 after the colon"),
        ("2GHz..3GHz:" + "9" * 5000, "at most 1000 after the colon"),
        ("9" * 400 + "GHz", "no processor runs that fast"),
        ("1.7GHz..1.8GHz", "nothing lies between them; this processor has 1.6 GHz, 2.4 GHz, 3.2 GHz"),
    ],
)
def test_what_is_no_frequency_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        visited(text, [policy()])


def test_cores_of_two_kinds_visit_what_any_of_them_has_and_the_other_is_named():
    found = visited("0.8,1.2,5", [FAST, SLOW]).frequencies_hz

    assert found == (800_000_000, 1_200_000_000, 5 * GHZ)
    assert clamped([FAST, SLOW], found) == [
        "policy1 (1.2 GHz to 3.8 GHz) cannot take 0.8 GHz, 5 GHz: held at the nearest instead"
    ]
    assert clamped([FAST, SLOW], (1_200_000_000,)) == []


def test_frequencies_that_fall_together_or_move_are_said():
    (said,) = visited("1.6..3.2:5", [policy()]).notes
    assert said.startswith(
        "--frequencies 1.6..3.2:5 becomes 1.6 GHz, 2.4 GHz, 3.2 GHz, the nearest that this processor"
    )
    assert said.endswith("has: 5 were asked for, 3 left")
    assert "becomes 1.6 GHz, the nearest" in visited("1.6,1.61", [policy()]).notes[0]
    assert visited("1.6,3.2", [policy()]).notes == ()


@given(st.integers(2, 40), st.integers(800_000, 2_000_000), st.integers(1, 3_000_000))
def test_every_frequency_of_a_grid_is_one_that_the_kernel_can_be_asked_for(count, lowest_khz, more_khz):
    held = policy((), lowest_khz * 1000, (lowest_khz + more_khz) * 1000)

    found = visited(f"{lowest_khz}kHz..{lowest_khz + more_khz}kHz:{count}", [held])

    assert all(hz % 1000 == 0 for hz in found.frequencies_hz)
    assert (found.frequencies_hz[0], found.frequencies_hz[-1]) == (held.range.lowest_hz, held.range.highest_hz)


def test_two_frequencies_within_a_mhz_are_two_points_with_names_of_their_own():
    found = visited("2.0001GHz,2.0005GHz", [FAST]).frequencies_hz

    assert found == (2_000_100_000, 2_000_500_000)
    assert len({Point(hz, 1, 1).name for hz in found}) == 2
