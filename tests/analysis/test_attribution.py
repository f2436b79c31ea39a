"""Quanta are shared by overlap and modelled power, exactly and without losing digits."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution.segment_energy import attribute


def overlap(begin: int, end: int, low: int, high: int) -> int:
    return max(0, min(end, high) - max(begin, low))


def attribute_slowly(threads, edges, energies):
    """Return joules of each segment, by thread, and those of quanta in which nothing ran, in exact fractions."""
    shares = [[Fraction(0)] * len(modelled) for _, modelled in threads]
    idle = Fraction(0)
    for low, high, energy in zip(edges, edges[1:], energies, strict=False):
        parts = {}
        for t, (times, modelled) in enumerate(threads):
            for s, weight in enumerate(modelled):
                length = times[s + 1] - times[s]
                if length > 0:
                    inside = overlap(times[s], times[s + 1], low, high)
                    parts[t, s] = Fraction(weight) * inside / length
        total = sum(parts.values())
        if total == 0:
            idle += Fraction(energy)
            continue
        for (t, s), part in parts.items():
            shares[t][s] += Fraction(energy) * part / total
    return shares, idle


@st.composite
def threads(draw):
    out = []
    for _ in range(draw(st.integers(1, 4))):
        times = sorted(draw(st.lists(st.integers(0, 60), min_size=2, max_size=9)))
        weights = [draw(st.integers(0, 5)) if b > a else 0 for a, b in itertools.pairwise(times)]
        out.append((times, weights))
    return out


@st.composite
def quanta(draw):
    edges = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=9)))
    return edges, [draw(st.integers(0, 9)) for _ in edges[1:]]


def run(threads, edges, energies):
    return attribute(
        [np.array(t, np.int64) for t, _ in threads],
        [np.array(m, float) for _, m in threads],
        np.array(edges, np.int64),
        np.array(energies, float),
    )


@examples(300)
@given(threads(), quanta())
def test_energies_agree_with_the_slow_obvious_attribution(threads, readings) -> None:
    expected, _ = attribute_slowly(threads, *readings)

    got = run(threads, *readings)

    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, [float(x) for x in theirs], rtol=1e-9, atol=1e-12)


@examples(200)
@given(threads(), quanta())
def test_joules_of_every_quantum_are_conserved_and_none_is_negative(threads, readings) -> None:
    _, idle = attribute_slowly(threads, *readings)

    got = run(threads, *readings)

    assert all((energy >= 0).all() for energy in got)
    assert sum(energy.sum() for energy in got) + float(idle) == pytest.approx(sum(readings[1]), rel=1e-9)


@examples(100)
@given(threads(), quanta())
def test_the_order_of_threads_is_irrelevant(threads, readings) -> None:
    forward = run(threads, *readings)

    backward = run(threads[::-1], *readings)[::-1]

    for a, b in zip(forward, backward, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15)


@examples(100)
@given(quanta(), st.integers(1, 59), st.floats(0.1, 10))
def test_splitting_a_segment_changes_nothing(readings, cut, power) -> None:
    others = ([0, 60], [7.0])

    whole = run([([0, 60], [60 * power]), others], *readings)
    split = run([([0, cut, 60], [cut * power, (60 - cut) * power]), others], *readings)

    assert split[0].sum() == pytest.approx(whole[0][0], rel=1e-9, abs=1e-12)
    assert split[1][0] == pytest.approx(whole[1][0], rel=1e-9, abs=1e-12)


def test_a_task_of_10_us_keeps_its_digits_in_a_recording_of_hours() -> None:
    hours_ns, quantum_ns = 4 * 3600 * 10**9, 10**8
    edges = np.arange(0, hours_ns + 1, quantum_ns)
    begin = hours_ns // 2 + 12_345
    t_ns = np.array([0, begin, begin + 10_000, hours_ns])
    power_w = np.array([20.0, 70.0, 20.0])
    modelled = np.diff(t_ns) * 1e-9 * power_w
    energy_j = np.full(len(edges) - 1, 20.0 * quantum_ns * 1e-9)
    energy_j[begin // quantum_ns] += 50.0 * 10e-6

    (energy,) = attribute([t_ns], [modelled], edges, energy_j)

    assert energy[1] == pytest.approx(70.0 * 10e-6, rel=1e-9)


@pytest.mark.parametrize("nearly_nothing", [1e-15, 1e-9, 1e-3])
def test_tasks_after_hours_of_which_nearly_nothing_is_modelled_keep_their_digits(nearly_nothing) -> None:
    """As where counters stand still: the joules of a modelled unit are far more there than in the quanta after."""
    quanta, length_ns = 400_000, 10_000_000
    late = quanta - 1000
    edges_ns = np.arange(quanta + 1) * length_ns
    t_ns = np.concatenate(([0], np.arange(late * length_ns, quanta * length_ns, 35_000_000), edges_ns[-1:]))
    modelled = np.diff(t_ns).astype(float) * 1e-9
    modelled[0] *= nearly_nothing

    (energy_j,) = attribute([t_ns], [modelled], edges_ns, np.full(quanta, 0.5))

    assert energy_j == pytest.approx(np.diff(t_ns) * 5e-8, rel=1e-12)
