"""Machines by name and from files; a file that is wrong is refused in one sentence."""

import json

import pytest
from tprof.analysis.theory import energy_scalability as cores
from tprof.analysis.theory import strong_scaling as scaling
from tprof.analysis.theory.strong_scaling.distributed_machine import constants

from tprof.errors import UsageError

LEVEL = {"beta_t": 1e-9, "beta_e": 2e-9, "delta_e": 3e-9, "memory_words": 1e9}


def toml(values):
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


@pytest.mark.parametrize("name", list(scaling.machines()))
def test_every_machine_says_where_its_constants_come_from(name):
    machine = scaling.find_machine(name)

    assert machine.name == name
    assert "table I" in machine.source


def test_constants_by_the_papers_rules_are_a_word_of_link_power_and_the_memory_modules_power():
    machine = scaling.machines()["jaketown-by-rule"]

    assert machine.beta_t == pytest.approx(4 / 25.6e9)
    assert machine.beta_e == pytest.approx(2.15 * machine.beta_t)
    assert machine.delta_e == pytest.approx(8 * 3.1 / machine.memory_words)


@pytest.mark.parametrize(("ending", "write"), [("toml", toml), ("json", json.dumps)])
def test_a_machine_is_read_from_a_file(tmp_path, ending, write):
    path = tmp_path / f"own.{ending}"
    values = constants(scaling.machines()["jaketown"])
    path.write_text(write(values | {"memory_words": 12345}))

    machine = scaling.read_machine(path)

    assert machine.name == "own"
    assert constants(machine) == values | {"memory_words": 12345.0}


def test_a_machine_of_two_levels_is_read_from_a_file(tmp_path):
    path = tmp_path / "two.json"
    top = {"gamma_t": 1e-11, "gamma_e": 1e-10, "epsilon_e": 0.5, "cores_per_node": 8}
    path.write_text(json.dumps({**top, "node": LEVEL, "core": {**LEVEL, "alpha_t": 1e-6, "message_words": 100}}))

    machine = scaling.find_machine(str(path))

    assert isinstance(machine, scaling.TwoLevelMachine)
    assert machine.core.word_s == pytest.approx(1e-9 + 1e-8)


def test_a_multicore_is_read_from_a_file(tmp_path):
    path = tmp_path / "cores.toml"
    path.write_text(
        "max_hz = 3e9\noperation_cycles = 1\naccess_cycles = 200\ndynamic_j = 1e-28\nleakage_j = 1e-10\naccess_j = 1e-8"
    )

    machine = cores.find_multicore(str(path))

    assert machine.max_hz == 3e9
    assert machine.sync_s == machine.access_s == pytest.approx(200 / 3e9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gamma_t = 1", "missing: beta_t, alpha_t"),
        ("gamma_t = ", "cannot read machine"),
        ("[node]\n[core]", r"missing in \[node\]: beta_t"),
        ("node = 3", "node must be a table"),
        (toml(constants(scaling.machines()["jaketown"])) + "\ngama_t = 1", "unknown: gama_t"),
        (toml(constants(scaling.machines()["jaketown"]) | {"alpha_t": "slow"}), "alpha_t must be a number, got 'slow'"),
        (
            toml(constants(scaling.machines()["jaketown"]) | {"alpha_t": -1}),
            "alpha_t must be a finite number of 0 or more",
        ),
        (toml(constants(scaling.machines()["jaketown"]) | {"memory_words": 0}), "memory_words must be above 0"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(tmp_path, text, said):
    path = tmp_path / "own.toml"
    path.write_text(text)

    with pytest.raises(UsageError, match=said) as refused:
        scaling.read_machine(path)

    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("find", [scaling.find_machine, cores.find_multicore])
def test_a_name_that_is_none_and_a_file_that_is_not_there_are_refused(tmp_path, find):
    with pytest.raises(UsageError, match=r"there is no .*machine 'jakestown'"):
        find("jakestown")
    with pytest.raises(UsageError, match="No such file"):
        find(str(tmp_path / "none.json"))


def test_only_constants_that_there_are_can_be_scaled():
    with pytest.raises(UsageError, match="no constant 'gama_e'"):
        scaling.machines()["jaketown"].scaled(gama_e=0.5)
