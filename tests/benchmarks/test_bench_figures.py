"""The measurements of `tprof bench` give each figure with its target; how large they are is not tested."""

import json

from tprof.analysis.theory import energy_scalability as cores
from tprof.analysis.theory import strong_scaling as scaling
from tprof.benchmarks import measured_figures

from benchmarks.overhead import attribution_speed as analysis
from benchmarks.overhead import budget_reaction as budget
from benchmarks.overhead import hosts_speed as hosts
from benchmarks.overhead import laws_speed as laws


def test_each_target_has_its_figure_and_the_result_is_plain(tmp_path):
    result = analysis.measure(analysis.QUICK, directory=tmp_path)

    targets = {row.name: row.target for row in measured_figures.rows(result) if row.target}
    assert targets == {
        "20,000 samples, arrays to energies, 4 cores": "≤ 5",
        "20,000 samples, arrays to energies, 64 cores": "≤ 5",
        "20,000 samples, disk to profile.tasks, 4 cores": "≤ 10",
        "20,000 samples, disk to profile.tasks, 64 cores": "≤ 10",
        "20,000 samples, summary in windows, over reading and copying the bytes": "≤ 1.5",
        "20,000 samples, summary in windows, peak memory": "≤ 1,000",
        "20,000 samples of 64 threads, summary in windows, over reading and copying the bytes": "≤ 1.5",
        "20,000 recorded samples, summary in windows, over reading and copying the bytes": "≤ 1.5",
        "64 cores over 4 cores": "≤ 1.3",
        "peak memory, 4 cores": "≤ 3",
        "fitted over cputime, 20,000 samples of 20 tasks": "≤ 3",
        "fitted with 200 declared tasks that never ran, over none": "≤ 1.5",
        "report of 10,000 tasks besides the plot library": "≤ 10",
    }
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert list(tmp_path.iterdir()) == []


def test_each_model_has_its_figure_and_the_result_is_plain():
    result = laws.measure(laws.QUICK)

    measured = {figure["name"].partition(":")[0] for figure in result["figures"]}
    assert measured == {*scaling.ALGORITHMS, *scaling.TWO_LEVEL_ALGORITHMS, *cores.ALGORITHMS}
    assert all(figure["target"] == laws.QUICK.evaluations / laws.MILLION for figure in result["figures"])
    assert json.loads(json.dumps(result, allow_nan=False)) == result


def test_each_target_has_its_figure(tmp_path):
    result = budget.measure(budget.QUICK, directory=tmp_path)

    assert json.loads(json.dumps(result, allow_nan=False)) == result
    targets = [(figure["unit"], figure["target"]) for figure in result["figures"]]
    assert targets == [*[("ms", 50)] * 5, ("µs", 0.2), ("core", 0.01), ("core", 0.05)]
    assert all(figure["value"] is not None for figure in result["figures"])
    assert not list(tmp_path.iterdir())


def test_the_profile_of_hosts_has_its_figures(tmp_path):
    result = hosts.measure(hosts.QUICK, directory=tmp_path)

    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert [figure["target"] for figure in result["figures"]] == [1.5, 1.2, 0.6, 1.5, None, None, None]
    assert all(figure["value"] is not None for figure in result["figures"])
    assert not list(tmp_path.iterdir())
