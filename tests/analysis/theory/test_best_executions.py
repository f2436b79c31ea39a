"""The best execution within bounds: closed forms beside the reference, the search beside closed forms."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.theory import strong_scaling as scaling
from tprof.analysis.theory.strong_scaling import ALGORITHMS, Limits, Machine, NBody, Problem, evaluate, nbody, optimise

from tprof.errors import UsageError

REFERENCE = Path(__file__).resolve().parents[3].parent / "shared/reference"
shared = pytest.mark.skipif(not REFERENCE.exists(), reason=f"no reference values in {REFERENCE}")
JAKETOWN = scaling.machines()["jaketown"]
SMALL = dataclasses.replace(JAKETOWN, message_words=1e3, alpha_e=1e-7, epsilon_e=3.0)


def problems():
    if not REFERENCE.exists():
        return []
    cases = json.loads((REFERENCE / "demmel_golden_open.json").read_text())["cases"]
    return [(case["params"], case["nbody_opt"]) for case in cases]


def bodies(q, golden):
    machine = Machine("golden", q["gt"], q["bt"], q["at"], q["ge"], q["be"], q["ae"], q["de"], q["ee"], 1e15, q["m"])
    return NBody(machine, golden["n"], q["f"])


def close(value, expected, rel=1e-9):
    assert float(value) == pytest.approx(expected, rel=rel)


@shared
@pytest.mark.parametrize(("q", "golden"), problems())
def test_the_closed_forms_of_the_n_body_problem_are_the_reference_values(q, golden):
    problem = bodies(q, golden)
    best = problem.least_energy()

    close(problem.best_memory_words, golden["M0"])
    close(problem.least_energy_j, golden["E_star"])
    close(best.energy_j, golden["E_star"])
    close(best.p_from, golden["p_min_at_M0"])
    close(best.p_to, golden["p_max_at_M0"])
    close(best.time_s, golden["T_at_pmax_M0"])
    close(problem.gflops_per_w, golden["gflops_per_w"])
    for name in ("Tmax=0.25x", "Tmax=4x"):
        close(problem.processors_within_time(golden[name]["Tmax"]), golden[name]["p_min_2D"])
        close(problem.least_energy_within_time(golden[name]["Tmax"]).energy_j, golden[name]["E_min"])
        p = golden[name]["p_min_2D"]
        close(problem.at(p, problem.n / p**0.5).energy_j, golden[name]["E_at_2D"])
    for name in ("Emax=1.1x", "Emax=1.5x"):
        fastest = problem.least_time_within_energy(golden[name]["Emax"])
        close(fastest.p, golden[name]["p_max_2D"])
        close(fastest.time_s, golden[name]["T_min"])
    for name in ("Pmax_case0.5", "Pmax_case2.0"):
        within = problem.memory_within_processor_power(golden[name]["Pmax"])
        close(within[1], golden[name]["M_upper"])
        assert within[0] == (golden[name]["M_lower"] or 0.0)
        most = problem.processors_within_power(100 * golden[name]["Pmax"], problem.best_memory_words)
        close(most, golden[name]["total_power_p_bound_at_M0_for_100xPmax"])


@shared
@pytest.mark.parametrize(("q", "golden"), problems())
def test_the_search_finds_what_the_closed_forms_say(q, golden):
    problem = bodies(q, golden)
    searched = Problem(nbody(q["f"]), problem.machine, problem.n)

    best = optimise(searched)
    close(best.energy_j, golden["E_star"])
    close(best.p_to, golden["p_max_at_M0"], rel=1e-4)  # where energy is flat its place is not sharp
    for name in ("Tmax=0.25x", "Tmax=4x"):
        found = optimise(searched, "energy", Limits(time_s=golden[name]["Tmax"]))
        close(found.energy_j, golden[name]["E_min"], rel=1e-8)
    for name in ("Emax=1.1x", "Emax=1.5x"):
        found = optimise(searched, "time", Limits(energy_j=golden[name]["Emax"]))
        close(found.time_s, golden[name]["T_min"], rel=1e-6)


@given(st.floats(1.001, 10.0), st.floats(1e4, 1e8))
def test_a_processors_power_at_both_ends_of_the_memory_it_allows_is_the_bound(part, n):
    machine = dataclasses.replace(SMALL, beta_e=1e-6)  # sending draws more than computing: there is a least memory too
    problem = NBody(machine, n)
    middle = problem.best_memory_words
    bound_w = part * problem.processor_power_w(middle)

    low, high = problem.memory_within_processor_power(bound_w)

    for end in (low, high):
        if end > 0:
            close(problem.processor_power_w(end), bound_w, rel=1e-6)
    assert low <= middle <= high


def test_a_power_that_no_memory_keeps_and_an_energy_below_the_least_are_infeasible():
    problem = NBody(SMALL, 1e6)

    assert all(math.isnan(end) for end in problem.memory_within_processor_power(1.0))
    refused = problem.least_time_within_energy(0.99 * problem.least_energy_j)
    assert not refused.feasible
    close(refused.nearest["energy_j"], problem.least_energy_j)
    close(
        optimise(Problem(nbody(), SMALL, 1e6), "time", Limits(energy_j=1.0)).nearest["energy_j"], problem.least_energy_j
    )


@examples(15)
@given(
    st.sampled_from(list(ALGORITHMS)), st.sampled_from(["energy", "time", "edp"]), st.floats(0, 1), st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_nothing_tried_at_random_keeps_the_limits_and_is_better(name, minimise, tight_time, tight_power, seed):
    problem = Problem(ALGORITHMS[name], SMALL, 4096.0, (1.0, 4000.0))
    some = problem.run(np.column_stack([np.log(np.geomspace(*problem.ends(), 30)), np.linspace(0, 1, 30)]))
    limits = Limits(
        time_s=float(np.quantile(some.time_s, 1 - 0.5 * tight_time)),
        power_w=float(np.quantile(some.power_w, 1 - 0.5 * tight_power)),
    )
    random = np.random.default_rng(seed)
    low, high = np.log(problem.ends())
    tried = problem.run(np.column_stack([random.uniform(low, high, 2000), random.uniform(0, 1, 2000)]))
    kept = (tried.time_s <= limits.time_s) & (tried.power_w <= limits.power_w)

    best = optimise(problem, minimise, limits)

    if best.feasible:
        assert best.time_s <= limits.time_s * (1 + 1e-6)
        assert best.power_w <= limits.power_w * (1 + 1e-6)
        quantity = scaling.QUANTITIES[minimise]
        others = getattr(tried, quantity)[kept]
        assert not others.size or getattr(best, quantity) <= others.min() * (1 + 1e-6)
    else:
        assert not kept.any()


def test_each_limit_that_cannot_be_kept_beside_the_others_has_its_nearest_value():
    problem = Problem(ALGORITHMS["matmul"], JAKETOWN, 35000.0)
    limits = Limits(power_w=1e5, processor_power_w=140.0)

    refused = optimise(problem, "time", limits)

    assert not refused.feasible
    assert math.isnan(refused.time_s)
    for name, value in refused.nearest.items():
        assert value > limits.given()[name]
        assert optimise(problem, "time", dataclasses.replace(limits, **{name: value * 1.001})).feasible
        assert not optimise(problem, "time", dataclasses.replace(limits, **{name: value * 0.999})).feasible


def test_of_the_executions_of_least_energy_the_fastest_is_given_with_the_others_processors():
    problem = Problem(ALGORITHMS["matmul"], JAKETOWN, 35000.0)
    best = optimise(problem)
    fewest = evaluate(ALGORITHMS["matmul"], JAKETOWN, 35000.0, best.p_from, best.memory_words)

    assert best.p == best.p_to > 10 * best.p_from
    close(fewest.energy_j, best.energy_j)
    assert optimise(problem, "energy", Limits(power_w=1e5)).p == pytest.approx(1e5 / best.power_w * best.p, rel=1e-6)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: optimise(Problem(ALGORITHMS["lu"], JAKETOWN, 100.0), "speed"), "minimise must be one of energy, time"),
        (lambda: Limits(time_s=0.0), "a bound on time_s must be above 0"),
        (lambda: optimise(Problem(ALGORITHMS["lu"], JAKETOWN, 1e9, (1, 2))), "none of them is in 1 to 2"),
        (lambda: scaling.factor_for(-1, JAKETOWN, lambda _: 1.0), "a target must be above 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(ask, said):
    with pytest.raises(UsageError, match=said):
        ask()


def test_a_target_is_met_by_the_factor_and_out_of_reach_where_other_energies_remain():
    def efficiency(machine):
        return NBody(machine, 1e6).gflops_per_w

    reached = scaling.factor_for(75, SMALL, efficiency)
    one = scaling.factor_for(75, SMALL, efficiency, ["delta_e"])

    close(reached.factor, efficiency(SMALL) / 75)
    close(
        efficiency(
            SMALL.scaled(**dict.fromkeys(("gamma_e", "beta_e", "alpha_e", "delta_e", "epsilon_e"), reached.factor))
        ),
        75,
    )
    assert not one.feasible
    assert efficiency(SMALL) < one.gflops_per_w < 75
    assert scaling.factor_for(1e-3, SMALL, efficiency).factor == 1


def test_figure_4_shows_energies_only_between_its_two_lines_and_marks_what_keeps_a_limit():
    limit = Limits(energy_j=NBody(SMALL, 1e5).least_energy_j * 1.0001)
    found = scaling.figure_4(nbody(), SMALL, 1e5, limit)
    memory = found["memory_words"][:, None]
    outside = (memory < found["least_words"] * 0.99) | (memory > found["most_words"] * 1.01)

    assert np.isnan(found["energy_j"][outside]).all()
    assert np.isfinite(found["energy_j"]).any()
    within = found["within"]["energy_j"]
    assert 0 < within.sum() < np.isfinite(found["energy_j"]).sum()
    assert (found["energy_j"][within] <= limit.energy_j).all()
