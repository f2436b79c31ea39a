"""Time and energy of each algorithm are what the paper's equations say, however they are written."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.analysis.theory import strong_scaling as scaling
from tprof.analysis.theory.strong_scaling import ALGORITHMS, OMEGA, Level, Machine, TwoLevelMachine, evaluate, nbody

from tprof.errors import UsageError

REFERENCE = Path(__file__).resolve().parents[3].parent / "shared/reference"
shared = pytest.mark.skipif(not REFERENCE.exists(), reason=f"no reference values in {REFERENCE}")

constant = st.floats(1e-12, 1e-3)
machines = st.builds(
    Machine, st.just("any"), constant, constant, constant, constant, constant, constant, constant, constant,
    st.just(1e15), st.floats(1, 1e6),
)  # fmt: skip
sizes, counts, places = st.floats(2, 1e6), st.floats(1, 1e5), st.floats(0, 1)


def cases():
    if not REFERENCE.exists():
        return []
    return json.loads((REFERENCE / "demmel_golden_open.json").read_text())["cases"]


def machine_of(case):
    q = case["params"]
    return Machine("golden", q["gt"], q["bt"], q["at"], q["ge"], q["be"], q["ae"], q["de"], q["ee"], 1e15, q["m"])


def close(value, expected, rel=1e-9):
    assert float(value) == pytest.approx(expected, rel=rel)


@shared
@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("name", ["mm", "strassen", "lu", "nbody", "fft_tree", "fft_naive"])
def test_time_and_energy_are_the_reference_values(case, name):
    golden, machine = case[name], machine_of(case)
    algorithm = (
        nbody(case["params"]["f"])
        if name == "nbody"
        else ALGORITHMS[{"mm": "matmul"}.get(name, name).replace("_", "-")]
    )
    # The transform's case is of n² points, as many as the matrices of the others have elements.
    n = case["n"] ** 2 if name.startswith("fft") else golden.get("n", case["n"])

    run = evaluate(algorithm, machine, n, case["p"], golden.get("M"))

    close(run.time_s, golden["TE"][0])
    close(run.energy_j, golden["TE"][1])


@shared
@pytest.mark.parametrize("case", cases())
def test_two_levels_and_the_range_of_perfect_scaling_are_the_reference_values(case):
    golden = case["two_level"]
    q = golden["params"]
    node = Level(q["btn"], q["ben"], q["den"], 1e15)
    core = Level(q["btl"], q["bel"], q["del"], 1e15)
    machine = TwoLevelMachine("golden", q["gt"], q["ge"], q["ee"], golden["pl"], node, core)
    algorithms = {"mm": scaling.TWO_LEVEL_ALGORITHMS["matmul-two-level"], "nbody": scaling.two_level_nbody(q["f"])}

    for name, algorithm in algorithms.items():
        run = scaling.evaluate_two_levels(algorithm, machine, case["n"], golden["pn"], golden["Mn"], golden["Ml"])
        close(run.time_s, golden[f"{name}_TE"][0])
        close(run.energy_j, golden[f"{name}_TE"][1])
    for found, expected in zip(
        ALGORITHMS["matmul"].processor_range(case["n"], case["mm"]["M"]), case["mm"]["p_range"], strict=True
    ):
        close(found, expected)


@given(st.sampled_from(list(ALGORITHMS)), machines, sizes, counts, st.floats(1, 1e9))
def test_energy_is_the_sum_of_its_five_parts_times_p_and_power_is_energy_over_time(name, machine, n, p, memory):
    run = evaluate(ALGORITHMS[name], machine, n, p, memory)
    flops, words, messages = ALGORITHMS[name].costs(n, p, memory, machine.message_words)
    time_s = machine.gamma_t * flops + machine.beta_t * words + machine.alpha_t * messages
    parts = (
        machine.gamma_e * flops, machine.beta_e * words, machine.alpha_e * messages,
        machine.delta_e * memory * time_s, machine.epsilon_e * time_s,
    )  # fmt: skip

    close(run.time_s, time_s)
    close(run.energy_j, p * math.fsum(parts))
    close(run.power_w, run.energy_j / run.time_s)
    close(run.processor_power_w * p, run.power_w)


def expanded(name, machine, n, p, memory):
    """Energy as (10), (11), (13), (14), (16) and the transform's formula write it."""
    g = machine.gamma_e + machine.gamma_t * machine.epsilon_e
    b = machine.word_j + machine.word_s * machine.epsilon_e
    d, w = machine.delta_e, OMEGA
    stored, sent = d * machine.gamma_t, d * machine.word_s
    log_p, log_n = math.log2(p), math.log2(n)
    return {
        "matmul": lambda: n**3 * (g + b / memory**0.5 + stored * memory + sent * memory**0.5),
        "matmul-3d": lambda: (
            g * n**3 + b * n**2 * p ** (1 / 3) + stored * n**5 * p ** (-2 / 3) + sent * n**4 * p ** (-1 / 3)
        ),
        "strassen": lambda: n**w * (g + b / memory ** (w / 2 - 1) + stored * memory + sent * memory ** (2 - w / 2)),
        "strassen-unlimited": lambda: (
            g * n**w + b * n**2 * p ** (1 - 2 / w)
            + stored * n ** (w + 2) * p ** (-2 / w) + sent * n**4 * p ** (1 - 4 / w)
        ),
        "nbody": lambda: n**2 * (20 * g + sent + b / memory + 20 * stored * memory),
        "fft-tree": lambda: (
            g * n * log_n + (machine.alpha_e + machine.epsilon_e * machine.alpha_t) * p * log_p
            + (machine.beta_e + machine.epsilon_e * machine.beta_t + d * machine.alpha_t) * n * log_p
            + stored * n**2 * log_n / p + d * machine.beta_t * n**2 * log_p / p
        ),
    }[name]()  # fmt: skip


