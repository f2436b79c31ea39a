"""`tprof summary`, `report`, `export` and `bench` say what a session holds, and errors in one sentence."""

import json
import subprocess
from pathlib import Path

import pytest
from support import traces
from support.command_line import tprof as run_tprof
from support.programs import TPROF

import tprof as package

HOSTILE = ("\x1b]0;owned\x07\x1b[31mred", "[bold red]markup[/]", "right\u202eleft\u2028line")


def tprof(folder, *words):
    return run_tprof(*words, cwd=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("look")
    traces.write(place / "t.tprof")
    traces.write(place / "hostile.tprof", tasks=HOSTILE[:2], quality="simulated")
    return place


def test_summary_shows_accounts_and_tasks(folder):
    said = tprof(folder, "summary", "t.tprof").stdout

    assert "blur" in said
    assert "25 J" in said, "the domain's energy"
    assert 'model "cputime"' in said


@pytest.mark.parametrize("quality", ["measured", "estimated", "simulated", "given"])
def test_the_title_of_the_accounts_says_how_their_energy_is_known(tmp_path, quality):
    """The heading of the column is the same for all."""
    traces.write(tmp_path / "t.tprof", quality=quality)

    lines = tprof(tmp_path, "summary", "t.tprof").stdout.splitlines()

    title = lines.index(f"Accounts ({quality})")
    assert lines[title + 1].split() == ["domain", "energy", "tasks", "runtime", "other", "idle"]


def test_summary_as_json_is_strict_and_equals_the_profile(folder):
    said = json.loads(tprof(folder, "summary", "t.tprof", "--json").stdout, parse_constant=pytest.fail)

    profile = package.load(folder / "t.tprof").profile()
    assert {row["task"]: row["energy_j"] for row in said["tasks"]} == profile.summary()["energy_j"].to_dict()
    assert said["accounts"][0]["measured_j"] == 25.0
    assert said["info"]["quality"] == "given"


def test_names_of_a_trace_do_not_steer_the_terminal(folder):
    said = tprof(folder, "summary", "hostile.tprof").stdout

    assert "\x1b" not in said
    assert "[bold red]markup[/]" in said
    assert "simulated" in said


def test_report_and_export_write_where_they_are_told(folder, tmp_path):
    session = str(folder / "t.tprof")

    report = tprof(tmp_path, "report", session)
    export = tprof(tmp_path, "export", session, "csv", "-o", "tables")

    assert report.stdout == "t.html\n"
    assert (tmp_path / "t.html").exists()
    assert export.stdout == "tables\n"
    assert (tmp_path / "tables" / "tasks.csv").exists()


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("summary", "gone"), 1, "gone is not a tprof session"),
        (("summary", "."), 1, "is not a tprof session (it has no manifest.json)"),
        (("summary", "t.tprof", "--model", "fesc"), 2, 'model "fesc" needs the counters'),
        (("summary", "t.tprof", "--model", "magic"), 2, "model must be one of"),
        (("report", "t.tprof", "-o", "missing/x.html"), 1, "cannot write the report to"),
        (("export", "t.tprof", "xls"), 2, "the format must be one of csv, parquet"),
        (("bench", "nope"), 2, "there is no benchmark 'nope'"),
        (("bench",), 2, "name what to run"),
        (("bench", "blackscholes", "--size", "huge"), 2, "the size of a program must be small or paper"),
    ],
)
def test_an_error_is_one_sentence_with_its_status(folder, words, status, sentence):
    before = sorted(folder.iterdir())

    done = tprof(folder, *words)

    assert done.returncode == status
    assert done.stderr.startswith("tprof: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert sorted(folder.iterdir()) == before


def test_a_closed_pipe_is_no_error_to_talk_about(folder):
    command = [TPROF, "summary", "t.tprof", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 1
    assert said == ""


@pytest.mark.parametrize(
    "words", [["summary", "t.tprof"], ["summary", "t.tprof", "--json"], ["config", "--all"], ["--help"]]
)
def test_standard_output_that_cannot_be_written_is_told_in_one_sentence(folder, words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([TPROF, *words], cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "tprof: cannot write to standard output: No space left on device\n"


def test_a_command_whose_output_is_closed_writes_its_files(folder, tmp_path):
    report = tmp_path / "report.html"

    done = subprocess.run(
        ["sh", "-c", '"$0" report t.tprof -o "$1" >&-', TPROF, report], cwd=folder, capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert report.stat().st_size > 0


def test_bench_profiles_a_program_and_writes_its_report(tmp_path):
    done = tprof(tmp_path, "bench", "blackscholes", "--energy", "estimate", "-o", "out", "--json")

    said = json.loads(done.stdout)["blackscholes"]
    assert [(row["task"], row["instances"]) for row in said["tasks"]] == [("blackscholes", 22)]
    assert said["info"]["quality"] == "estimated"
    assert (tmp_path / said["report"]).exists()
    assert (tmp_path / said["session"] / "manifest.json").exists()


def test_bench_lists_programs_with_instances_and_runs_none(tmp_path):
    said = tprof(tmp_path, "bench", "--list").stdout

    assert "363 blackscholes" in said
    assert "overhead" not in said
    assert list(tmp_path.iterdir()) == []
