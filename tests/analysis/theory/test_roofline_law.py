"""The roofline of energy says what its equations say, and what the papers' tables lead to."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.analysis.theory.roofline import Machine
from tprof.analysis.theory.roofline_machines import MACHINES, find_machine, read_machine, write_machine
from tprof.analysis.theory.roofline_tradeoffs import (
    capped_energy_j,
    capped_flops_per_s,
    capped_power_w,
    capped_time_s,
    most_work,
    speedup,
    trade,
)

from tprof.errors import UsageError

DERIVED = Path(__file__).resolve().parents[3].parent / "shared/reference/roofline_derived.csv"
DEVICES = {
    "GTX580-sp": ("gtx580", "single"),
    "GTX580-dp": ("gtx580", "double"),
    "i7-950-sp": ("i7-950", "single"),
    "i7-950-dp": ("i7-950", "double"),
    "Fermi-Keckler-dp(pi0=0)": ("fermi", "double"),
}
DERIVED_NAMES = {
    "tau_flop_ps": ("tau_flop_s", 1e12),
    "tau_mem_ps": ("tau_mem_s", 1e12),
    "B_tau": ("time_balance", 1),
    "B_eps": ("energy_balance", 1),
    "eps0_pJ": ("eps0_j", 1e12),
    "eps_flop_hat_pJ": ("eps_flop_hat_j", 1e12),
    "eta_flop": ("eta_flop", 1),
    "pi_flop_W": ("pi_flop_w", 1),
    "I_half_energy": ("half_efficiency", 1),
    "peak_GFLOP_per_J": ("most_flops_per_j", 1e-9),
    "P_max_W": ("most_power_w", 1),
    "P_compute_limit_W": ("compute_power_w", 1),
    "P_mem_limit_W": ("memory_power_w", 1),
    "gap": ("balance_gap", 1),
}


def span(low, high):
    return st.floats(np.log(low), np.log(high)).map(np.exp)


machines = st.builds(
    lambda tau, bandwidth, flop, byte, constant: Machine(
        "any", bandwidth, None, tau, byte, None, flop, constant, constant + 50.0
    ),
    span(1e-13, 1e-9), span(1e-12, 1e-9), span(1e-12, 1e-9), span(1e-12, 1e-8), st.just(0.0) | span(1e-2, 1e3),
)  # fmt: skip
intensities = span(2.0**-8, 2.0**12)


@pytest.mark.skipif(not DERIVED.exists(), reason="the papers' reference values are not beside this checkout")
@pytest.mark.parametrize("device", DEVICES)
def test_balances_and_limits_are_those_of_the_reference(device):
    with DERIVED.open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["device"] == device)
    name, precision = DEVICES[device]

    machine = MACHINES[name].at(precision)

    found = {key: getattr(machine, name) * factor for key, (name, factor) in DERIVED_NAMES.items()}
    assert found == pytest.approx({key: float(row[key]) for key in DERIVED_NAMES}, rel=1e-6, abs=1e-12)


def test_figures_that_the_paper_prints():
    """Figure 2 and section V-B; its 387 W are 378.3 W by its own tables."""
    fermi, gtx = MACHINES["fermi"], MACHINES["gtx580"].at("single")

    assert fermi.time_balance == pytest.approx(3.6, abs=0.05)
    assert fermi.half_efficiency == pytest.approx(14.4)
    assert fermi.most_flops_per_j == pytest.approx(40e9)
    assert fermi.most_power_w / fermi.pi_flop_w == pytest.approx(5.0, abs=0.05)
    assert gtx.most_power_w == pytest.approx(378.33, abs=0.01)
    assert gtx.cap_w == 244


def test_race_to_halt_is_the_papers_verdict():
    verdicts = {(name, one): MACHINES[name].at(one).race_to_halt for name, one in list(DEVICES.values())}

    assert verdicts.pop(("fermi", "double")) is False
    assert all(verdicts.values())
    # Without constant power the double-precision GPU turns around; the CPU does not.
    assert not replace(MACHINES["gtx580"], pi0_w=0.0).race_to_halt
    assert replace(MACHINES["i7-950"], pi0_w=0.0).race_to_halt


@given(machines, intensities)
def test_power_is_energy_over_time_and_equals_equation_7(machine, at):
    assert machine.power_w(at, 1.0) == pytest.approx(machine.energy_j(at, 1.0) / machine.time_s(at, 1.0))
    assert machine.power_w(at, 1.0) == pytest.approx(machine.power_at_w(at), rel=1e-9)


@given(machines, intensities)
def test_arch_line_and_roofline_are_work_over_energy_and_time(machine, at):
    assert machine.flops_per_j(at) == pytest.approx(at / machine.energy_j(at, 1.0), rel=1e-9)
    assert machine.flops_per_s(at) == pytest.approx(at / machine.time_s(at, 1.0), rel=1e-9)


@given(machines)
def test_balance_points_are_where_both_sides_cost_the_same(machine):
    at = machine.time_balance
    assert at * machine.tau_flop_s == pytest.approx(machine.tau_mem_s)
    assert machine.energy_balance * machine.eps_flop_j == pytest.approx(machine.eps_byte_j)
    half = machine.half_efficiency
    assert machine.effective_balance(half) == pytest.approx(half, rel=1e-9)
    assert machine.flops_per_j(half) == pytest.approx(machine.most_flops_per_j / 2, rel=1e-9)


@given(machines, intensities)
def test_no_intensity_draws_more_than_the_time_balance(machine, at):
    assert machine.power_at_w(at) <= machine.most_power_w * (1 + 1e-12)
    assert machine.power_at_w(machine.time_balance) == pytest.approx(machine.most_power_w)


@given(machines, intensities, span(1e-2, 1e4), span(1.0, 1e3))
def test_a_lower_cap_is_never_faster_and_never_exceeded(machine, at, left, factor):
    low, high = machine.pi0_w + left, machine.pi0_w + left * factor

    assert capped_time_s(machine, at, 1.0, low) >= capped_time_s(machine, at, 1.0, high) >= machine.time_s(at, 1.0)
    assert capped_power_w(machine, at, low) <= low * (1 + 1e-9)
    assert capped_energy_j(machine, at, 1.0, low) >= machine.energy_j(at, 1.0) * (1 - 1e-12)


@given(machines, intensities)
def test_a_cap_above_what_is_drawn_changes_nothing(machine, at):
    cap = machine.most_power_w * (1 + 1e-9)

    assert capped_flops_per_s(machine, at, cap) == pytest.approx(machine.flops_per_s(at), rel=1e-6)
    assert capped_power_w(machine, at, cap) == pytest.approx(machine.power_at_w(at), rel=1e-6)


@given(machines, intensities, span(1.01, 50.0), span(1.01, 50.0))
def test_equation_10_says_when_a_trade_is_a_greenup_without_constant_power(machine, at, work, traffic):
    free = replace(machine, pi0_w=0.0)
    limit = float(most_work(free, at, traffic=traffic))

    assert trade(free, at, work=limit * 0.999, traffic=traffic).greenup > 1
    assert trade(free, at, work=limit * 1.001, traffic=traffic).greenup < 1
    expected = max(1, free.time_balance / at) / max(work, free.time_balance / (traffic * at))
    assert trade(free, at, work=work, traffic=traffic).speedup == pytest.approx(expected)
    assert speedup(free, at, work=work, traffic=traffic) == pytest.approx(expected)


def test_everything_broadcasts():
    gtx, at = MACHINES["gtx580"], np.geomspace(0.1, 100, 5)

    assert gtx.energy_j(at[:, None], np.ones(3)).shape == (5, 3)
    assert trade(gtx, at, work=np.ones((4, 1)), traffic=2.0).greenup.shape == (4, 5)
    assert capped_flops_per_s(gtx, at, np.array([[150.0], [244.0]])).shape == (2, 5)


def test_cache_traffic_costs_what_its_level_costs():
    gtx = MACHINES["gtx580"]

    more_j = gtx.energy_j(1.0, 1.0, {"L1/L2": np.array([0.0, 2.0])}) - gtx.energy_j(1.0, 1.0)

    assert more_j == pytest.approx([0.0, 2 * 187e-12])
    with pytest.raises(UsageError, match=r"gtx580 has no cache 'L3': it has L1/L2"):
        gtx.energy_j(1.0, 1.0, {"L3": 1.0})


def test_a_machine_without_energies_has_times_and_says_so():
    machine = Machine("plain", 1e-11, None, 1e-12)

    assert machine.time_s(1.0, 1.0) == 1e-11
    assert not machine.has_energy
    with pytest.raises(UsageError, match="energies of plain are not known in double precision"):
        machine.energy_j(1.0, 1.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tau_mem_s": 0.0}, "tau_mem_s must be a number above 0, got 0.0"),
        ({"pi0_w": -1.0}, "pi0_w must be a number of 0 or more, got -1.0"),
        ({"tau_double_s": float("nan")}, "tau_double_s must be a number above 0"),
        ({"precision": "half"}, 'precision must be "single" or "double"'),
        ({"precision": "single"}, r"seconds a flop in single precision \(tau_single_s\) are not known"),
    ],
)
def test_what_is_no_machine_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        Machine(**{"name": "m", "tau_mem_s": 1e-11, "tau_double_s": 1e-12} | changes)


def test_a_cap_that_constant_power_reaches_is_refused():
    with pytest.raises(UsageError, match="a cap must be above the constant power of gtx580, 122 W"):
        capped_time_s(MACHINES["gtx580"], 1.0, 1.0, 122.0)
    with pytest.raises(UsageError, match="fermi has no power cap"):
        capped_time_s(MACHINES["fermi"], 1.0, 1.0)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_a_machine_comes_back_from_its_file(tmp_path, name):
    write_machine(MACHINES[name], tmp_path / "m.json", {"runs": 3})

    assert read_machine(tmp_path / "m.json") == MACHINES[name]
    assert find_machine("m", (tmp_path / "m.json",)) == MACHINES[name]


def test_a_machine_of_a_toml_file(tmp_path):
    (tmp_path / "laptop.toml").write_text("tau_mem_s = 2e-11\ntau_single_s = 1e-12\n[caches]\nL2 = 2e-11\n")

    machine = read_machine(tmp_path / "laptop.toml")

    assert (machine.name, machine.precision, machine.caches) == ("laptop", "single", (("L2", 2e-11),))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("m.json", "{", "it is no JSON"),
        ("m.toml", "a = = 1", "it is no TOML"),
        ("m.json", "[1]", "must hold an object of names and numbers"),
        ("m.json", '{"tau_mem_s": 1e-11, "speed": 3}', "unknown key 'speed': keys are"),
        ("m.json", '{"tau_double_s": 1e-12}', "lacks tau_mem_s, seconds a byte"),
        ("m.json", '{"tau_mem_s": "fast", "tau_double_s": 1}', "tau_mem_s must be a number above 0, got 'fast'"),
        ("m.json", '{"tau_mem_s": 1, "tau_double_s": 1, "caches": 3}', "caches must be an object of levels"),
        ("m.yaml", "", r"must be a file that ends in .json or .toml"),
    ],
)
def test_a_file_that_holds_no_machine_is_refused_in_one_sentence(tmp_path, file, text, said):
    (tmp_path / file).write_text(text, encoding="utf-8")

    with pytest.raises(UsageError, match=said) as caught:
        read_machine(tmp_path / file)

    assert "\n" not in str(caught.value)


def test_unknown_names_and_files_are_refused_with_those_there_are(tmp_path):
    with pytest.raises(UsageError, match=r"one of gtx580, i7-950, fermi, or a file .*; got 'gtx'"):
        find_machine("gtx")
    with pytest.raises(UsageError, match=r"cannot read machine .*no.json: No such file"):
        read_machine(tmp_path / "no.json")
