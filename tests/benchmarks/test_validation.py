"""A virtual recording holds what was drawn, and `validate` reports every case, model and table."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.browser import opened
from tprof.analysis import TABLE_1

import tprof
from benchmarks import published
from benchmarks.simulator import ICE_LAKE, STRESS, Law, Mix, Package, Run, random_mix, stated, truth_of, write
from benchmarks.validation import CASES, chosen, processes
from benchmarks.validation import validate as validation
from benchmarks.validation.case_errors import population_j, run_case
from benchmarks.validation.cases import WITH_COUNTERS
from benchmarks.validation.kernel_pairs import Phases, calibrate, predicted_w, table_3, table_4
from benchmarks.validation.targets import target_figures
from benchmarks.validation.validation_text import tables, write_page
from tprof.errors import UsageError

TASK = stated("work", 1e-3, 6.0)
STRAIGHT = Law(gating=0.0, contention=0.0, scatter=0.0, leak=0.0)
TINY = validation.Extent(seeds=1, duration_s=0.6, coverage_seeds=2, coverage_s=0.4, machine=False)
"""Whose simulations take less time than to start processes for them."""


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "LEAST", 100)
        return validation.measure(TINY, cases=chosen(("steady", "kernels")))


def recorded(path, *, sensor=ICE_LAKE, counters=True):
    run = Run(Package(), [TASK.kernel], random_mix((TASK,), Mix(cores=2, duration_s=0.5), seed=2), 1.0)
    return run, write(path, [TASK.name], run, sensor=sensor, seed=2, counters=counters)


def test_the_trace_holds_what_the_package_drew_and_calls_it_simulated(tmp_path):
    _, truth = recorded(tmp_path / "t.tprof")

    profile = tprof.load(tmp_path / "t.tprof").profile(model="cputime")

    assert profile.info["quality"] == "simulated"
    assert sorted(profile.tasks["instance"]) == truth.instance.tolist()
    assert profile.measured_j == pytest.approx(10.0 + truth.dynamic_j.sum(), rel=0.01)
    # The idle time before the first task shows 10 W of static power.
    assert profile.tasks["static_j"].sum() == pytest.approx(5.0, rel=0.01)


def test_a_register_that_wraps_loses_no_joule(tmp_path):
    recorded(tmp_path / "once.tprof", sensor=replace(ICE_LAKE, left_j=7.0))
    recorded(tmp_path / "never.tprof", sensor=replace(ICE_LAKE, left_j=1000.0))

    once, never = (tprof.load(tmp_path / f"{name}.tprof") for name in ("once", "never"))

    value = once.readings["package-0"].value.astype(np.int64)
    assert (np.diff(value) < 0).sum() == 1
    assert once.readings["package-0"].modulus == 2**32
    assert once.readings["package-0"].unit == ICE_LAKE.unit_j
    assert once.profile().measured_j == never.profile().measured_j


def test_counters_are_there_only_where_the_recorder_had_them(tmp_path):
    run, _ = recorded(tmp_path / "with.tprof")
    recorded(tmp_path / "without.tprof", counters=False)

    counted, plain = (tprof.load(tmp_path / f"{name}.tprof").profile(model="cputime") for name in ("with", "without"))

    assert "instructions" not in plain.tasks
    ipc = counted.tasks["instructions"] / counted.tasks["cycles"]
    assert ipc.to_numpy() == pytest.approx(1.0, rel=1e-4)
    expected = 3.3e9 * sum(float((core.end_s - core.begin_s).sum()) for core in run.cores)
    assert counted.tasks["cycles"].sum() == pytest.approx(expected, rel=1e-6)


def test_the_truth_of_an_interval_is_the_mean_of_all_that_could_have_run():
    case = replace(CASES[0], tasks=(TASK,), mix=Mix(cores=1, duration_s=0.3))
    run = Run(case.package, [TASK.kernel], random_mix(case.tasks, case.mix, seed=1), 0.7)

    truth = truth_of(run, np.arange(0.0, 0.7, 1e-3))

    assert population_j(case, truth, 0) == pytest.approx(1e-3 * (6.0 + 10.0), rel=1e-3)
    assert (truth.dynamic_j + truth.static_j).mean() != pytest.approx(1e-3 * 16.0, rel=1e-4)


def test_a_law_that_does_not_bend_is_calibrated_to_its_own_coefficients():
    model, goodness = calibrate(Package(STRAIGHT))

    assert (model.a, model.b, model.c) == pytest.approx((TABLE_1.a, TABLE_1.b, TABLE_1.c), rel=0.1)
    assert (model.c1, model.c2) == pytest.approx((TABLE_1.c1, TABLE_1.c2), rel=0.02)
    assert goodness["worst_error"] < 0.005


def test_phases_are_observed_with_the_cores_and_counters_that_ran(tmp_path):
    package = Package(STRAIGHT)
    seen = Phases(STRESS[:2], busy=(1, 3), phase_s=0.1).observed(tmp_path / "p.tprof", package, seed=0)

    assert seen.active_cores.tolist() == [1, 3, 1, 3]
    assert seen.ipc == pytest.approx(np.array([1, 3, 0, 0]) * STRESS[0].ipc + np.array([0, 0, 1, 3]) * STRESS[1].ipc)
    assert seen.hz == pytest.approx(np.full(4, 3.3e9))
    assert predicted_w(TABLE_1, seen) == pytest.approx(seen.power_w, rel=0.01)


def test_pairs_under_a_law_that_does_not_bend_are_shared_as_they_drew():
    rows = table_3(Package(STRAIGHT), TABLE_1, seed=0)

    assert [row["pair"] for row in rows] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert max(abs(row["slice_error"]) for row in rows) < 0.002
    assert max(abs(row["model_error"]) for row in rows) < 0.001


def test_at_another_frequency_shares_stand_where_the_model_alone_does_not():
    rows = table_4(Package(STRAIGHT), TABLE_1, seed=0)

    assert max(abs(row["share_error"]) for row in rows) < 0.04
    assert min(row["model_error"] for row in rows) > 1.5


def test_published_tables_are_whole_and_their_signs_restored():
    two, three, four = published.table_2(), published.table_3(), published.table_4()

    assert np.mean([row["single_core_error"] for row in two]) == pytest.approx(0.04673, abs=1e-5)
    assert np.mean([row["quad_core_error"] for row in two]) == pytest.approx(0.07126, abs=1e-5)
    assert np.mean(np.abs([row["slice_error"] for row in three])) == pytest.approx(0.0438, abs=1e-3)
    assert three[0]["slice_error"] == pytest.approx(-0.0794, abs=1e-4)
    assert max(row["slice_error"] for row in four) == pytest.approx(0.1635, abs=1e-4)


def test_validate_reports_each_case_task_and_model_in_plain_values(result):
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert set(result) == {"effort", "processor", "calibration", "rows", "coverage", "tables", "figures"}
    models = {key: {row["model"] for row in result["rows"] if row["key"] == key} for key in ("steady", "kernels")}
    assert models == {"steady": {"fitted", "cputime", "wall time"}, "kernels": set(WITH_COUNTERS)}
    assert len(result["rows"]) == 3 * 3 + 5 * 7
    assert [row["key"] for row in result["coverage"]] == ["steady"]
    assert {"2", "3", "3 on four cores", "4", "published"} <= set(result["tables"])


def test_figures_are_met_where_they_are_within_their_targets(result):
    figures = {figure["name"]: figure for figure in result["figures"]}

    assert figures["the thread that polls the sensor"]["met"] is None
    assert all(
        one["met"] == (one["value"] <= one["target"])
        for one in figures.values()
        if one["unit"] == "part" and "intervals" not in one["name"]
    )
    assert figures["pairs of kernels, calibrated (table 3), worst error"]["target"] == 0.06


@pytest.mark.parametrize(("coverage", "met"), [(0.92, False), (0.93, True), (0.97, True), (0.99, False)])
def test_intervals_that_hold_too_often_are_as_wrong_as_those_that_hold_too_seldom(result, coverage, met):
    row = {"key": "steady", "coverage": coverage, "coverage_error": 0.01, "intervals": 600, "runs": 200}

    found = target_figures([], [row], result["tables"], measured=False)
    of_few = target_figures([], [row | {"runs": 4}], result["tables"], measured=False)

    assert found[0]["met"] is met
    assert of_few[0]["met"] is None


def test_everything_that_was_found_is_printed(result):
    shown = list(tables(result))

    assert [table.title.split(":")[0] for table in shown][:3] == ["Error", "Error", "Coverage"]
    assert all(len(row) == len(table.headings) for table in shown for row in table.rows)
    assert shown[-1].title == "Figures"


def test_the_page_is_one_file_that_needs_no_network(result, tmp_path):
    write_page(result, tmp_path / "page.html")

    text = (tmp_path / "page.html").read_text("utf-8")
    assert "default-src 'none'" in text
    assert "<script src" not in text


def test_a_browser_draws_errors_coverage_and_the_papers_tables(result, tmp_path):
    write_page(result, tmp_path / "page.html")

    drawn = opened(tmp_path / "page.html")

    assert 'data-drawn="yes"' in drawn
    figures = ("errors-0", "errors-1", "coverage-0", "kernels-0", "kernels-1", "pairs-0", "pairs-1")
    assert all(f'<div class="plot js-plotly-plot" id="{name}"' in drawn for name in figures)
    assert drawn.count('<table class="sheet">') == len(list(tables(result)))


def test_one_seed_gives_one_result():
    case = chosen(("bursts",))[0]

    first, again = (run_case(case, seed=3, duration_s=0.4)[0] for _ in range(2))

    assert first.mean_error.tolist() == again.mean_error.tolist()


def test_results_of_many_processes_come_in_the_order_of_their_jobs():
    told = []

    assert processes.run_all(divmod, [(n, 2) for n in range(6)], lambda *at: told.append(at)) == [
        divmod(n, 2) for n in range(6)
    ]
    assert told[-1] == (6, 6)


def test_an_unknown_case_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r'case must be one of steady, .*; got "stedy"'):
        chosen(("stedy",))
