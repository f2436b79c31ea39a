"""Two functions of one run side by side: calls, spread, and whether they differ."""

import pytest
from support.programs import TPROF
from support.runs import Work, write_run
from tprof.analysis.compare.two_tasks import two_tasks

import tprof


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    place = tmp_path_factory.mktemp("two") / "t.tprof"
    works = [Work("old", 40, 0.004), Work("new", 20, 0.003), Work("same", 40, 0.004)]
    return tprof.load(write_run(place, works)).profile()


def test_calls_spread_and_difference_are_those_of_the_instances(profile):
    found = two_tasks(profile, ["old"], ["new"])

    assert (found.a.calls, found.b.calls) == (40, 20)
    assert found.a.seconds.mean == pytest.approx(0.004, rel=0.03)
    assert found.a.seconds.least < found.a.seconds.mean < found.a.seconds.most
    assert found.time.ratio[0] == pytest.approx(0.75, abs=0.03)
    assert found.time.ratio_low[0] < 0.75 < found.time.ratio_high[0]
    assert found.time.chance[0] < 0.001
    assert found.energy.ratio[0] == pytest.approx(0.75, abs=0.03)
    assert found.energy.chance[0] < 0.05


def test_functions_that_take_the_same_are_not_called_different(profile):
    found = two_tasks(profile, ["old"], ["same"])

    assert found.time.low[0] <= 0 <= found.time.high[0]
    assert found.energy.chance[0] > 0.05
    assert found.as_plain()["a"]["calls"] == 40


def test_a_function_that_was_not_called_has_no_comparison(profile):
    assert two_tasks(profile, ["old"], ["never"]) is None


@pytest.mark.thorough
def test_run_prints_the_comparison_at_the_end(tmp_path):
    import subprocess  # noqa: PLC0415 - for this test alone

    (tmp_path / "prog.py").write_text(
        "def old(): return sum(i * i for i in range(60_000))\n"
        "def new(): return sum(range(60_000))\n"
        "for _ in range(30): old(), new()\n"
    )

    def run(*words):
        return subprocess.run([TPROF, "run", *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    said = run("--energy", "estimate", "--no-summary", "--compare", "old,new", "--co2", "350", "prog.py")
    wrong = run("--compare", "old", "prog.py")

    assert said.returncode == 0
    assert "old (A) and new (B), with what they call" in said.stderr
    assert "time of B beside A: −" in said.stderr
    assert "the ratio of energies holds for the assumed model" in said.stderr
    assert "CO2 equivalents at 350 g/kWh (given)" in said.stderr
    assert wrong.returncode == 2
    assert "--compare takes two functions such as before,after" in wrong.stderr
