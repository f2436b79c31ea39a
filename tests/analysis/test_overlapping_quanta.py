"""Quanta that overlap where their edge is not known give out their joules whole, and to whom ran."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured_quanta import consecutive
from support.properties import examples
from tprof.analysis.attribution.load import Load
from tprof.analysis.attribution.overlaps import STEPS, distribute_energy, has_overlaps, split_overlaps


def idle_load(pieces, busy_w):
    """Make a load in which only CPU time that no sample shows ran, `busy_w` of it in each piece."""
    seconds = np.diff(pieces.edges_ns) * 1e-9
    return Load(pieces, (), (), (), np.zeros(len(seconds)), busy_w * seconds)


@st.composite
def some_quanta(draw):
    count = draw(st.integers(2, 8))
    lengths = draw(st.lists(st.floats(0.2, 3.0), min_size=count, max_size=count))
    energies = draw(st.lists(st.floats(0.0, 1.0), min_size=count, max_size=count))
    shares = draw(st.lists(st.floats(0.0, 0.9), min_size=count - 1, max_size=count - 1))
    windows = [share * min(pair) for share, pair in zip(shares, itertools.pairwise(lengths), strict=True)]
    valid = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return consecutive(lengths, windows, np.where(valid, energies, 0.0), valid)


@given(some_quanta(), st.data())
@examples(60)
def test_every_quantums_joules_are_given_out_whole(measured, data):
    split = split_overlaps(measured)
    ran = np.array(data.draw(st.lists(st.floats(0, 4), min_size=len(split.pieces), max_size=len(split.pieces))))

    load = distribute_energy(split, idle_load(split.pieces, ran), measured.energy_j, 1.0)

    assert load.quanta.energy_j.sum() == pytest.approx(measured.energy_j.sum(), rel=1e-9, abs=1e-12)
    assert (load.quanta.energy_j >= -1e-15).all()
    assert (load.quanta.energy_j[~split.pieces.valid] == 0).all()


@given(some_quanta())
@examples(60)
def test_pieces_tile_the_quanta_and_belong_to_the_ones_they_touch(measured):
    split = split_overlaps(measured)
    seconds = np.diff(split.pieces.edges_ns) * 1e-9

    assert (seconds > 0).all()
    assert split.pieces.edges_ns[[0, -1]].tolist() == measured.edges_ns[[0, -1]].tolist()
    assert split.sum_by_quantum(seconds) == pytest.approx(np.diff(measured.edges_ns) * 1e-9, rel=1e-6, abs=2e-8)
    middle_ns = (split.pieces.edges_ns[1:] + split.pieces.edges_ns[:-1]) // 2
    owner = split.owner[1:-1] - 1
    # A piece at the very middle of a window may go to either side.
    inside = (split.part < 0.4) | (split.part > 0.6)
    held = np.searchsorted(measured.edges_ns, middle_ns, side="right") - 1
    assert (owner == held)[inside].all()


def test_edges_that_are_known_well_are_left_as_they_are():
    assert not has_overlaps(consecutive([1.0, 1.0], [0.05], [1.0, 2.0]))


def test_an_edge_next_to_an_interval_without_a_reading_does_not_overlap():
    assert not has_overlaps(consecutive([1.0, 1.0], [0.8], [1.0, 0.0], [True, False]))


def test_where_nothing_changes_power_slides_from_one_quantum_to_the_next():
    split = split_overlaps(consecutive([1.0, 1.0], [0.6], [1e-3, 3e-3]))

    load = distribute_energy(split, idle_load(split.pieces, 1.0), split.measured.energy_j, 1.0)

    watts = load.quanta.energy_j / (np.diff(load.quanta.edges_ns) * 1e-9)
    steps = (np.arange(STEPS) + 0.5) / STEPS
    assert watts == pytest.approx([1.0, *(1.0 + 2.0 * steps), 3.0], rel=1e-6)
