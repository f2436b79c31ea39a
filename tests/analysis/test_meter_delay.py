"""How late a meter is shows in the steps of the load, and a load without steps shows nothing."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.properties import examples
from tprof.analysis.attribution.meter_delay import aligned, find_delay

from tprof.trace import Readings
from tprof.trace.kinds import Quality
from tprof.trace.readings import records_of

SECOND_NS = 1_000_000_000


@dataclasses.dataclass
class Running:
    """A thread with samples where it began to work and where it stopped."""

    t_ns: np.ndarray
    cpu_ns: np.ndarray
    columns: tuple[str, ...] = ("cpu_ns",)
    piece: int = 1 << 20

    @property
    def count(self):
        return len(self.t_ns)

    def read_pieces(self, begin, end):
        samples = np.zeros(len(self.t_ns), [("t_ns", "u8"), ("cpu_ns", "u8")])
        samples["t_ns"], samples["cpu_ns"] = self.t_ns, self.cpu_ns
        for first in range(begin, end, self.piece):
            yield samples[first : min(first + self.piece, end)]


def working(lengths_s):
    """Alternate between work and rest."""
    t_ns = np.cumsum([SECOND_NS, *(round(length * 1e9) for length in lengths_s)])
    cpu_ns = np.cumsum([0, *(round(length * 1e9) * (number % 2) for number, length in enumerate(lengths_s))])
    return Running(t_ns, cpu_ns)


def meter(thread, *, delay_s, period_s=0.004, idle_w=5.0, busy_w=20.0, noise_w=0.0, seed=1):
    """Integrate the watts of the load as a meter sees them that is late."""
    t_ns = np.arange(thread.t_ns[0], thread.t_ns[-1], round(period_s * 1e9))
    cpu_s = np.interp(t_ns - delay_s * 1e9, thread.t_ns, thread.cpu_ns) * 1e-9
    joules = idle_w * (t_ns - t_ns[0]) * 1e-9 + busy_w * (cpu_s - cpu_s[0])
    joules = joules + np.cumsum(np.random.default_rng(seed).normal(0, noise_w, len(t_ns))) * period_s
    value = np.maximum.accumulate(np.maximum(joules, 0) * 1e6).astype("u8")
    return Readings(
        "wall", "energy", "wall", None, "meter", Quality.MEASURED, counted=True, unit=1e-6, modulus=None,
        records=records_of(t_ns.astype("i8"), value), dropped=0, integrated=True,
    )  # fmt: skip


@given(
    some.lists(some.floats(0.05, 0.6), min_size=12, max_size=30),
    some.floats(0, 1),
    some.floats(0, 6),
    some.integers(0, 1000),
)
@examples(60)
def test_the_delay_is_found_from_the_steps_within_its_error(lengths_s, delay_s, noise_w, seed):
    random = np.random.default_rng(seed)
    thread = working(random.permutation(np.array(lengths_s) * random.uniform(0.5, 1.5, len(lengths_s))).tolist())
    readings = meter(thread, delay_s=delay_s, noise_w=noise_w, seed=seed)

    found = find_delay(readings, [thread])

    if found.delay_s is not None and sum(lengths_s) > 4 and len({round(one, 1) for one in lengths_s}) > 5:
        assert found.delay_s == pytest.approx(delay_s, abs=max(2 * found.error_s, 0.02))
        assert (readings.t_ns - aligned(readings, found).t_ns == round(found.delay_s * 1e9)).all()


@pytest.mark.parametrize("piece", [1, 2, 7])
def test_the_delay_does_not_depend_on_the_pieces_in_which_it_is_read(piece, monkeypatch):
    thread = working([0.9, 1.3, 1.7, 0.7, 1.1, 1.9, 0.8, 1.4] * 3)
    readings = meter(thread, delay_s=0.2, noise_w=3.0)
    whole = find_delay(readings, [thread])
    monkeypatch.setattr("tprof.trace.readings.PIECE", 100 * piece)

    assert find_delay(readings, [dataclasses.replace(thread, piece=piece)]) == whole


def test_steps_that_are_plain_are_always_found():
    thread = working([0.3, 0.2, 0.5, 0.1, 0.25, 0.4, 0.15, 0.35] * 3)

    for delay_s in (0.0, 0.012, 0.2, 0.9):
        found = find_delay(meter(thread, delay_s=delay_s, noise_w=3.0), [thread])
        assert found.delay_s == pytest.approx(delay_s, abs=0.004)
        assert found.correlation > 0.8


def test_a_load_without_steps_tells_nothing():
    thread = Running(np.array([SECOND_NS, 5 * SECOND_NS]), np.array([0, 4 * SECOND_NS]))

    assert find_delay(meter(thread, delay_s=0.2, noise_w=2.0), [thread]).delay_s is None
    assert find_delay(meter(working([0.3] * 20), delay_s=0.2), []).delay_s is None


def test_few_readings_tell_nothing():
    thread = working([0.3, 0.2] * 4)

    found = find_delay(meter(thread, delay_s=0.1, period_s=0.2), [thread])

    assert found.delay_s is None
    assert aligned(meter(thread, delay_s=0.1), found).t_ns[0] == SECOND_NS


def test_a_delay_between_two_readings_is_found():
    """The correlation of steps falls evenly on both sides, so a parabola through three points shows its peak."""
    thread = working([0.9, 1.3, 1.7, 0.7, 1.1, 1.9, 0.8, 1.4] * 6)

    for delay_s in (0.11, 0.14, 0.18):
        found = find_delay(meter(thread, delay_s=delay_s, period_s=0.1), [thread])

        assert found.delay_s == pytest.approx(delay_s, abs=0.02)


def test_a_delay_that_changes_has_an_error_as_wide_as_its_change():
    thread = working([0.9, 1.3, 1.7, 0.7, 1.1, 1.9, 0.8, 1.4] * 6)
    early, late = (meter(thread, delay_s=delay_s, period_s=0.02) for delay_s in (0.1, 0.25))
    middle = len(early.t_ns) // 2
    value = np.concatenate((early.value[:middle], late.value[middle:] - late.value[middle] + early.value[middle]))

    found = find_delay(dataclasses.replace(early, records=records_of(early.t_ns, value)), [thread])

    assert found.error_s == pytest.approx(0.15, abs=0.03)
