"""What is published stands here once, is physically possible, and is what the sources say."""

import csv
from pathlib import Path

import pytest
from tprof.benchmarks.published import HIGHEST_HZ, LOWEST_HZ, ratios
from tprof.benchmarks.simulator.simulated_machine import RESPONSES
from tprof.benchmarks.validation import known_responses

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
