"""Edges that are known only to lie in a window are put where the joules on both sides say, and nothing else moves."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured_quanta import MS, consecutive, quanta
from support.properties import examples
from tprof.analysis.attribution.load import Load
from tprof.analysis.attribution.overlaps import split_overlaps
from tprof.analysis.attribution.segment_energy import LocatedSegments
from tprof.analysis.models.fitted.edges import estimate_edges

import tprof
from benchmarks.simulator import ICE_LAKE, Mix, Package, Run, random_mix, stated, write

TASKS = (stated("short", 50e-6, 4.0), stated("long", 200e-6, 12.0))


def estimated(measured, t_ms, power_w, own_w=0.0):
    """Estimate the edges of quanta in which one thread drew `power_w` between the times `t_ms`."""
    split = split_overlaps(measured)
    t_ns = np.round(np.array(t_ms) * MS).astype(np.int64)
    modelled = np.array(power_w) * np.diff(t_ns) * 1e-9
    nothing = np.zeros(len(split.pieces))
    load = Load(split.pieces, (), (LocatedSegments(t_ns, modelled, split.pieces.edges_ns),), (), nothing, nothing)
    return estimate_edges(split, load, np.zeros(len(measured)), 0.0, own_w)


def test_an_edge_goes_to_where_the_joules_on_both_sides_agree():
    """10 W until 4 ms, then 2 W. The third edge lay at 3.7 ms and is thought to lie at 4.0, within 0.8 ms."""
    true_ms = [0, 2, 3.7, 6, 8]
    joules = [20e-3, 17e-3, 3e-3 + 4e-3, 4e-3]

    found = estimated(quanta([0, 2, 4.0, 6, 8], [0.01, 0.8, 0.01], joules), [0, 4, 8], [10.0, 2.0])

    assert found.edges_ns[2] / MS == pytest.approx(true_ms[2], abs=0.03)
    assert found.window_s[2] < 0.1e-3
    assert found.energy_j.tolist() == joules


def test_where_quanta_have_noise_of_their_own_an_edge_moves_less():
    joules = [20e-3, 17e-3, 7e-3, 4e-3]
    measured = quanta([0, 2, 4.0, 6, 8], [0.01, 0.8, 0.01], joules)

    sure = estimated(measured, [0, 4, 8], [10.0, 2.0])
    unsure = estimated(measured, [0, 4, 8], [10.0, 2.0], own_w=1.0)

    assert abs(unsure.edges_ns[2] - 4 * MS) < abs(sure.edges_ns[2] - 4 * MS) / 10
    assert unsure.window_s[2] > 0.7e-3


@st.composite
def some(draw):
    count = draw(st.integers(3, 10))
    lengths = draw(st.lists(st.floats(0.5, 3.0), min_size=count, max_size=count))
    shares = draw(st.lists(st.floats(0.0, 0.9), min_size=count - 1, max_size=count - 1))
    windows = [share * min(lengths[i : i + 2]) for i, share in enumerate(shares)]
    energies = draw(st.lists(st.floats(0.0, 0.1), min_size=count, max_size=count))
    valid = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    return consecutive(lengths, windows, np.where(valid, energies, 0.0), valid)


@given(some(), st.lists(st.floats(0.0, 30.0), min_size=4, max_size=4), st.floats(0, 1e-3))
@examples(80)
def test_edges_stay_in_their_windows_and_in_order_and_joules_stay(measured, power_w, own_w):
    t_ms = np.linspace(0, measured.edges_ns[-1] / MS, 5)

    found = estimated(measured, t_ms, power_w, own_w)

    half_ns = measured.window_s * 1e9 / 2
    low, high = measured.edges_ns - half_ns, measured.edges_ns + half_ns
    narrowed = found.window_s * 1e9 / 2
    assert (np.diff(found.edges_ns) > 0).all()
    assert (found.edges_ns - narrowed >= low - 1).all()
    assert (found.edges_ns + narrowed <= high + 1).all()
    assert (found.energy_j == measured.energy_j).all()


def test_single_instances_are_known_far_better_than_the_sensor_was_timed(tmp_path):
    """Polled each millisecond, an edge is off by 0.3 ms: cut there, instances of 50 us would be off by 30 %."""
    mix = Mix(duration_s=2.0)
    run = Run(Package(), [task.kernel for task in TASKS], random_mix(TASKS, mix, seed=4), mix.idle_s + mix.duration_s)
    sensor = dataclasses.replace(ICE_LAKE, poll_s=1e-3, closely=1 / 8)
    truth = write(tmp_path / "t.tprof", [task.name for task in TASKS], run, sensor=sensor, seed=4, counters=False)

    table = tprof.load(tmp_path / "t.tprof").profile(model="fitted").tasks.set_index("instance").loc[truth.instance]

    got, short = table["dynamic_j"].to_numpy(), truth.task == 0
    off = got[short] - truth.dynamic_j[short]
    assert np.sqrt(np.nanmean(off**2)) < 0.05 * truth.dynamic_j[short].mean()
