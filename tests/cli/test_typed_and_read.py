"""What users type and read at the limits: very many tasks, long names, a narrow pipe, options in the wrong place."""

import json

import pytest
from support.command_line import tprof as run_tprof

import tprof

COUNT = 2_000
STEP_NS = 20_000


def write(path, names):
    times = [place * STEP_NS // 2 for place in range(2 * len(names) + 1)]
    instances = [place // 2 + 1 if place % 2 == 0 and place < 2 * len(names) else 0 for place in range(len(times))]
    thread = {"t_ns": times, "instance": instances, "task": [number - 1 for number in instances]}
    tprof.write_trace(path, tasks=names, threads=[thread], energy={"package-0": ([0, times[-1]], [0.0, 2.0])})
    return path


def shown(path, *words, **variables):
    done = run_tprof("summary", path, *words, cwd=path.parent, env=variables)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return write(tmp_path_factory.mktemp("many") / "t.tprof", [f"handle_{number:05d}" for number in range(COUNT)])


def test_of_very_many_tasks_the_first_are_shown_with_the_number_of_the_others(many):
    text = shown(many)

    assert sum(line.startswith("handle_") for line in text.split("Tasks (given, by cputime)")[1].splitlines()) == 100
    assert f"\n{COUNT - 100:,} others: " in text
    assert "; tprof summary --all shows them\n" in text


def test_all_of_them_are_shown_and_written_if_asked_for(many):
    text = shown(many, "--all")
    found = json.loads(shown(many, "--json"))

    assert sum(line.startswith("handle_") for line in text.split("Tasks (given, by cputime)")[1].splitlines()) == COUNT
    assert {row["task"] for row in found["tasks"]} == {f"handle_{number:05d}" for number in range(COUNT)}


def test_a_row_of_json_takes_a_line(many):
    lines = shown(many, "--json").splitlines()

    assert sum(line.strip().startswith('{"task": "handle_') for line in lines) == COUNT


def test_long_names_are_cut_in_their_middle_and_whole_in_json(tmp_path):
    names = [f"first.{'x' * 3_000}.{word}" for word in ("load", "blur")]
    path = write(tmp_path / "t.tprof", names)
    stored = set(tprof.load(path).profile().summary().index)

    text = shown(path)

    assert max(map(len, text.split("Tasks (given, by cputime)")[1].splitlines())) <= 250
    assert max(len(word) for word in text.split()) <= 120
    assert {row["task"] for row in json.loads(shown(path, "--json"))["tasks"]} == stored


def test_names_that_differ_in_their_middle_are_told_apart_and_short_in_all_sentences(tmp_path):
    alike = [f"first.{'x' * 1_500}{letter}{'x' * 1_500}.load" for letter in "ab"]
    path = write(tmp_path / "t.tprof", [*alike, f"none{'y' * 3_000}"])

    for columns in ("", "80"):
        text = shown(path, COLUMNS=columns)
        rows = [line for line in text.split("Tasks (given")[1].splitlines() if line.startswith("first.")]

        assert max(len(word.rstrip(",:")) for word in text.split()) <= 120
        assert len({row.split()[0] for row in rows}) == 2
        assert all(row.split()[1] == "1" for row in rows), "the figures stand beside the names"
    said = {word.rstrip(",:") for word in shown(path).split("Accounts")[0].split() if word.startswith("first.")}
    assert said == {row.split()[0] for row in shown(path).splitlines() if row.endswith("J") and row[:6] == "first."}


def test_the_variable_for_the_width_counts_in_a_pipe_too(many):
    wide, narrow = (shown(many, COLUMNS=columns) for columns in ("", "60"))

    assert max(map(len, wide.splitlines())) > 100
    assert max(map(len, narrow.splitlines())) <= 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--report", "-o", "x.tprof", "prog.py"], "--report needs FILE.html after it, and got -o, which is an"),
        (
            ["report", "-o", "--help", "x.tprof"],
            "--output needs FILE.html after it, and got --help, which is an option",
        ),
        (["report", "-o", "--theme", "x.tprof"], "--output needs FILE.html after it, and got --theme, which is an"),
        (
            ["run", "python", "prog.py", "--x"],
            "leave out python: tprof run takes the program alone, as in tprof",
        ),
        (["run", "-o", "taken", "-c", "pass"], "taken exists: choose another path, or replace it by --overwrite"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_command_that_is_typed_wrong_is_told_what_to_type(words, said, tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "prog.py").write_text("")

    done = run_tprof(*words, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(("count", "text"), [(1, ": 1 instance, "), (2, ": 2 instances, ")])
def test_what_is_counted_agrees_with_its_number(count, text, tmp_path):
    path = write(tmp_path / "t.tprof", [f"task_{number}" for number in range(count)])

    assert text in repr(tprof.load(path).profile())
