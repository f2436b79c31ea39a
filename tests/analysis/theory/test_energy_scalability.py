"""Energy scalability: the worked example to the last digit, and the three questions for any algorithm."""

import csv
import dataclasses
import doctest
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.theory import energy_scalability as cores
from tprof.analysis.theory.energy_scalability import ALGORITHMS, Multicore, evaluate, isoperformance, normalised
from tprof.analysis.theory.energy_scalability import parallel_algorithms as described

from tprof.errors import UsageError

REFERENCE = Path(__file__).resolve().parents[3].parent / "shared/reference"
ADDITION = ALGORITHMS["addition"]
MACHINE = Multicore(
    max_hz=3e9, operation_cycles=2, access_cycles=150, dynamic_j=1e-28, leakage_j=2e-10, access_j=2e-8,
    message_cycles=3000, message_j=1e-7, block_words=8,
)  # fmt: skip
algorithms, counts = st.sampled_from(list(ALGORITHMS.values())), st.integers(1, 10_000)


def close(value, expected, rel=1e-12):
    assert float(value) == pytest.approx(expected, rel=rel)


@pytest.mark.skipif(not REFERENCE.exists(), reason=f"no reference values in {REFERENCE}")
def test_the_best_numbers_of_cores_for_addition_are_the_reference_values():
    with (REFERENCE / "ka_addition_optima.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert len(rows) == 60

    for row in rows:
        machine = normalised(
            row["k"], row["ratio"], operation_cycles=row["beta"], access_cycles=row["Mc"], block_words=row["B"]
        )
        best = cores.least_energy(ADDITION, machine, row["N"])
        whole = cores.least_energy(ADDITION, machine, row["N"], cores=2.0 ** np.arange(20))
        assert (best.cores, whole.cores) == (row["P_opt"], row["P_opt_pow2"])
        close(best.energy_j, row["E_opt"])
        close(best.frequency_hz, row["X_over_F"])
        close(whole.energy_j, row["E_pow2"])
        close(isoperformance(ADDITION, machine, row["N"], 1).energy_j, row["E_at_P1"])


@given(st.floats(1e4, 1e9), counts, st.floats(1, 1e4), st.sampled_from([1, 8, 64]), st.floats(1, 3))
def test_addition_is_the_papers_five_expressions(n, p, k, block, slack):
    machine = normalised(k, block_words=block)
    seconds = slack * float(cores.sequential_s(ADDITION, machine, n))
    run = isoperformance(ADDITION, machine, n, p, seconds)
    spare = seconds - (n / (block * p) + 2 * math.log2(p)) * 1000
    if math.isnan(run.frequency_hz):
        assert spare <= 0 or (n / p - 1 + math.log2(p)) * 2 / spare > 1
        return
    x = (n / p - 1 + math.log2(p)) * 2 / spare

    close(run.frequency_hz, x, rel=1e-9)
    close(run.compute_j, 10 * (n - 1) * 2 * x**2, rel=1e-9)
    close(run.memory_j, 10 * k * (n / block + 2 * (p - 1)))
    close(run.leakage_j, (1000 * (n / block + 3 * (p - 1)) + 2 / x * (n - 1)) * x, rel=1e-9)
    close(run.time_s, seconds, rel=1e-9)


@given(algorithms, st.floats(1e4, 1e8))
def test_one_core_at_full_speed_takes_the_sequential_time_unless_the_sequential_program_is_another(algorithm, n):
    alone = evaluate(algorithm, MACHINE, n, 1, MACHINE.max_hz)
    sequential_s = cores.sequential_s(algorithm, MACHINE, n)

    if algorithm.sequential is None:
        close(alone.time_s, sequential_s)
        close(isoperformance(algorithm, MACHINE, n, 1).frequency_hz, MACHINE.max_hz)
    else:
        assert alone.time_s > sequential_s
        assert math.isnan(isoperformance(algorithm, MACHINE, n, 1).energy_j)


@given(algorithms, st.floats(1e4, 1e8), counts)
def test_the_critical_path_is_no_longer_than_all_work_and_one_core_does_it_all(algorithm, n, p):
    path, total = (work(n, np.float64(p), MACHINE) for work in (algorithm.path, algorithm.total))
    alone, whole = (work(n, np.float64(1), MACHINE) for work in (algorithm.path, algorithm.total))

    assert all(np.all(one <= of * (1 + 1e-12)) for one, of in zip(path, total, strict=True))
    np.testing.assert_allclose(alone, whole, rtol=1e-12)


@given(algorithms, st.floats(1e5, 1e8), counts, st.floats(0.2, 3))
def test_within_an_energy_each_number_of_cores_is_as_fast_as_it_allows(algorithm, n, p, part):
    allowed_j = part * float(evaluate(algorithm, MACHINE, n, 1, MACHINE.max_hz).energy_j)

    run = cores.bounded(algorithm, MACHINE, n, p, allowed_j)

    slowest = evaluate(algorithm, MACHINE, n, p, MACHINE.max_hz * 1e-9)
    if math.isnan(run.frequency_hz):
        assert slowest.energy_j >= allowed_j * (1 - 1e-6)
    elif run.frequency_hz < MACHINE.max_hz:
        close(run.energy_j, allowed_j, rel=1e-9)
    else:
        assert run.energy_j <= allowed_j * (1 + 1e-12)


@examples(30)
@given(algorithms, st.floats(1e5, 1e8), counts, st.floats(0.3, 3))
def test_no_frequency_is_more_efficient_than_the_one_that_is_said_to_be_most(algorithm, n, p, exponent):
    best = cores.efficient(algorithm, MACHINE, n, p, exponent)
    others = evaluate(algorithm, MACHINE, n, p, MACHINE.max_hz * np.geomspace(1e-6, 1, 400))

    score = best.energy_j * best.time_s**exponent
    assert np.all(score <= others.energy_j * others.time_s**exponent * (1 + 1e-9))


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=list(ALGORITHMS))
@pytest.mark.parametrize("question", ["energy", "time", "efficiency"])
def test_the_best_number_of_cores_is_the_best_of_all_whole_numbers(algorithm, question):
    n, every = 30_000.0, np.arange(1.0, 30_001)
    energy_j = 1.01 * float(evaluate(algorithm, MACHINE, n, 1, MACHINE.max_hz).energy_j)
    if question == "energy":
        found = cores.least_energy(algorithm, MACHINE, n)
        expected = np.nanmin(isoperformance(algorithm, MACHINE, n, every).energy_j)
        close(found.energy_j, min(expected, found.energy_j), rel=1e-12)
    elif question == "time":
        found = cores.least_time(algorithm, MACHINE, n, energy_j)
        expected = np.nanmin(cores.bounded(algorithm, MACHINE, n, every, energy_j).time_s)
        assert found.time_s <= expected * (1 + 1e-12)
    else:
        found = cores.most_efficient(algorithm, MACHINE, n)
        run = cores.efficient(algorithm, MACHINE, n, every)
        assert found.energy_j * found.time_s <= np.min(run.energy_j * run.time_s) * (1 + 1e-12)


