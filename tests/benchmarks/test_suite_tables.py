"""The suite's tables hold numbers that can be checked by hand, and the paper's as its text corrects them."""

import math

import numpy as np
import pytest
from tprof.benchmarks.measured_figures import NONE
from tprof.benchmarks.programs.outcome import Outcome
from tprof.benchmarks.repeats import Runs
from tprof.benchmarks.suite import SUITE, Suite, members, tables
from tprof.benchmarks.suite.paper_programs import PAPER
from tprof.benchmarks.suite.suite_tables import pooled, table_5, table_6

import tprof
from tprof.errors import UsageError

MACHINE = {
    "processor": "a processor", "cores": 1, "cpus": 1, "usable_cpus": 1, "virtual": None, "kernel": "6",
    "python": "3", "free_threaded": False, "load_1_min": 0.0,
}  # fmt: skip
# One thread, so that an instance takes all that was drawn from its start to its end.
SORTS = [("sort", 1, 1.0), ("sort", 2, 3.0), ("sort", 3, 2.0), ("merge", 1, 4.0), ("merge", 1, 4.0)]


def profile(path, instances, quality="measured"):
    """Write a trace of (task, seconds, joules) one after the other, with a reading at each end."""
    names = list(dict.fromkeys(name for name, _, _ in instances))
    t_ns = np.cumsum([0, *(seconds * 10**9 for _, seconds, _ in instances)])
    thread = {
        "t_ns": t_ns,
        "instance": [*range(1, len(instances) + 1), 0],
        "task": [*(names.index(name) for name, _, _ in instances), -1],
        "cpu": np.zeros(len(t_ns), int),
        "cpu_ns": t_ns,
    }
    joules = np.cumsum([0.0, *(joules for _, _, joules in instances)])
    tprof.write_trace(path, tasks=names, threads=[thread], energy={"package-0": (t_ns, joules)}, quality=quality)
    return tprof.load(path).profile()


def runs(program, *profiles, durations=None, **facts):
    outcomes = [
        Outcome(program, "paper", 1, {}, duration_s, ("by hand",), facts)
        for duration_s in durations or range(1, len(profiles) + 1)
    ]
    return Runs(program, tuple(outcomes), profiles)


def text(suite, title):
    return next(table for table in tables(Suite(suite, MACHINE)) if table.title.startswith(title))


def test_table_6_gives_mean_energy_and_correlation_beside_the_papers(tmp_path):
    (merge, sort) = sorted(table_6([runs("multisort", profile(tmp_path / "a.tprof", SORTS))]), key=lambda r: r["task"])

    assert (sort["instances"], sort["energy_mean_j"]) == (3, pytest.approx(2.0))
    assert sort["energy_time_corr"] == pytest.approx(0.5), "of times 1, 2, 3 and energies 1, 3, 2"
    assert sort["energy_mean_low_j"] <= 2.0 <= sort["energy_mean_high_j"]
    assert (sort["paper_energy_mean_j"], sort["paper_energy_time_corr"]) == (0.1734, 0.579)
    assert merge["energy_mean_j"] == pytest.approx(4.0)
    assert math.isnan(merge["energy_time_corr"]), "two instances that are the same"
    assert merge["paper_energy_mean_j"] == 0.0513
    assert {merge["quality"], sort["quality"]} == {"measured"}


def test_repeats_pool_their_instances_and_keep_the_spread_of_their_means(tmp_path):
    first = profile(tmp_path / "a.tprof", [("ferret", 1, 1.0), ("ferret", 2, 3.0)])
    second = profile(tmp_path / "b.tprof", [("ferret", 3, 2.0), ("ferret", 2, 4.0)])

    (row,) = table_6([runs("ferret", first, second)])

    assert (row["instances"], row["energy_mean_j"]) == (4, pytest.approx(2.5))
    assert (row["run_mean_low_j"], row["run_mean_high_j"]) == (pytest.approx(2.0), pytest.approx(3.0))
    assert row["energy_time_corr"] == pytest.approx(np.corrcoef([1, 2, 3, 2], [1, 3, 2, 4])[0, 1])


def test_an_interval_does_not_shrink_when_the_same_run_is_repeated(tmp_path):
    once = profile(tmp_path / "a.tprof", SORTS)

    alone, together = pooled([once]), pooled([once, once, once])

    for column in ("energy_mean_low_j", "energy_mean_high_j", "energy_mean_j", "energy_time_corr", "resolved"):
        assert together[column].to_dict() == pytest.approx(alone[column].to_dict(), nan_ok=True)


