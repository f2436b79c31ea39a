"""`tprof compare` prints what changed, as text and JSON, and refuses what it cannot divide into sides."""

import json
import subprocess

import pytest
from support.command_line import tprof
from support.programs import TPROF
from support.runs import Work, write_run

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


def test_a_program_that_was_saved_under_another_name_is_compared_with_itself(tmp_path):
    for name in ("before", "after"):
        (tmp_path / f"{name}.py").write_text("import os\nif os.fork():\n    os.wait()\n")
        subprocess.run([TPROF, "run", "--no-summary", "-o", name, f"{name}.py"], cwd=tmp_path, check=True, timeout=120)

    said = json.loads(tprof("compare", "before", "after", "--json", cwd=tmp_path).stdout)

    changes = {row["task"]: row["change"] for row in said["tasks"]}
    assert changes.keys() == {"before.py → after.py", "before.py → after.py (forked)"}
    assert not set(changes.values()) & {"only in A", "only in B"}


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