def test_a_bound_that_none_can_keep_says_the_nearest_that_one_can():
    fast = cores.least_energy(ADDITION, MACHINE, 1e6, time_s=1e-9)
    frugal = cores.least_time(ADDITION, MACHINE, 1e6, energy_j=1e-9)

    assert not fast.feasible
    assert not frugal.feasible
    assert cores.least_energy(ADDITION, MACHINE, 1e6, time_s=fast.nearest * 1.0001).feasible
    assert not cores.least_energy(ADDITION, MACHINE, 1e6, time_s=fast.nearest * 0.9999).feasible
    assert cores.least_time(ADDITION, MACHINE, 1e6, energy_j=frugal.nearest * 1.0001).feasible


def test_the_example_of_how_to_describe_an_algorithm_holds():
    assert doctest.testmod(described) == doctest.TestResults(failed=0, attempted=3)


def test_more_cores_suit_larger_inputs_and_fewer_dearer_accesses():
    by_size, by_price = cores.figure_2(), cores.figure_3()

    assert np.all(np.diff(by_size["best_cores"]) > 0)
    assert np.all(np.diff(by_price["best_cores"]) < 0)
    slope = np.diff(np.log(by_price["best_cores"])) / np.diff(np.log(by_price["k"]))
    np.testing.assert_allclose(slope, -0.5, atol=0.03)
    assert by_size["energy_j"].shape == (len(by_size["n"]), len(by_size["cores"]))