@given(
    st.sampled_from(["matmul", "matmul-3d", "strassen", "strassen-unlimited", "nbody", "fft-tree"]),
    machines, sizes, counts, places,
)  # fmt: skip
def test_the_papers_expanded_energies_are_the_definition(name, machine, n, p, place):
    least, most = ALGORITHMS[name].memory_range(n, p)
    memory = float(least ** (1 - place) * most**place)

    close(evaluate(ALGORITHMS[name], machine, n, p, memory).energy_j, expanded(name, machine, n, p, memory))


@given(st.sampled_from(["matmul", "strassen", "nbody"]), machines, st.floats(10, 1e6), st.floats(2, 1e4))
def test_within_the_range_time_falls_as_processors_grow_and_energy_stays(name, machine, n, memory):
    fewest, most = ALGORITHMS[name].processor_range(n, memory)
    p = np.geomspace(max(fewest, 1), max(most, 1), 7)

    run = evaluate(ALGORITHMS[name], machine, n, p, memory)

    np.testing.assert_allclose(run.time_s * p, run.time_s[0] * p[0], rtol=1e-9)
    np.testing.assert_allclose(run.energy_j, run.energy_j[0], rtol=1e-9)


@given(st.sampled_from(list(ALGORITHMS)), machines, sizes, counts)
def test_all_shapes_broadcast_and_hold_what_single_values_give(name, machine, n, p):
    algorithm = ALGORITHMS[name]
    n_axis, p_axis = np.array([n, 2 * n])[:, None], np.array([p, 3 * p, 5 * p])

    table = evaluate(algorithm, machine, n_axis, p_axis)

    assert table.energy_j.shape == table.time_s.shape == table.p.shape == (2, 3)
    close(table.energy_j[1, 2], evaluate(algorithm, machine, 2 * n, 5 * p).energy_j, rel=1e-12)


@given(st.floats(1, 1e12), st.floats(1, 1e9), st.floats(1, 1e6), st.floats(0, 1e9))
def test_bounds_on_messages_are_those_on_words_over_their_length(flops, memory, message, io):
    close(
        scaling.sequential_messages(flops, memory, message, io) * message, scaling.sequential_words(flops, memory, io)
    )
    close(scaling.parallel_messages(flops, memory, message, io) * message, scaling.parallel_words(flops, memory, io))
    close(scaling.parallel_words(flops, memory), scaling.sequential_words(flops, memory))


