"""The joules of a call: for pytest-benchmark, and as a function."""

import json
import subprocess
import sys

import pytest

import tprof
from tprof.testing import joules


def work(count=20_000):
    return sum(number * number for number in range(count))


def test_the_joules_of_a_call_have_an_interval_and_their_label():
    taken = joules(work, seconds=0.05, energy="estimate")

    assert taken.calls >= 2
    assert 0 < taken.low_j <= taken.energy_j <= taken.high_j
    assert taken.quality == "estimated"
    assert 0 < taken.seconds < 60


def test_tasks_inside_the_call_are_its_joules_too():
    inner = tprof.task(work)
    taken = joules(lambda: inner(200_000), seconds=0.05, energy="estimate")

    assert taken.energy_j > 0


def test_a_recording_inside_a_recording_is_refused(tmp_path):
    with (
        tprof.record(tmp_path / "outer.tprof", energy="none"),
        pytest.raises(tprof.UsageError, match="record"),
    ):
        joules(work, energy="estimate")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_seconds_must_be_positive(seconds):
    with pytest.raises(tprof.UsageError, match="seconds must be a positive number"):
        joules(work, seconds=seconds)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [(), ("--energy", "--energy-sensor", "estimate")])
def test_pytest_benchmark_keeps_joules_in_its_file(tmp_path, options):
    pytest.importorskip("pytest_benchmark")
    (tmp_path / "test_work.py").write_text(
        "def test_work(benchmark_energy):\n    assert benchmark_energy(sum, range(1000)) == 499500\n"
    )
    words = ["-p", "no:cacheprovider", "--benchmark-json", "b.json", "--benchmark-max-time", "0.05", *options]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=250
    )

    assert done.returncode == 0, done.stdout
    (one,) = json.loads((tmp_path / "b.json").read_text())["benchmarks"]
    assert one["extra_info"]["energy_j"] > 0
    assert one["extra_info"]["energy_quality"] == "estimated"
