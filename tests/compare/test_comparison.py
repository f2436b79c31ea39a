"""Runs compared task by task: what changed, by how much, where, and what cannot be compared."""

import math

import pytest
from support.runs import HOST, Work, write_run
from tprof.analysis.compare.headline import headline

import tprof
from tprof.trace import merge

BEFORE = (Work("load", 8, 0.002), Work("blur", 30), Work("gone", 4))
AFTER = (Work("load", 8, 0.002), Work("blur", 30, 0.003, cpu=1), Work("new", 4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three runs of each side, one of another machine, one estimated, one without energy, one with other tasks."""
    place = tmp_path_factory.mktemp("runs")
    for number, slower in enumerate((0.97, 1.0, 1.02)):
        write_run(place / f"a{number}", BEFORE, seed=number, slower=slower)
        write_run(place / f"b{number}", AFTER, seed=10 + number, slower=slower)
    write_run(place / "other", AFTER, host=HOST | {"processor": "Another", "hostname": "else"})
    write_run(place / "guessed", AFTER, quality="estimated")
    write_run(place / "foreign", [Work("alone")])
    return place


def runs(folder, name):
    return [folder / f"{name}{number}" for number in range(3)]


@pytest.fixture(scope="module")
def several(folder):
    return tprof.compare(runs(folder, "a"), runs(folder, "b"))


def test_a_saving_of_a_quarter_is_found_with_its_interval(several):
    row = several.tasks.loc["blur"]

    assert row["change"] == "less"
    assert row["energy_mean_ratio"] == pytest.approx(0.75, abs=0.02)
    assert row["energy_mean_ratio_low"] < 0.75 < row["energy_mean_ratio_high"] < 1
    assert row["energy_mean_a_j"] == pytest.approx(0.04, rel=0.05)
    assert row["energy_mean_low_j"] < row["energy_mean_difference_j"] < row["energy_mean_high_j"] < 0
    assert row["duration_mean_ratio"] == pytest.approx(0.75, abs=0.02)
    assert row["power_ratio"] == pytest.approx(1.0, abs=0.01)
    assert row["energy_mean_noise"] >= row["energy_mean_chance"]


def test_what_stayed_the_same_is_not_called_a_change(several):
    row = several.tasks.loc["load"]

    assert row["change"] == "unclear"
    assert row["energy_mean_noise"] > 0.05


def test_tasks_of_one_side_are_said_to_be_so_and_the_worst_stands_first(several):
    tasks = several.tasks

    assert tasks.loc["gone", "change"] == "only in A"
    assert tasks.loc["new", "change"] == "only in B"
    assert math.isnan(tasks.loc["gone", "energy_mean_b_j"])
    assert tasks.loc["new", "instances_a"] == 0
    assert list(tasks.index) == ["new", "blur", "gone", "load"], "more, less, not sure; each by joules"


def test_where_tasks_ran_is_compared(several):
    assert several.tasks.loc["blur", "cores_a"] == (0,)
    assert several.tasks.loc["blur", "cores_b"] == (1,)


def test_totals_have_intervals_from_the_scatter_of_runs(several):
    row = several.totals.loc["energy_j"]

    assert row["difference"] == pytest.approx(-0.3, abs=0.05)  # 30 instances, 1 ms less each, at 10 W
    assert row["low"] < row["difference"] < row["high"]
    assert several.totals.loc["duration_s", "ratio"] == pytest.approx(0.79, abs=0.02)


def test_runs_of_one_side_that_are_alike_but_for_themselves_show_no_change(folder):
    found = tprof.compare([folder / "a0", folder / "a2"], [folder / "a1"])

    assert set(found.tasks["change"]) == {"unclear"}


def test_one_run_a_side_is_warned_of(folder):
    found = tprof.compare(folder / "a1", folder / "b1")

    assert found.tasks.loc["blur", "change"] == "less"
    assert found.info["within_run"]
    assert any("what runs of the same program differ by as wholes" in text for text in found.info["warnings"])
    assert math.isnan(found.totals.loc["energy_j", "chance"])


def test_a_profile_compares_itself_with_another(folder):
    profile, other = (tprof.load(folder / name).profile() for name in ("a0", "b0"))

    assert profile.compare(other).tasks.loc["blur", "change"] == "less"


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ("other", "the machines differ (processor): A Processor, B Another"),
        ("guessed", "the joules of A are simulated and those of B estimated: their difference is mostly that"),
        ("foreign", "no task is on both sides"),
    ],
)
def test_what_was_measured_otherwise_is_warned_of(folder, other, sentence):
    found = tprof.compare(folder / "a0", folder / other)

    assert any(sentence in text for text in found.info["warnings"]), found.info["warnings"]


def test_sides_without_energy_are_compared_by_time(tmp_path):
    with tprof.record(tmp_path / "bare", energy="none", counters="none"):
        pass
    write_run(tmp_path / "known", [Work("blur")])

    found = tprof.compare(tmp_path / "bare", tmp_path / "known")

    assert found.info["by"] == "duration_mean_s"
    assert "A has no energy: only times are compared" in found.info["warnings"]
    assert found.tasks["energy_mean_b_j"].isna().all()


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        (["a0"], ["a0"], "is on both sides: a session compared with itself shows no difference"),
        (["a0", "a0"], ["b0"], "is given twice on one side"),
        ([], ["b0"], "side A has no run"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(folder, a, b, sentence):
    with pytest.raises(tprof.UsageError, match=sentence):
        tprof.compare([folder / name for name in a], [folder / name for name in b])


def test_jobs_of_hosts_are_compared_too(tmp_path):
    for side, works in (("a", BEFORE), ("b", AFTER)):
        hosts = [
            write_run(tmp_path / f"{side}{host}", works, seed=seed, host=HOST | {"hostname": host})
            for seed, host in enumerate(("n1", "n2"))
        ]
        merge.merge(hosts, tmp_path / f"{side}.tprof")

    found = tprof.compare(tmp_path / "a.tprof", tmp_path / "b.tprof")

    assert found.tasks.loc["blur", "instances_a"] == 60
    assert found.tasks.loc["blur", "change"] == "less"
    assert found.totals.loc["energy_j", "a"] > found.totals.loc["energy_j", "b"]


def labelled(path, works, *, seed=0):
    """Write a job of two hosts, each with its own rank."""
    hosts = [
        write_run(path.with_name(f"{path.stem}-{host}"), works, seed=seed + rank, host=HOST | {"hostname": host})
        for rank, host in enumerate(("n1", "n2"))
    ]
    merge.merge(hosts, path)
    return path


def test_groups_sum_their_tasks_and_are_judged_by_all_joules(folder, several):
    found = tprof.compare(runs(folder, "a"), runs(folder, "b"), by=["host"])

    assert list(found.tasks.index) == ["bench"]
    assert found.tasks.index.name == "host"
    assert found.info["by"] == "energy_j"
    row = found.tasks.loc["bench"]
    for side in "ab":
        assert row[f"energy_{side}_j"] == pytest.approx(several.totals.loc["tasks_j", side])
        assert row[f"energy_{side}_j"] == pytest.approx(several.tasks[f"energy_{side}_j"].sum())
        assert row[f"instances_{side}"] == several.tasks[f"instances_{side}"].sum()
        own = several.tasks[f"own_mean_{side}_s"] * several.tasks[f"instances_{side}"]
        assert row[f"own_mean_{side}_s"] * row[f"instances_{side}"] == pytest.approx(own.sum())
    assert row["change"] == "less"


def test_a_group_of_one_run_has_the_errors_of_its_tasks(folder):
    tasks = tprof.compare(folder / "a0", folder / "b0").tasks.loc["blur"]
    row = tprof.compare(folder / "a0", folder / "b0", by=["host"]).tasks.loc["bench"]

    widths = [one["energy_high_j"] - one["energy_low_j"] for one in (tasks, row)]
    assert 0 < widths[0] < widths[1] < 4 * widths[0]
    assert row["change"] == "less"


def test_hosts_of_a_job_are_compared_by_name(tmp_path):
    a, b = labelled(tmp_path / "a.tprof", BEFORE), labelled(tmp_path / "b.tprof", AFTER, seed=5)

    found = tprof.compare(a, b, by=["host"])

    assert set(found.tasks.index) == {"n1", "n2"}
    assert set(found.tasks["change"]) == {"less"}


def test_a_label_that_no_process_has_is_refused(folder):
    with pytest.raises(tprof.UsageError, match="no process has the label rank: choose from host"):
        tprof.compare(folder / "a0", folder / "b0", by=["rank"])


def test_the_answer_is_of_the_program_and_names_what_surely_changed(several):
    answer = several.as_plain()["answer"]

    assert answer["decision"] == "less"
    assert answer["program"].startswith("The program took ")
    assert "(simulated)" in answer["program"]
    assert "the largest difference is blur" in answer["changed_most"]
    assert answer["to_do"].startswith("Record more runs of each side")


def test_one_run_a_side_decides_nothing_of_the_program_and_what_to_run_is_said(folder):
    answer = tprof.compare(folder / "a0", folder / "b0").as_plain()["answer"]

    assert answer["decision"] == "not decided"
    assert "because one run a side does not show" in answer["program"]
    assert "tprof compare A1 A2 A3 vs B1 B2 B3" in answer["to_do"]


def test_other_programs_and_idle_are_not_the_program(several):
    totals = several.totals
    rest = totals.loc[["other_j", "idle_j"], ["a", "b"]].fillna(0.0).sum()

    assert list(totals.loc["program_j", ["a", "b"]]) == pytest.approx(list(totals.loc["energy_j", ["a", "b"]] - rest))


def test_fewer_instances_of_the_same_size_are_a_sure_change_of_the_sum(tmp_path):
    write_run(tmp_path / "often", [Work("fit", 40), Work("rest", 20)], seed=1)
    write_run(tmp_path / "once", [Work("fit", 8), Work("rest", 20)], seed=2)

    found = tprof.compare(tmp_path / "often", tmp_path / "once")

    assert found.tasks.loc["fit", "change"] == "unclear"
    assert found.tasks.loc["fit", "total_change"] == "less"
    assert found.tasks.index[0] == "fit"
    assert "fit, " in found.as_plain()["answer"]["changed_most"]
    assert "40 → 8 of them" in found.as_plain()["answer"]["changed_most"]


def test_without_a_common_task_no_task_is_called_the_one_that_changed_most(folder):
    """Tasks of one side alone are all only there; the warning says so."""
    comparison = tprof.compare(folder / "a0", folder / "foreign")

    assert headline(comparison).changed_most == ""
    assert any("no task is on both sides" in text for text in comparison.info["warnings"])