def test_a_sweep_gives_the_constants_it_was_made_with():
    hz, count = (grid.ravel() for grid in np.meshgrid(np.linspace(1e9, 3e9, 6), [1.0, 2, 4, 8, 16]))
    for algorithm in (ADDITION, ALGORITHMS["reduction"]):
        run = evaluate(algorithm, MACHINE, 2000, count, hz)

        found = cores.fit_sweep(algorithm, 2000, hz, count, run.time_s, run.energy_j, block_words=8)

        messages = {} if algorithm.name == "reduction" else {"message_cycles": 0.0, "message_j": 0.0}
        expected = dataclasses.asdict(dataclasses.replace(MACHINE, **messages))
        for name, value in dataclasses.asdict(found.machine).items():
            assert value == (None if value is None else pytest.approx(expected[name], rel=1e-5)), name
        assert found.time_error < 1e-9
        assert found.energy_error < 1e-9


def test_a_noisy_sweep_predicts_other_runs_to_within_its_noise():
    random = np.random.default_rng(0)
    hz, count = (grid.ravel() for grid in np.meshgrid(np.linspace(1e9, 3e9, 8), [1.0, 2, 4, 8, 16]))
    run = evaluate(ADDITION, MACHINE, 2000, count, hz)
    noise = 1 + 0.02 * random.standard_normal((2, len(hz)))

    found = cores.fit_sweep(ADDITION, 2000, hz, count, run.time_s * noise[0], run.energy_j * noise[1], block_words=8)

    assert 0.01 < found.energy_error < 0.03
    other, truth = (evaluate(ADDITION, machine, 2000, 6, 2.2e9) for machine in (found.machine, MACHINE))
    close(other.energy_j, truth.energy_j, rel=0.02)
    close(other.time_s, truth.time_s, rel=0.02)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: cores.fit_sweep(ADDITION, 1e4, [1e9] * 3, [1] * 3, [1] * 3, [1] * 3), "do not separate"),
        (lambda: cores.fit_sweep(ADDITION, 1e4, [1e9] * 3, [1, 2, 4], [1] * 3, [1] * 3), "no computing to fit"),
        (lambda: cores.fit_sweep(ADDITION, 1e4, [1e9], [1], [1], [1, 2]), "as many values"),
        (lambda: cores.fit_sweep(ADDITION, 1e4, [1e9, 2e9], [1, 1], [1, -1], [1, 1]), "time_s of a sweep .* row 2"),
        (lambda: isoperformance(ADDITION, MACHINE, 0, 1), "n must be 1 or more"),
        (lambda: evaluate(ADDITION, MACHINE, 10, 1, 0), "frequency_hz must be above 0"),
        (lambda: cores.efficient(ADDITION, MACHINE, 10, 1, 0), "exponent of time must be above 0"),
        (lambda: cores.least_energy(ADDITION, MACHINE, 10, time_s=-1), "a bound on time must be above 0"),
        (lambda: dataclasses.replace(MACHINE, max_hz=0), "max_hz must be above 0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_a_sentence(ask, said):
    with pytest.raises(UsageError, match=said):
        ask()
