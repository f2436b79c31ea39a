"""`tprof compare` prints what changed, as text and JSON, and refuses what it cannot divide into sides."""

import json
import math
import subprocess

import pytest
from support.command_line import tprof
from support.programs import TPROF
from support.runs import Work, write_run
from tprof.analysis.compare.figure_texts import change, pair

TINY = Work("tiny", 4, 0.0002, 1.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("compared")
    for number in range(2):
        write_run(place / f"a{number}", [Work("blur", 30), TINY, Work("\x1b[31mred", 3)], seed=number)
        write_run(place / f"b{number}", [Work("blur", 30, 0.006), TINY, Work("\x1b[31mred", 3)], seed=5 + number)
    return place


def test_the_table_has_both_sides_the_change_and_the_chance_of_noise(folder):
    said = tprof("compare", "a0", "a1", "vs", "b0", "b1", cwd=folder)

    assert said.returncode == 0, said.stderr
    line = next(line for line in said.stdout.splitlines() if line.startswith("blur"))
    assert "→ 59.9 mJ" in line
    assert "3.98 → 6 ms" in line
    assert "(simulated)" in said.stdout
    assert "Welch's t test of the means of 2 and 2 runs, corrected by Holm's method for 3 tasks" in said.stdout
    assert "\x1b" not in said.stdout
    assert "tiny" not in said.stdout
    assert "and 1 more, each below 1 % of the joules" in said.stdout
    assert "tiny" in tprof("compare", "a0", "b0", "--all", cwd=folder).stdout


def test_sessions_of_one_name_are_told_apart_by_their_folders(tmp_path):
    for side in ("w1", "w2"):
        (tmp_path / side).mkdir()
        write_run(tmp_path / side / "x.tprof", [Work("blur")])

    said = tprof("compare", "w1/x.tprof", "w2/x.tprof", cwd=tmp_path).stdout

    assert said.startswith("A: w1/x.tprof\nB: w2/x.tprof\n")


def test_a_program_that_was_saved_under_another_name_is_compared_with_itself(tmp_path):
    for name in ("before", "after"):
        (tmp_path / f"{name}.py").write_text("import os\nif os.fork():\n    os.wait()\n")
        subprocess.run([TPROF, "run", "--no-summary", "-o", name, f"{name}.py"], cwd=tmp_path, check=True, timeout=120)

    said = json.loads(tprof("compare", "before", "after", "--json", cwd=tmp_path).stdout)

    changes = {row["task"]: row["change"] for row in said["tasks"]}
    assert changes.keys() == {"before.py → after.py", "before.py → after.py (forked)"}
    assert not set(changes.values()) & {"only in A", "only in B"}


def test_means_that_the_summary_does_not_resolve_are_upper_ends_here_too(tmp_path):
    """What `tprof summary` calls not resolved is marked by `tprof compare` and `tprof check`."""
    (tmp_path / "forks.py").write_text("import os\nfor _ in range(3):\n    os.wait() if os.fork() else os._exit(0)\n")
    for name in ("a", "b"):
        subprocess.run([TPROF, "run", "--no-summary", "-o", name, "forks.py"], cwd=tmp_path, check=True, timeout=120)
    base = tmp_path / "base.json"
    tprof("check", "a", "--save", str(base), cwd=tmp_path)

    summary = json.loads(tprof("summary", "a", "--json", cwd=tmp_path).stdout)["tasks"]
    compared = json.loads(tprof("compare", "a", "b", "--json", cwd=tmp_path).stdout)["tasks"]
    checked = json.loads(tprof("check", "a", "--baseline", str(base), "--json", cwd=tmp_path).stdout)["tasks"]

    ends = {row["task"]: row["energy_mean_at_most_j"] for row in summary}
    assert {name for name, end in ends.items() if end is not None} == {
        row["task"] for row in summary if not row["resolved"]
    }
    assert {row["task"]: row["energy_mean_at_most_a_j"] for row in compared} == pytest.approx(ends)
    assert {row["task"]: row["base_at_most"] for row in checked} == ends
    assert {row["task"]: row["now_at_most"] for row in checked} == ends
    assert {row["ratio"] for row in checked if row["base"]} <= {1.0}, "the baseline keeps every digit"


def test_sides_are_written_with_one_prefix_and_an_upper_end_where_not_resolved():
    """A mean of zero joules has no prefix, and what is not resolved is marked side by side."""
    row = {"energy_mean_a_j": 0.004, "energy_mean_b_j": 0.0}

    assert pair(row, "energy_mean", "J") == "4 → 0 mJ"
    assert pair(row | {"energy_mean_a_j": math.nan}, "energy_mean", "J") == "– → 0 J"
    assert pair(row | {"energy_mean_at_most_b_j": 0.09}, "energy_mean", "J") == "4 → ≤ 90 mJ"


def test_no_change_has_no_sign():
    """A change that rounds to nothing is neither an increase nor a decrease."""
    figures = {"ratio": 1 - 1e-7, "ratio_low": 0.9, "ratio_high": math.nan, "chance": 0.5}

    assert change(figures, "") == "0.0 (−10.0 … ?) %"


def test_json_is_strict_and_holds_every_figure(folder):
    said = json.loads(tprof("compare", "a0", "b0", "--json", cwd=folder).stdout, parse_constant=pytest.fail)

    rows = {row["task"]: row for row in said["tasks"]}
    assert rows["blur"]["change"] == "more"
    assert rows["blur"]["energy_mean_ratio"] == pytest.approx(1.5, abs=0.05)
    assert said["a"][0]["name"] == "a0"
    assert said["b"][0]["measured"]["quality"] == "simulated"
    assert {row["figure"] for row in said["totals"]} >= {"energy_j", "duration_s"}


def test_the_answer_stands_first_and_every_word_of_the_table_is_explained(folder):
    said = tprof("compare", "a0", "b0", "--all", cwd=folder).stdout

    lines = said.splitlines()
    assert lines[3].startswith("The program took ")
    assert "blur" in lines[4]
    assert "within noise: " in said
    assert lines.index("Tasks (simulated), sure changes first") < lines.index("Totals (simulated)")


def test_groups_are_compared_by_host(folder):
    said = tprof("compare", "a0", "a1", "vs", "b0", "b1", "--by", "host", cwd=folder)

    assert "By host (simulated), sure changes first" in said.stdout
    assert any(line.startswith("bench") and "more" in line for line in said.stdout.splitlines())
    rows = json.loads(tprof("compare", "a0", "b0", "--by", "host", "--json", cwd=folder).stdout)["by"]
    assert [row["host"] for row in rows] == ["bench"]


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("a0",), 2, "compare takes two sessions, or runs of both sides with vs between"),
        (("a0", "a1", "b0"), 2, "compare takes two sessions"),
        (("vs", "a0", "b0"), 2, "compare takes two sessions"),
        (("a0", "vs", "b0", "vs", "b1"), 2, "compare takes two sessions"),
        (("a0", "a0"), 2, "is on both sides"),
        (("a0", "b0", "--by", "rank"), 2, "no process has the label rank"),
        (("a0", "b0", "--by", "task,host"), 2, "--by task compares tasks, so it stands alone"),
        (("a0", "gone"), 1, "gone is not a tprof session"),
        (("a0", "b0", "--model", "magic"), 2, "model must be one of"),
    ],
)
def test_an_error_is_one_sentence_with_its_status(folder, words, status, sentence):
    said = tprof("compare", *words, cwd=folder)

    assert said.returncode == status
    assert sentence in said.stderr
    assert len(said.stderr.splitlines()) == 1
