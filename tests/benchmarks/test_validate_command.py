"""`scripts/bench validate` prints what it found, and refuses before it works what it cannot do."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.command_line import bench as run_bench
from support.programs import DEADLINE_S

from benchmarks.validation import validate as validation


def validate(folder, *words):
    return run_bench("validate", *words, cwd=folder)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Measure one case, printed as JSON and drawn; returns the folder and what was printed."""
    folder = tmp_path_factory.mktemp("measured")
    return folder, validate(folder, "--quick", "--seeds", "1", "--case", "bursts", "--json", "--plot", "page.html")


def test_one_case_as_json_and_as_a_page(measured):
    folder, done = measured

    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert {row["case"] for row in result["rows"]} == {"bursts of 5 ms, gaps of 10 ms"}
    assert result["effort"]["seeds"] == 1
    assert result["processor"] == "virtual"
    assert (folder / "page.html").stat().st_size > 1_000_000


def test_tables_are_printed_with_the_papers_beside_them(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(validation, "measure", lambda *_, **__: json.loads(measured[1].stdout))

    done = validate(tmp_path, "--quick", "--seeds", "1", "--case", "bursts")

    assert done.returncode == 0
    assert "Table 4: 1.6 GHz by the model of 3.3 GHz" in done.stdout
    assert "+16.3 %" in done.stdout  # the paper's
    assert "not measured" in done.stdout
    assert "nan" not in done.stdout.lower()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--case", "stedy"], "case must be one of"),
        (["--plot", "nowhere/page.html"], "cannot write the plot to"),
        (["--pairs", "--quick"], "--pairs measures and takes --session and --json only"),
        (["--session", "kept"], "without it everything is simulated"),
        (["--published", "--watts"], "--published computes what the paper prints and takes --json only"),
        (["--gpu", "--quick"], "--gpu measures on this machine's GPU and takes --json only"),
        (["--watts", "--quick"], "--watts fits published figures and takes --json only"),
        (["--keep", "runs.jsonl"], "--keep goes with --assumptions, which takes --case, --seeds, --quick and --json"),
        (["--assumptions", "--plot", "page.html"], "--keep goes with --assumptions"),
        (["--assumptions", "--case", "steady"], "case must be one of clean"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(tmp_path, words, said):
    done = validate(tmp_path, *words)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_cases_of_what_fitted_assumes_are_made_on_held_out_seeds_and_kept(tmp_path):
    words = ("--assumptions", "--case", "long", "--quick", "--keep", "runs.jsonl")

    printed = validate(tmp_path, *words)
    result = json.loads(validate(tmp_path, *words, "--json").stdout)

    assert printed.returncode == 0
    assert "tasks over several quanta" in printed.stdout
    assert [row["key"] for row in result["cases"]] == ["long"]
    assert [run["seed"] for run in result["runs"]] == [700_000]
    assert len((tmp_path / "runs.jsonl").read_text("utf-8").splitlines()) == 1


def test_assumed_watts_are_printed_with_each_left_out_processors_error(tmp_path):
    done = validate(tmp_path, "--watts")
    result = json.loads(validate(tmp_path, "--watts", "--json").stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert "Intel Xeon Gold 6130" in done.stdout
    assert f"busy {result['busy_factor']:.2g}, which held {100 * result['held']:.1f} % of the loads" in done.stdout
    assert {row["kind"] for row in result["table"]} >= {row["kind"] for row in result["left_out"]}


def test_the_papers_tables_are_printed_beside_what_is_computed_from_them(tmp_path):
    done = validate(tmp_path, "--published")
    result = json.loads(validate(tmp_path, "--published", "--json").stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert set(result) == {"table 1", "table 2", "table 3", "table 4", "figure 11"}
    assert "The TProf paper's table 3, computed from its printed figures" in done.stdout
    assert "neither its watts nor its counters are printed" in done.stdout
    assert "nan" not in done.stdout.lower()


def test_an_interrupt_ends_it_and_its_processes_without_a_traceback(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment["TMPDIR"] = str(tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "validate", "--case", "steady"], cwd=tmp_path, env=environment,
        text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline_s = time.monotonic() + 60
    # The first simulation has begun once its session's folder is there.
    while not list(tmp_path.glob("tprof-validate-*/*")) and time.monotonic() < deadline_s:
        time.sleep(0.05)

    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 130
    assert "Traceback" not in said
    assert not list(tmp_path.glob("tprof-validate-*"))
