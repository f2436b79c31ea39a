"""The interval of a mean holds the mean of all instances that could have run, of however few it was made."""

import io
import json
import math

import numpy as np
import pytest
from scipy.special import stdtrit
from support.command_line import tprof as command
from tprof.analysis.operating_points.scales import NORMAL_95, student
from tprof.analysis.profile.intervals import mean_half, run_half

import tprof
from tprof.cli import summary
from tprof.trace import merge

MEAN_J, SPREAD_J = 10.0, 2.0
READINGS = 20
"""Of each instance."""
T_OF_TWO = 4.302653
"""Student's t of two degrees of freedom."""


def write(path, joules, **options):
    """Write a session of one thread that runs tasks in turns, a second each: `joules` (instances, tasks) are theirs."""
    instances, tasks = np.shape(joules)
    t_ns = np.arange(instances * tasks + 1) * 1_000_000_000
    thread = {
        "t_ns": t_ns,
        "instance": [*range(1, instances * tasks + 1), 0],
        "task": [*(list(range(tasks)) * instances), -1],
        "cpu": np.zeros(len(t_ns), int),
        "cpu_ns": t_ns,
    }
    read_ns = np.arange((len(t_ns) - 1) * READINGS + 1) * (1_000_000_000 // READINGS)
    readings = np.interp(read_ns, t_ns, np.concatenate([[0.0], np.cumsum(np.ravel(joules))]))
    names = [f"task{number}" for number in range(tasks)]
    tprof.write_trace(path, tasks=names, threads=[thread], energy={"package-0": (read_ns, readings)}, **options)
    return path


@pytest.mark.parametrize("instances", [2, 3, 5, 20])
def test_the_interval_of_a_mean_of_few_instances_holds_in_95_of_100(tmp_path, instances):
    joules = np.random.default_rng(1).normal(MEAN_J, SPREAD_J, (instances, 4000 // instances))

    table = tprof.load(write(tmp_path / "t.tprof", joules)).profile("cputime").summary()

    holds = (table["energy_mean_low_j"] <= MEAN_J) & (table["energy_mean_high_j"] >= MEAN_J)
    assert 0.94 <= holds.mean() <= 0.98


@pytest.mark.parametrize("instances", [2, 3, 5, 20])
@pytest.mark.parametrize("error_j", [0.5, 2.0, 6.0])
def test_with_the_error_of_a_model_it_holds_too(instances, error_j):
    draw, tries = np.random.default_rng(2), 50_000
    energy_j = draw.normal(MEAN_J, SPREAD_J, (tries, instances))
    mean_j = energy_j.mean(axis=1) + draw.normal(0.0, error_j, tries)

    count, of_model_j = np.full(tries, instances), np.full(tries, error_j)
    half_j = mean_half(energy_j.std(axis=1, ddof=1), count, run_half(count, np.zeros(tries), of_model_j))

    assert 0.945 <= (np.abs(mean_j - MEAN_J) <= half_j).mean() <= 0.99


def test_students_t_is_exact_enough():
    freedom = np.concatenate([np.linspace(1, 40, 500), [1e2, 1e4, 1e9, math.inf]])

    assert student(freedom) == pytest.approx(stdtrit(freedom, 0.975), rel=1e-6)
    assert student(math.inf) == pytest.approx(NORMAL_95, rel=1e-4)
    assert math.isnan(student(0))


def test_a_single_instance_has_the_energy_that_it_used_but_its_mean_has_no_interval(tmp_path):
    profile = tprof.load(write(tmp_path / "t.tprof", [[10.0, 3.0]])).profile("cputime")
    shown = io.StringIO()
    summary.show(profile, shown)

    row = profile.summary().loc["task0"]
    assert row["energy_j"] == pytest.approx(10.0)
    assert row["energy_low_j"] <= row["energy_j"] <= row["energy_high_j"]
    assert math.isnan(row["energy_mean_low_j"])
    assert math.isnan(row["energy_mean_high_j"])
    assert row["resolved"]
    assert "10 J (one instance)" in shown.getvalue()
    assert "one instance: the spread between instances is unknown" in shown.getvalue()
    assert "10 J (one instance)" in profile.summary()._repr_html_()


def test_json_says_nothing_of_an_interval_that_is_not_known(tmp_path):
    out = command("summary", write(tmp_path / "t.tprof", [[10.0, 3.0]]), "--json", cwd=tmp_path).stdout

    row = json.loads(out)["tasks"][0]
    assert (row["energy_mean_low_j"], row["energy_mean_high_j"]) == (None, None)
    assert row["energy_low_j"] <= 10 <= row["energy_high_j"]


def test_hosts_with_one_instance_each_show_the_spread_between_them(tmp_path):
    parts = [write(tmp_path / f"{joules}", [[joules]], host={"hostname": f"n{joules}"}) for joules in (9.0, 10.0, 11.0)]
    merge.merge(parts, tmp_path / "job.tprof")

    job = tprof.load(tmp_path / "job.tprof").profile("cputime").summary().loc["task0"]

    half_j = T_OF_TWO * 1.0 / math.sqrt(3)
    assert (job["energy_mean_low_j"], job["energy_mean_high_j"]) == pytest.approx((10 - half_j, 10 + half_j), rel=0.02)
    alone = merge_of_one(parts[0], tmp_path)
    assert math.isnan(alone["energy_mean_low_j"])


def merge_of_one(part, folder):
    merge.merge([part], folder / "alone.tprof")
    return tprof.load(folder / "alone.tprof").profile("cputime").summary().loc["task0"]
