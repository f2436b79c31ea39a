"""The polynomials compute what they say, on all cores, and take what the sensor measured."""

import os

import numpy as np
import pytest
from support import fake_trees
from support.fake_sensor import FakeSensor
from tprof.benchmarks.kernels import Caches
from tprof.benchmarks.roofline import Extent, measure
from tprof.benchmarks.roofline._polynomial import MOST_DEGREE, polynomial, vectors
from tprof.benchmarks.roofline.thread_team import FULL, one_a_core

from tprof.sensors.topology import Cpu

TINY = Extent((0, 2, 64), 0.02, 1, 1 << 20, 64)


def by_hand(numbers, degree):
    """Horner's rule in NumPy, with the kernels' coefficients."""
    value = numbers.astype(np.float64)
    for place in range(degree):
        value = value * numbers + 0.25 + 0.5 * (place % 7) / 7.0
    return float(value.sum())


@pytest.mark.parametrize("width", vectors())
@pytest.mark.parametrize("degree", [0, 1, 2, 7, 64, MOST_DEGREE])
@pytest.mark.parametrize("count", [1, 3, 95, 96, 97, 1000, 4099])
@pytest.mark.parametrize(("kind", "exact"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_the_sum_of_all_polynomials_is_that_of_numpy(kind, exact, count, degree, width):
    numbers = np.random.default_rng(count).uniform(0.25, 0.75, count).astype(kind)

    read, seconds, total = polynomial(numbers, degree, 1e-9, width)

    assert read == count
    assert seconds > 0
    assert total == pytest.approx(by_hand(numbers, degree), rel=exact)


def test_a_stream_is_read_part_by_part_and_again():
    numbers = np.full(100_000, 0.5)

    read, seconds, total = polynomial(numbers, 0, 0.01)

    assert seconds >= 0.01
    assert read > 0
    assert total == pytest.approx(0.5 * read)


@pytest.mark.parametrize(
    ("stream", "degree", "said"),
    [
        (np.ones(4), -1, f"a degree is from 0 to {MOST_DEGREE}, got -1"),
        (np.ones(4), MOST_DEGREE + 1, "a degree is from 0"),
        (np.ones(4, np.int64), 1, "float32 or float64"),
        (np.ones(0), 1, "not empty"),
        (np.ones(8)[::2], 1, "contiguous"),
    ],
)
def test_what_is_no_stream_or_degree_is_refused(stream, degree, said):
    with pytest.raises((ValueError, BufferError), match=said):
        polynomial(stream, degree, 0.0)


def test_vectors_that_the_processor_lacks_are_refused():
    with pytest.raises(ValueError, match="this processor has no vectors called avx9"):
        polynomial(np.ones(4), 1, 0.0, "avx9")


def test_one_processor_of_each_core_of_all_packages_is_used():
    usable = sorted(os.sched_getaffinity(0))[:2]

    assert one_a_core([Cpu(cpu, 0, 0) for cpu in usable]) == tuple(usable[:1])
    assert one_a_core([Cpu(cpu, place, 0) for place, cpu in enumerate(usable)]) == tuple(usable)


def test_streams_are_larger_than_the_caches_but_not_without_end():
    assert FULL.stream_bytes(Caches(32 << 10, 1 << 20, 32 << 20), 2) == 4 * (17 << 20)
    assert FULL.stream_bytes(Caches(32 << 10, 1 << 20, 1 << 30), 1) == FULL.most_bytes


def test_runs_say_work_traffic_and_time_and_energy_is_not_made_of_an_estimate(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(fake_trees.virtual_machine(tmp_path).root))
    told = []

    found = measure(TINY, progress=lambda *said: told.append(said))

    runs = found.runs
    assert (runs.flops / runs.traffic_bytes).tolist() == pytest.approx([1 / 8, 5 / 8, 129 / 8, 1 / 4, 5 / 4, 129 / 4])
    assert found.degrees == (0, 2, 64, 0, 2, 64)
    assert (runs.time_s > 0).all()
    assert np.isnan(runs.energy_j).all()
    assert "times only: energies need a sensor that measures the package" in found.no_energy
    assert [done for _, done, _ in told] == list(range(9))
    assert set(found.achieved) == {"bandwidth", "single", "double"}
    assert all(np.isfinite(value) and value > 0 for value in found.achieved.values())
    assert found.vectors == vectors()[0]


def test_runs_take_the_joules_that_the_sensor_counts(tmp_path, monkeypatch):
    tree = fake_trees.laptop(tmp_path)
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    sensor = FakeSensor(watts=20.0, modulus=fake_trees.RANGE_UJ + 1).drives(tree.energy_of("intel-rapl:0"))

    with sensor:
        found = measure(Extent((0, 64), 0.2, 1, 1 << 20, 64), energy="powercap")

    assert found.no_energy is None
    watts = (found.runs.energy_j / found.runs.time_s)[np.isfinite(found.runs.energy_j)]
    # On a busy machine the counter may stand still in a run, which then has no energy or that of fewer updates.
    assert len(watts) > 0
    assert np.median(watts) == pytest.approx(20.0, rel=0.1)