@given(machines, st.floats(10, 1e6), counts, places)
def test_replicating_multiplication_sends_no_more_than_it_must(machine, n, p, place):
    least, most = ALGORITHMS["matmul"].memory_range(n, p)
    memory = float(least ** (1 - place) * most**place)

    sent = ALGORITHMS["matmul"].costs(n, p, memory, machine.message_words).words

    close(sent, scaling.parallel_words(n**3 / p, memory))
    close(sent, scaling.matmul_words(n, p, memory))


def test_figure_3_is_flat_up_to_the_end_of_perfect_scaling_and_rises_beyond():
    found = scaling.figure_3(1e4, 1e4)
    end = {"classical": (1e8 / 1e4) ** 1.5, "strassen": (1e8 / 1e4) ** (OMEGA / 2)}

    for name, p_end in end.items():
        flat = found[name][found["p"] < p_end]
        np.testing.assert_allclose(flat, flat[0], rtol=1e-12)
        assert np.all(np.diff(found[name][found["p"] > p_end]) > 0)


@shared
def test_table_2_is_recomputed_within_its_rounding():
    rows = list(csv.DictReader((REFERENCE / "demmel_table2.csv").open()))
    found = {processor.title: processor for processor in scaling.processors().values()}
    assert len(rows) == len(found) == 11

    for row in rows:
        name = row["processor"].replace(" 2GHz", " at 2 GHz").replace(" 0.8GHz", " at 0.8 GHz")
        processor = found[name]
        close(processor.peak_gflops, float(row["peak_recomputed"]))
        for column in ("gamma_t", "gamma_e", "gflops_per_w"):
            close(getattr(processor, column), float(row[f"{column}_printed"]), rel=2.5e-3)
            close(getattr(processor, column), float(row[column]), rel=1e-4)


@shared
def test_figures_6_and_7_are_the_reference_values():
    rows = list(csv.DictReader((REFERENCE / "demmel_fig6_fig7_recomputed.csv").open()))
    names = {"ge": "gamma_e", "be": "beta_e", "de": "delta_e", "all": "all"}

    for row in rows:
        found = scaling.generations(scaling.machines()["jaketown"], memory_words=float(row["M_words"]))
        expected = [float(row[f"gen{generation}_gflops_per_w"]) for generation in range(9)]
        np.testing.assert_allclose(found[names[row["scaled_param"]]], expected, rtol=5e-6)


def test_the_case_study_begins_at_2_57_gflops_per_watt_and_five_generations_make_82():
    found = scaling.generations(scaling.machines()["jaketown"])

    assert found["all"][0] == pytest.approx(2.57, abs=0.005)
    assert found["all"][5] == pytest.approx(82.2, abs=0.05)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((0, 1, 1), "n must be 1 or more"), ((1, 0.5, 1), "p must be 1 or more"),
     ((1, 1, 0), "memory_words must be above 0"), ((float("nan"), 1, 1), "got nan")],
)  # fmt: skip
def test_what_is_out_of_range_is_named(arguments, said):
    with pytest.raises(UsageError, match=said):
        evaluate(ALGORITHMS["matmul"], scaling.machines()["jaketown"], *arguments)


def test_a_run_is_possible_only_between_one_copy_and_as_many_as_help_and_within_the_machine():
    machine = dataclasses.replace(scaling.machines()["jaketown"], memory_words=100.0)
    run = evaluate(ALGORITHMS["matmul"], machine, 100, 100, np.array([99, 100, 101, 464, 465]))

    assert scaling.can_run(ALGORITHMS["matmul"], machine, run).tolist() == [False, True, False, False, False]
    larger = dataclasses.replace(machine, memory_words=1e9)
    assert scaling.can_run(ALGORITHMS["matmul"], larger, run).tolist() == [False, True, True, True, False]
