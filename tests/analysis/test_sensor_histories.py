"""Whatever goes wrong with a sensor, what is credited is what was drawn: never more, and exact where nothing was wrong.

The oracle is a known history of power. A count follows it, faults are laid over the count, and it is recorded as the
recorder does: each change, and a sign of life each tenth of a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples

import tprof
from tprof.live import Meter
from tprof.trace import layout
from tprof.trace.bounds import MAX_POWER_W, max_power_of
from tprof.trace.increments import LATE_NS, Counter

MS = 1_000_000
UNIT_J = 2.0**-14
MODULUS = 1 << 32
SLOT_MS, SLOTS = 260, 3
LENGTH_MS = SLOT_MS * SLOTS
MISSING = 1
MOST_J = MAX_POWER_W * (MS + LATE_NS) * 1e-9
"""What a faulty reading may be credited with: all that can be drawn in one look and one update that came late."""


class History(NamedTuple):
    """What was drawn and what the sensor showed.

    Attributes
    ----------
    count : (n,) of each millisecond, as if the register never wrapped
    readings : as they were recorded
    touched_ms : pairs, between which the sensor cannot be trusted
    faulty : readings that were recorded while it was at fault
    """

    count: np.ndarray
    readings: np.ndarray
    touched_ms: tuple[tuple[int, int], ...]
    faulty: int

    def drawn_j(self, begin_ns, end_ns):
        return (self.count[end_ns // MS] - self.count[begin_ns // MS]) * UNIT_J

    def is_touched(self, begin_ns, end_ns):
        return any(begin_ns < last * MS and first * MS < end_ns for first, last in self.touched_ms)

    def __repr__(self) -> str:
        return f"<{len(self.readings)} readings, faults at {self.touched_ms} ms>"


FAULTS = ("none", "false zero", "stuck", "away", "garbage", "small garbage", "missing", "delayed")


def shown_by(fault, count, part, rng):
    """Return what the sensor shows in a part of the time in which it is at fault."""
    length = part.stop - part.start
    if fault == "away":
        return count[part] - int(rng.choice([3, 1000, 40_000, 10_000_000, 1 << 31]))
    if fault == "stuck":
        return np.full(length, count[part.start - 1])
    highest = {"false zero": 1, "garbage": MODULUS, "small garbage": 1_000_000}[fault]
    return rng.integers(0, highest, length)


@st.composite
def histories(draw):
    """Draw power and faults, at most one fault a slot of time, away from the slot's end."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    watts = np.repeat(rng.uniform(5, 300, LENGTH_MS // 20), 20)
    start = draw(st.sampled_from([1, 30_000, 700_000, MODULUS // 2, MODULUS - 200_000, MODULUS - 1_000_000]))
    count = start + np.floor(np.cumsum(watts * 1e-3) / UNIT_J).astype(np.int64)
    shown, missing, unseen = count.copy(), np.zeros(LENGTH_MS, bool), np.zeros(LENGTH_MS, bool)
    touched, at_fault = [], np.zeros(LENGTH_MS, bool)
    for slot in range(SLOTS):
        fault = draw(st.sampled_from(FAULTS))
        first = SLOT_MS * slot + draw(st.integers(20, 60))
        part = slice(first, first + draw(st.integers(1, 150)))
        if fault == "missing":
            missing[part] = True
        elif fault == "delayed":
            unseen[part] = True
        elif fault != "none":
            shown[part] = shown_by(fault, count, part, rng)
            at_fault[part] = True
            touched.append((part.start - 1, part.stop + 1))
    rows = recorded(shown % MODULUS, missing, unseen)
    return History(count, rows, tuple(touched), int(at_fault[rows["t_ns"] // MS].sum()))


def recorded(shown, missing, unseen):
    """Return the readings that the recorder keeps."""
    kept, last_ms = [], -1000
    for ms in np.flatnonzero(~unseen).tolist():
        state = None if missing[ms] else int(shown[ms])
        if not kept or state != kept[-1][1] or ms - last_ms >= 100 or ms == LENGTH_MS - 1:
            kept.append((ms, state))
            last_ms = ms
    rows = np.zeros(len(kept), layout.READING)
    rows["t_ns"] = [ms * MS for ms, _ in kept]
    rows["value"] = [value or 0 for _, value in kept]
    rows["window_ns"] = MS
    rows["flags"] = [MISSING if value is None else 0 for _, value in kept]
    return rows


def write(path, readings):
    tprof.write_trace(path, tasks=["a"], threads=[], energy={"package-0": ([0], [0.0])}, quality="measured")
    traces.set_readings(path / "readings" / "package-0.readings", readings, unit=UNIT_J, modulus=MODULUS)
    traces.set_json(path / "end.json", end_ns=int(readings["t_ns"][-1]))
    return path


@examples(300)
@given(histories())
def test_never_more_is_credited_than_was_drawn_and_what_no_fault_touches_is_exact(tmp_path_factory, history):
    path = write(tmp_path_factory.mktemp("history") / "t.tprof", history.readings)

    (quanta,) = tprof.load(path).profile("cputime").quanta

    drawn_j = history.drawn_j(0, (LENGTH_MS - 1) * MS)
    assert quanta.energy_j.sum() <= drawn_j + MOST_J * history.faulty + 1e-9
    # An edge lies in the middle of the look in which a value changed: half a millisecond before its reading, or at it.
    reads_ns = -(-quanta.edges_ns // MS) * MS
    for begin_ns, end_ns, energy_j, valid in zip(
        reads_ns[:-1].tolist(), reads_ns[1:].tolist(), quanta.energy_j, quanta.valid, strict=True
    ):
        if not history.is_touched(begin_ns, end_ns):
            assert valid
            assert energy_j == pytest.approx(history.drawn_j(begin_ns, end_ns), abs=1e-12)


@examples(100)
@given(histories())
def test_live_figures_and_the_profile_believe_the_same_readings(tmp_path_factory, history):
    path = write(tmp_path_factory.mktemp("history") / "t.tprof", history.readings)

    live = Meter(path).energy()

    assert live.measured_j == pytest.approx(tprof.load(path).profile("cputime").measured_j, rel=1e-9)


@examples(100)
@given(histories(), st.lists(st.integers(1, 200), min_size=1, max_size=30))
def test_how_readings_are_cut_into_looks_changes_nothing(history, sizes):
    rows = history.readings
    whole = counter().follow(rows, longest_still_ns=1 << 60)

    parts, follower, first = [], counter(), 0
    for size in [*sizes, len(rows)]:
        parts.append(follower.follow(rows[first : first + size], longest_still_ns=1 << 60))
        first += size
    for column in ("t_ns", "energy_j", "fault", "window_ns", "uncertain_j"):
        assert np.concatenate([getattr(part, column) for part in parts]).tolist() == getattr(whole, column).tolist()


def counter():
    return Counter(unit_j=UNIT_J, modulus=MODULUS, quality="measured", scope="package")


def test_what_stands_around_packages_may_draw_more_in_both_engines(tmp_path):
    """5 kW: more than a package draws, less than a machine may."""
    rows = np.zeros(100, layout.READING)
    rows["t_ns"] = np.arange(100) * MS
    rows["value"] = np.round(np.arange(100) * 5.0 / UNIT_J)
    for scope, expected_j in (("psys", 495.0), ("package", 0.0)):
        path = tmp_path / f"{scope}.tprof"
        name = {"psys": "psys", "package": "package-0"}[scope]
        tprof.write_trace(path, tasks=[], threads=[], energy={name: ([0], [0.0])}, quality="measured")
        readings = path / "readings" / f"{name}.readings"
        traces.set_readings(readings, rows, unit=UNIT_J)
        readings.write_bytes(readings.read_bytes().replace(b'"counted":false', b'"counted":true '))
        traces.set_json(path / "end.json", end_ns=99 * MS)

        (quanta,) = tprof.load(path).profile("cputime").quanta

        assert quanta.energy_j.sum() == pytest.approx(expected_j, rel=1e-6)
        measured_j = Meter(path).energy().measured_j
        assert measured_j == pytest.approx(expected_j or np.nan, rel=1e-6, nan_ok=True), "no quantum is valid"
    assert max_power_of("measured", "machine") == max_power_of("measured", "psys") == 10_000
