"""`scripts/bench` runs a measurement of tprof itself, and refuses what it cannot do in a sentence."""

import json
from importlib import import_module

import pytest
from support.command_line import bench

from benchmarks.__main__ import MEASUREMENTS


@pytest.mark.parametrize(
    "name",
    ["laws", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("overhead", "analysis", "runtime"))],
)
def test_what_tprof_costs_is_printed_beside_targets(tmp_path, name):
    said = bench(name, "--quick", cwd=tmp_path).stdout

    assert "≤" in said
    assert "Python 3." in said, "the machine stands below the figures"
    assert "too short for figures to quote" in said


def test_a_quick_measurement_is_printed_as_json(tmp_path):
    done = bench("laws", "--quick", "--json", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)["laws"]["figures"]) > 5
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_has_its_extents(name):
    module = import_module(f"benchmarks.{MEASUREMENTS[name][0]}")

    assert callable(module.measure)
    assert module.FULL != module.QUICK


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("runtime", "--quick", "--workers", "0"), "a program needs at least 1 worker, got 0"),
        (("overhead", "--quick", "--size", "huge"), "the size of a program must be small or paper, got 'huge'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(tmp_path, words, sentence):
    done = bench(*words, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (2, f"tprof: {sentence}\n")