def test_table_5_counts_what_was_recorded_beside_the_papers(tmp_path):
    ours = runs("multisort", profile(tmp_path / "a.tprof", SORTS), footprint_bytes=2_048_000)

    assert table_5([ours]) == [
        {
            "benchmark": "multisort",
            "footprint_bytes": 2_048_000,
            "tasks": 2,
            "instances": 5,
            "paper_footprint_mb": 12.3,
            "paper_tasks": 2,
            "paper_instances": 256,
        }
    ]
    assert text((ours,), "Table 5").rows == (("multisort", "2.0", "2", "5", "12.3", "2", "256"),)


def test_a_program_that_is_not_the_papers_has_dashes_in_its_columns(tmp_path):
    ours = runs("mine", profile(tmp_path / "a.tprof", [("work", 1, 1.0)] * 12))

    assert text((ours,), "Table 5").rows == (("mine", NONE, "1", "12", NONE, NONE, NONE),)
    assert text((ours,), "Table 6").rows[0][-3:] == ("NaN", NONE, NONE), "12 instances that are all the same"


def test_a_task_that_only_the_paper_has_is_a_row_without_ours(tmp_path):
    ours = runs("multisort", profile(tmp_path / "a.tprof", [("sort", 1, 1.0)]))

    rows = text((ours,), "Table 6").rows

    assert [row[1] for row in rows] == ["sort", "merge"]
    assert rows[1] == ("multisort", "merge", NONE, NONE, NONE, NONE, "51.3", "0.794")


def test_the_correlation_of_a_few_instances_is_not_shown(tmp_path):
    ours = runs("multisort", profile(tmp_path / "a.tprof", SORTS))

    assert {row[5] for row in text((ours,), "Table 6").rows} == {NONE}


def test_each_row_says_how_its_joules_were_got(tmp_path):
    measured = runs("ferret", profile(tmp_path / "a.tprof", [("ferret", 1, 1.0)]))
    estimated = runs("jacobi", profile(tmp_path / "b.tprof", [("jacobi", 1, 1.0)], "estimated"))

    assert [row[2] for row in text((measured, estimated), "Table 6").rows] == ["measured", "estimated"]
    assert [row[1] for row in text((measured, estimated), "Time").rows] == ["measured", "estimated"]


def test_times_are_medians_with_their_spread(tmp_path):
    one = profile(tmp_path / "a.tprof", [("ferret", 1, 7.0)])
    ours = runs("ferret", one, one, one, durations=[0.3, 0.1, 0.2])

    assert ours.middle == 2
    assert text((ours,), "Time").rows[0][3:] == ("3", "0.2", "0.1 … 0.3", "7", "7 … 7")


def test_tasks_are_the_papers_in_whatever_way_their_words_are_joined():
    assert PAPER["fft"].task("tw transp-blk") is PAPER["fft"].task("TW_TRANSP_BLK")
    assert PAPER["fft"].task("tw_transp_blk").energy_mean_j == 0.0151
    assert PAPER["fft"].task("load") is None


def test_the_papers_values_follow_its_text_where_its_table_contradicts_it():
    """Section 4.3: sort 173.4 and merge 51.3 mJ, trsm 85 to 120 mJ, Jacobi 67.3 mJ."""
    cholesky, multisort = PAPER["cholesky"], PAPER["multisort"]

    assert multisort.task("sort").energy_mean_j > multisort.task("merge").energy_mean_j
    assert 0.085 <= cholesky.task("trsm").energy_mean_j <= 0.120
    assert math.isnan(cholesky.task("potrf").energy_time_corr)
    assert PAPER["jacobi"].task("jacobi").energy_mean_j == 0.0673


def test_the_papers_instances_and_footprints_follow_from_its_inputs():
    assert PAPER["cholesky"].instances == 32 + 2 * 496 + 4960
    assert PAPER["jacobi"].footprint_mb == round(4 * 1024**2 * 8 / 1_024_000, 1)
    assert PAPER["blackscholes"].instances == 16_000_000 // 44_000
    assert set(PAPER) == set(SUITE)
    assert [PAPER[name].figure for name in SUITE] == [5, 6, 7, 8, 9, 10]


def test_a_suite_with_a_program_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="the suite needs chess, go, which the catalogue of programs does not have"):
        members(("blackscholes", "chess", "go"))
    assert members(("blackscholes", "stdlib_digest", "blackscholes")) == ("blackscholes", "stdlib_digest")
