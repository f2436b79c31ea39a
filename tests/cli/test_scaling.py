"""`tprof scaling` prints, draws and refuses."""

import json

import pytest
from support.browser import opened
from support.command_line import tprof as run_tprof

ALL = (
    "matmul", "matmul-3d", "strassen", "strassen-unlimited", "lu", "nbody", "fft-tree", "fft-naive", "addition",
    "reduction", "prefix-sums", "product",
)  # fmt: skip
TWO_LEVELS = """
gamma_t = 1e-11
gamma_e = 1e-10
epsilon_e = 0.1
cores_per_node = 8
[node]
beta_t = 1e-9
beta_e = 1e-8
delta_e = 1e-9
memory_words = 1e9
[core]
beta_t = 1e-10
beta_e = 1e-9
delta_e = 1e-9
memory_words = 1e6
"""


def scaling(folder, *words):
    return run_tprof("scaling", *words, cwd=folder)


def said(folder, *words):
    done = scaling(folder, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", ALL)
def test_every_algorithm_alone_shows_its_best_execution_a_table_and_that_nothing_was_measured(tmp_path, name):
    text = said(tmp_path, name)

    assert "nothing was measured" in text
    assert "least energy" in text.lower()
    assert text.count("│") > 40
    assert "nan" not in text.lower().replace("n and", "")


def test_rows_say_whether_they_keep_the_bounds(tmp_path):
    rows = said(tmp_path, "matmul", "-n", "35000", "-p", "1024,2048", "--max-time", "0.1").splitlines()

    kept = {line.split("│")[1].strip(): line.split("│")[-2].strip() for line in rows if line.startswith("│")}
    assert kept == {"1,024": "no", "2,048": "yes"}


def test_matmul_alone_shows_that_more_processors_cost_no_more_energy(tmp_path):
    text = said(tmp_path, "matmul")

    assert "the same energy on 223.648 to 3344.62" in text
    assert text.count("perfect") >= 4
    found = json.loads(said(tmp_path, "matmul", "--json"))
    perfect = [row for row in found["sizes"][0]["rows"] if row["perfect"]]
    assert perfect[-1]["energy_j"] == pytest.approx(perfect[0]["energy_j"])
    assert perfect[-1]["time_s"] * perfect[-1]["p"] == pytest.approx(perfect[0]["time_s"] * perfect[0]["p"])


def test_a_bound_moves_the_best_execution_and_one_too_tight_is_answered_with_the_nearest(tmp_path):
    bound = json.loads(said(tmp_path, "matmul", "--minimise", "energy", "--max-time", "0.001", "--json"))["best"][0]
    tight = said(tmp_path, "matmul", "--minimise", "time", "--max-energy", "100")

    assert bound["time_s"] == pytest.approx(0.001)
    assert "Infeasible: no execution keeps to 100 J; the least that one can keep to is 16218.2 J." in tight


def test_addition_over_sizes_gives_the_papers_numbers_of_cores(tmp_path):
    found = json.loads(said(tmp_path, "addition", "-n", "1e7,1e8,1e9", "--minimise", "energy", "--json"))

    assert [best["cores"] for best in found["best"]] == [33, 101, 317]


def test_within_given_numbers_of_cores_the_best_is_one_of_them(tmp_path):
    found = json.loads(said(tmp_path, "addition", "-p", "1:64", "--minimise", "energy", "--json"))

    assert found["best"][0]["cores"] == 64


def test_numbers_of_processors_that_do_not_hold_the_data_are_left_out_and_said_so(tmp_path):
    words = ("matmul", "-n", "1e6", "-p", "32,64")
    text = " ".join(said(tmp_path, *words).split())

    assert "Fewer than 58.21 do not hold the data." in text
    rows = json.loads(said(tmp_path, *words, "--json"))["sizes"][0]["rows"]
    assert [row["p"] for row in rows] == [64]


def test_a_target_says_what_must_improve(tmp_path):
    text = said(tmp_path, "matmul", "-p", "2", "--target", "75")

    assert "75 GFLOPS/W" in text
    assert "not by beta_e" in text


def test_a_machine_of_two_levels_comes_from_a_file(tmp_path):
    (tmp_path / "two.toml").write_text(TWO_LEVELS)

    for name in ("matmul-two-level", "nbody-two-level"):
        rows = json.loads(said(tmp_path, name, "--machine", "two.toml", "-p", "2:16", "--json"))["sizes"][0]["rows"]
        assert [row["nodes"] for row in rows] == [2, 4, 8, 16]
    assert "Fewer than 1.225 do not hold the data." in said(
        tmp_path, "matmul-two-level", "--machine", "two.toml", "-p", "1,2"
    )


def test_the_list_names_every_algorithm_and_machine(tmp_path):
    text = said(tmp_path, "--list")

    assert all(f"  {name}: " in text for name in (*ALL, "matmul-two-level", "jaketown", "gtx590", "normalised"))


@pytest.mark.parametrize(
    "name",
    [
        "matmul",
        "addition",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("lu", "fft-tree", "prefix-sums")),
    ],
)
def test_the_page_draws_itself(tmp_path, name):
    page = tmp_path / "page.html"
    said(tmp_path, name, "--plot", str(page))

    dom = opened(page)

    assert 'data-drawn="yes"' in dom
    assert "CALCULATED" in dom
    assert dom.count("main-svg") >= 6


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name an algorithm: take matmul"),
        (["matmull"], "there is no algorithm 'matmull'"),
        (["matmul", "-n", "many"], "-n takes a number of 1 or more"),
        (["matmul", "-n", "9:3"], "-n takes a range from low to high"),
        (["matmul", "-n", "1:1e300"], "take at most 64"),
        (["matmul", "-n", "1e200"], "numbers that are too large"),
        (["matmul", "--machine", "jakestown"], "there is no machine 'jakestown'"),
        (["matmul", "--machine", "none.toml"], "No such file"),
        (["matmul", "--minimise", "speed"], "--minimise must be one of energy, time, edp"),
        (["matmul", "--max-time", "0"], "--max-time must be above 0"),
        (["matmul", "--memory", "1e15"], "--memory 1e+15 is more than jaketown has"),
        (["matmul", "--flops-per-pair", "3"], "--flops-per-pair is not for matmul"),
        (["matmul", "-n", "1e9", "-p", "1:4"], "none of them is in 1 to 4"),
        (["matmul-two-level"], "needs a machine of two levels"),
        (["addition", "--max-power", "3"], "--max-power is not for addition"),
        (["addition", "--minimise", "time", "--max-time", "3"], "--max-time does not go with --minimise time"),
        (["addition", "--machine", "jaketown"], "there is no multicore machine 'jaketown'"),
        (["matmul", "--plot", "nowhere/page.html"], "cannot write the report to nowhere/page.html"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_sentence(tmp_path, words, sentence):
    done = scaling(tmp_path, *words)

    assert done.returncode in {1, 2}
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
