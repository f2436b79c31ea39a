"""What is published stands here once, is physically possible, and is what the sources say."""

import csv
from pathlib import Path

import pytest

from benchmarks.published import HIGHEST_HZ, LOWEST_HZ, ratios
from benchmarks.simulator.simulated_machine import RESPONSES
from benchmarks.validation import known_responses
from benchmarks.validation.paper_recomputed import recomputed, shares

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "tprof_dvfs.csv"


@pytest.mark.parametrize("task", ratios(), ids=lambda one: one.task)
def test_no_task_slows_down_by_more_than_the_clock(task):
    assert 1.0 <= task.time_ratio <= HIGHEST_HZ / LOWEST_HZ


def test_every_use_of_the_responses_spans_the_papers_range():
    slowest = {one.task: one.time(LOWEST_HZ) for one in RESPONSES.values()}
    for curve in (*known_responses.papers(), *known_responses.papers(floor=True)):
        assert (curve.setting[0], curve.setting[-1]) == (LOWEST_HZ, HIGHEST_HZ)
        assert curve.time_s[0] == pytest.approx(slowest[curve.name.partition(": ")[2]])


@pytest.mark.skipif(not REFERENCE.is_file(), reason="the reference tables are not here")
def test_the_responses_are_those_of_the_reference():
    rows = list(csv.DictReader(REFERENCE.read_text("utf-8").splitlines()))

    found = [(one.benchmark, one.task, one.energy_ratio, one.time_ratio) for one in ratios()]
    expected = [(r["benchmark"], r["task"], float(r["energy_ratio"]), float(r["time_ratio"])) for r in rows]
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    assert [one[2:] for one in found] == [pytest.approx(one[2:]) for one in expected]


def of(rows, what):
    return {row.row: row for row in rows if row.what == what}


def test_cores_are_shared_by_what_equation_1_gives_them():
    assert shares([8.8, 9.9, 10.1], 25.0) == pytest.approx([8.8 / 28.8, 9.9 / 28.8, 10.1 / 28.8], rel=1e-6)


def test_slices_of_table_3_are_those_printed_within_rounding_but_for_one_pair():
    slices = of(recomputed()["table 3"], "slice")

    assert len(slices) == 10
    assert {name for name, row in slices.items() if not row.agrees} == {"2 atax", "2 jacobi1d"}
    assert max(abs(row.difference) for row in slices.values() if row.agrees) < 0.02
    assert slices["2 atax"].note == "the printed figures contradict each other"


def test_errors_that_lost_their_sign_and_errors_that_are_wrong_are_told_apart():
    found = recomputed()["table 3"]

    errors = [*of(found, "error of the slice").values(), *of(found, "error of the model").values()]

    assert [row.row for row in errors if row.note == "printed without its sign"] == ["1 atax", "3 atax", "4 bicg"]
    assert [row.row for row in errors if not row.agrees] == ["1 mm2", "5 covariance"]


def test_means_of_table_2_and_all_of_table_4_agree():
    found = recomputed()

    assert [row.agrees for row in found["table 2"] if row.row == "mean of 15"] == [True, True]
    assert all(row.agrees for row in found["table 4"])


def test_what_the_paper_does_not_print_is_not_computed():
    found = recomputed()

    kernels = [row for row in found["table 2"] if row.row != "mean of 15"]
    assert len(kernels) == 30
    assert all(row.printed is not None for row in kernels)
    assert all(row.computed is None and row.note for row in [*kernels, *of(found["table 1"], "coefficient").values()])
    assert found["figure 11"][-1].computed is None
