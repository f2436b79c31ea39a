"""A fit finds again the machine whose runs it is given, and says what it cannot know."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.theory.roofline_fit import Runs, fit_machine
from tprof.analysis.theory.roofline_machines import MACHINES

from tprof.errors import UsageError

DEGREES = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, 256])


def simulated(machine, *, noise=0.0, seed=0, degrees=DEGREES, precisions=("single", "double"), energy=True):
    """Runs of 1e9 numbers each, as the machine would take them; what disturbs a run only slows it."""
    generator = np.random.default_rng(seed)
    parts = []
    for precision in precisions:
        double = precision == "double"
        flops, traffic = 1e9 * (2 * degrees + 1.0), np.full(len(degrees), 1e9 * (8 if double else 4))
        view = machine.at(precision)
        time_s = view.time_s(flops, traffic)
        energy_j = view.energy_j(flops, traffic) * (1 + noise * generator.standard_normal(len(degrees)))
        if not energy:
            energy_j = np.full(len(degrees), np.nan)
        parts.append((flops, traffic, time_s, energy_j, np.full(len(degrees), double)))
    return Runs(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@pytest.mark.parametrize("name", ["gtx580", "i7-950"])
def test_runs_without_noise_give_the_machine_back(name):
    machine = MACHINES[name]

    fitted = fit_machine(simulated(machine), name)

    for field in ("tau_mem_s", "tau_single_s", "tau_double_s", "eps_mem_j", "eps_single_j", "eps_double_j", "pi0_w"):
        assert getattr(fitted.machine, field) == pytest.approx(getattr(machine, field), rel=1e-6)
    added = next(one.value for one in fitted.estimates if one.name == "delta_double_j")
    assert added == pytest.approx(machine.eps_double_j - machine.eps_single_j)
    assert fitted.r2 == pytest.approx(1.0)
    assert fitted.energy_error < 1e-6


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    machine, held = MACHINES["i7-950"], []
    for seed in range(120):
        fitted = fit_machine(simulated(machine, noise=0.01, seed=seed))
        by_name = {one.name: one for one in fitted.estimates}
        held += [
            by_name[name].low <= getattr(machine, name) <= by_name[name].high
            for name in ("eps_single_j", "eps_double_j", "eps_mem_j", "pi0_w")
        ]

    assert 0.9 <= np.mean(held) <= 0.99


@given(st.integers(0, 1000), st.floats(0.5, 2.0))
@examples(30)
def test_runs_that_are_slowed_leave_times_near_the_truth(seed, level):
    """Every fourth run takes half as long again, and all runs some percent more."""
    machine, generator = MACHINES["i7-950"], np.random.default_rng(seed)
    runs = simulated(machine, energy=False)
    slowed = runs.time_s * (1 + 0.02 * level * generator.random(len(runs)))
    slowed[::4] *= 1.5

    fitted = fit_machine(Runs(runs.flops, runs.traffic_bytes, slowed, runs.energy_j, runs.double))

    assert fitted.machine.tau_mem_s == pytest.approx(machine.tau_mem_s, rel=0.08)
    assert fitted.machine.tau_single_s == pytest.approx(machine.tau_single_s, rel=0.08)


def test_runs_without_energy_give_times_only():
    fitted = fit_machine(simulated(MACHINES["gtx580"], energy=False))

    assert not fitted.machine.has_energy
    assert (fitted.energy_error, fitted.r2, fitted.energy_runs) == (None, None, 0)
    assert {one.name for one in fitted.estimates} == {"tau_mem_s", "tau_single_s", "tau_double_s"}


def test_one_precision_alone_is_a_machine_of_that_precision():
    fitted = fit_machine(simulated(MACHINES["gtx580"], precisions=("single",)))

    assert fitted.machine.precisions == ("single",)
    assert fitted.machine.eps_flop_j == pytest.approx(99.7e-12)
    assert "delta_double_j" not in {one.name for one in fitted.estimates}


def test_too_few_energies_are_said_and_not_fitted():
    runs = simulated(MACHINES["gtx580"])
    runs.energy_j[5:] = np.nan

    fitted = fit_machine(runs)

    assert not fitted.machine.has_energy
    assert fitted.warnings == ("only 5 runs have an energy, and 6 are needed: times only",)


def test_coefficients_that_noise_hides_are_named():
    fitted = fit_machine(simulated(MACHINES["gtx580"], noise=0.5, seed=3))

    assert any("may be 0: its interval" in text or "came out as 0" in text for text in fitted.warnings)
    assert all(one.value >= 0 for one in fitted.estimates if one.name != "delta_double_j")


@pytest.mark.parametrize("degrees", [[64, 128], [0], [256]])
def test_intensities_on_one_side_of_the_balance_are_refused(degrees):
    with pytest.raises(UsageError, match="the runs do not reach both sides of the balance point: add some of lower"):
        fit_machine(simulated(MACHINES["gtx580"], degrees=np.array(degrees), precisions=("single",)))


def test_a_run_without_time_is_refused():
    runs = simulated(MACHINES["gtx580"])
    runs.time_s[3] = 0.0

    with pytest.raises(UsageError, match="time_s are all above 0"):
        fit_machine(runs)
