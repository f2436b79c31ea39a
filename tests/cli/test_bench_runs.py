"""`tprof bench` repeats programs, runs the suite as one, and replaces nothing that it was not told to."""

import json

import pytest
from support.command_line import tprof as run_tprof
from tprof.benchmarks import PROGRAMS, suite
from tprof.benchmarks.repeats import Order

import tprof as package
from tprof.cli.bench import bench
from tprof.errors import UsageError

ESTIMATE = ("--energy", "estimate")


def tprof(folder, *words):
    return run_tprof("bench", *words, cwd=folder)


def test_each_repeat_is_a_session_and_the_times_have_median_and_spread(tmp_path):
    done = tprof(tmp_path, "blackscholes", "--repeat", "3", "-o", "out", "--json", *ESTIMATE)

    said = json.loads(done.stdout, parse_constant=pytest.fail)["blackscholes"]
    times = sorted(run["duration_s"] for run in said["runs"])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "blackscholes-1.tprof", "blackscholes-2.tprof", "blackscholes-3.tprof", "blackscholes.html",
    ]  # fmt: skip
    assert [said["time"][key] for key in ("low", "value", "high")] == times
    assert said["energy"]["rounds"] == 3
    assert {run["session"] for run in said["runs"] if run["duration_s"] == times[1]} == {
        str(tmp_path / said["session"])
    }, "the run that is shown is the one with the median time"
    assert "[2/3] blackscholes, run 2 of 3" in done.stderr


def test_several_programs_run_one_after_the_other_with_progress(tmp_path):
    done = tprof(tmp_path, "blackscholes", "multisort", "blackscholes", "--repeat", "2", *ESTIMATE)

    assert [line for line in done.stderr.splitlines() if line.startswith("[")] == [
        "[1/4] blackscholes, run 1 of 2",
        "[2/4] blackscholes, run 2 of 2",
        "[3/4] multisort, run 1 of 2",
        "[4/4] multisort, run 2 of 2",
    ]
    assert "energy (estimated): " in done.stdout
    assert done.stdout.count("time of the parallel part: ") == 2
    assert "report: multisort.html" in done.stdout


@pytest.mark.parametrize("there", ["blackscholes.tprof", "blackscholes.html"])
def test_what_is_there_is_kept_unless_it_may_be_overwritten(tmp_path, there):
    (tmp_path / there).touch()

    done = tprof(tmp_path, "multisort", "blackscholes")

    assert done.returncode == 2
    assert done.stderr == (
        f"tprof: {there} exists: choose another folder with -o DIR, or replace what is there with --overwrite\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [there], "nothing ran before it was refused"


def test_overwrite_replaces_sessions_and_reports(tmp_path):
    assert tprof(tmp_path, "blackscholes", *ESTIMATE).returncode == 0
    (tmp_path / "blackscholes.html").write_text("old")

    assert tprof(tmp_path, "blackscholes", "--overwrite", *ESTIMATE).returncode == 0

    assert (tmp_path / "blackscholes.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_suite_is_run_and_reported_as_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suite, "SUITE", ("blackscholes", "multisort"))

    bench(everything=True, repeat=2, output=tmp_path / "out", energy="estimate", as_json=True)

    said = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {*suite.FILES, *(f"{name}-{n}.tprof" for name in suite.SUITE for n in (1, 2))}
    assert said["table_5"][0] | {"instances": 22, "paper_instances": 363} == said["table_5"][0]
    assert said["table_5"][0]["footprint_bytes"] == 1_232_000
    blackscholes = said["table_6"][0]
    assert (blackscholes["instances"], blackscholes["quality"]) == (44, "estimated")
    assert blackscholes["paper_energy_mean_j"] == 0.0585
    sessions = [run["session"] for run in said["programs"]["blackscholes"]["runs"]]
    energies = [package.load(session).profile().measured_j for session in sessions]
    assert said["programs"]["blackscholes"]["energy"]["value"] == pytest.approx(sum(energies) / 2)


def test_the_suite_prints_its_tables_and_where_its_files_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suite, "SUITE", ("blackscholes",))

    bench(everything=True, output=tmp_path, energy="estimate")

    said = capsys.readouterr().out
    assert "Table 5: the programs" in said
    assert "Table 6: mean energy of each task" in said
    assert "i5-2500" in said
    assert str(tmp_path / "suite.html") in said


def test_the_suite_overwrites_no_report_unasked(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "SUITE", ("blackscholes",))
    (tmp_path / "suite.json").touch()

    with pytest.raises(UsageError, match=r"suite\.json exists: choose another folder"):
        bench(everything=True, output=tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--all", "blackscholes"), "--all is the whole suite: give names or --all, not both"),
        (("--all", "--list"), "--all is the whole suite: give --list or --all, not both"),
        (("blackscholes", "--repeat", "0"), "a program must run at least once, got --repeat 0"),
        (("blackscholes", "--workers", "0"), "a program needs at least 1 worker, got 0"),
        (("--list", "--size", "huge"), "the size of a program must be small or paper, got 'huge'"),
        (("blackscholes", "-o", "file"), "cannot write to file: File exists; choose another folder with -o DIR"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(tmp_path, words, sentence):
    (tmp_path / "file").touch()

    done = tprof(tmp_path, *words)

    assert (done.returncode, done.stderr) == (2, f"tprof: {sentence}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_list_shows_one_size_where_it_is_asked_for(tmp_path):
    both = tprof(tmp_path, "--list").stdout
    paper = tprof(tmp_path, "--list", "--size", "paper").stdout

    assert "--size small" in both
    assert "--size small" not in paper
    assert "--size paper: 16 million options in tasks of 44,000; tasks: 363 blackscholes" in paper
    assert list(tmp_path.iterdir()) == []


def test_the_list_as_json_has_inputs_and_instances(tmp_path):
    said = json.loads(tprof(tmp_path, "--list", "blackscholes", "--size", "paper", "--json").stdout)

    assert said == {
        "blackscholes": {
            "description": PROGRAMS["blackscholes"].description,
            "inputs": {"paper": "16 million options in tasks of 44,000"},
            "instances": {"paper": {"blackscholes": 363}},
        }
    }


def test_one_run_of_a_program_bears_its_plain_name(tmp_path):
    assert Order(tmp_path).sessions("fft") == (tmp_path / "fft.tprof",)
    assert [path.name for path in Order(tmp_path, repeats=2).sessions("fft")] == ["fft-1.tprof", "fft-2.tprof"]
