"""With --energy each test is a task, limits in joules fail, and a table ends the run; without it nothing changes."""

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from xml.etree import ElementTree as ET

import pytest

TESTS = """
import threading

import pytest
import tprof


@tprof.task
def work(n):
    return sum(i * i for i in range(n))


@pytest.mark.energy(max_j=1e-6)
def test_much():
    assert work(300_000)


@pytest.mark.energy(max_j=1000.0)
def test_threads():
    thread = threading.Thread(target=sum, args=(range(3_000_000),))
    thread.start()
    thread.join()


def test_wrong():
    work(10)
    raise ValueError


@pytest.mark.skip
def test_skipped(): ...
"""
ENERGY = ("--energy", "--energy-sensor", "estimate")


def run(folder, *words, plugin=()):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *words],
        cwd=folder, capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tested")
    (place / "test_energy.py").write_text(TESTS)
    (place / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    return place


@pytest.fixture(scope="module")
def recorded(folder):
    """Run the tests once with energy, a new baseline and a file of results."""
    kept = ("--energy-session", "kept.tprof", "--junitxml", "j.xml")
    return run(folder, *ENERGY, "--energy-baseline", "base.json", "--energy-update", *kept)


def test_the_table_has_each_test_that_ran_with_joules_and_their_label(recorded):
    assert "energy of tests (estimated)" in recorded.stdout
    rows = re.findall(r"J \(.* … .*J\) .*W .*test_energy.py::(\w+)", recorded.stdout)
    assert sorted(rows) == ["test_much", "test_threads", "test_wrong"]


def test_a_test_over_its_limit_fails_with_joules_interval_and_limit(recorded, folder):
    assert recorded.returncode == 1
    assert re.search(
        r"test_much took [\d.]+ mJ \(.* … .*\) \(estimated\), more than 1 µJ: @pytest.mark.energy\(max_j=1e-06\)",
        recorded.stdout,
    ), recorded.stdout
    assert "2 failed, 1 passed, 1 skipped" in recorded.stdout
    cases = ET.parse(folder / "j.xml").getroot().iter("testcase")  # noqa: S314 - pytest wrote it
    failed = {case.get("name") for case in cases if case.find("failure") is not None}
    assert failed == {"test_much", "test_wrong"}


def test_joules_of_a_test_include_those_of_tasks_inside_and_of_threads_it_starts(recorded, folder):
    del recorded
    tasks = json.loads((folder / "base.json").read_text())["runs"][0]["tasks"]

    joules = {name.partition("::")[2]: row["energy_mean_j"]["value"] for name, row in tasks.items()}
    assert joules["test_much"] > 10 * joules["test_wrong"]
    assert joules["test_threads"] > 10 * joules["test_wrong"]
    assert (folder / "kept.tprof" / "manifest.json").exists()


def test_pytest_finds_the_plugin_and_it_imports_nothing_of_tprof(folder):
    (point,) = entry_points(group="pytest11", name="tprof")
    code = "import sys, tprof_pytest; print([name for name in sys.modules if name.split('.')[0] in ('tprof', 'numpy')])"
    said = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)

    assert point.value == "tprof_pytest"
    assert said.stdout == "[]\n"


@pytest.mark.thorough
def test_without_an_option_tests_run_as_without_the_plugin(folder):
    words = ("-q", "--no-header", "-k", "not wrong")
    plain = run(folder, *words, "-o", "addopts=", plugin=("-p", "no:tprof", "-W", "ignore"))
    marked = run(folder, *words)

    took = re.compile(r" in [\d.]+s")
    assert took.sub("", marked.stdout) == took.sub("", plain.stdout)
    assert marked.returncode == plain.returncode == 0


@pytest.mark.thorough
def test_workers_of_xdist_join_one_recording(folder):
    pytest.importorskip("xdist")
    said = run(folder, *ENERGY, "-n", "2")

    assert said.returncode == 1
    assert "2 failed, 1 passed, 1 skipped" in said.stdout
    assert len(re.findall(r"W .*test_energy.py::(\w+)", said.stdout)) == 3, said.stdout


@pytest.mark.thorough
def test_a_baseline_of_several_runs_lets_a_test_fail_that_takes_three_times_as_much(tmp_path):
    text = "def test_loop():\n    sum(i * i for i in range(COUNT))\n"
    file = tmp_path / "test_loop.py"
    file.write_text(text.replace("COUNT", "400_000"))
    words = (*ENERGY, "--energy-baseline", "base.json")
    for _ in range(5):
        assert run(tmp_path, *words, "--energy-update").returncode == 0
    file.write_text(text.replace("COUNT", "4_000_000"))

    said = run(tmp_path, *words, "--energy-max-increase", "50%")

    assert said.returncode == 1, said.stdout
    assert re.search(r"test_loop took .* against the .* of 5 runs; the limit is \+50 %, chance of noise", said.stdout)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--energy-update",), "--energy-update needs --energy-baseline FILE"),
        (("--energy-baseline", "gone.json"), "cannot read the baseline gone.json"),
        ((*ENERGY, "--energy-max-increase", "much"), "--energy-max-increase takes 5% or NAME=5%"),
        (("--energy", "--energy-sensor", "magic"), "magic"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_test_runs(folder, words, sentence):
    said = run(folder, *words)

    assert said.returncode == pytest.ExitCode.USAGE_ERROR
    assert sentence in said.stdout + said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.thorough
def test_a_limit_that_is_no_number_of_joules_is_refused(tmp_path):
    (tmp_path / "test_bad.py").write_text("import pytest\n\n@pytest.mark.energy(max_j='much')\ndef test_it(): ...\n")

    said = run(tmp_path, *ENERGY)

    assert "takes a positive number of joules, got 'much'" in said.stdout
    assert said.returncode != 0
