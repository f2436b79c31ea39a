"""`tprof bench budget` gives each figure with its target; how large they are is not tested."""

import json

from tprof.benchmarks.overhead import budget_reaction as budget


def test_each_target_has_its_figure(tmp_path):
    result = budget.measure(budget.QUICK, directory=tmp_path)

    assert json.loads(json.dumps(result, allow_nan=False)) == result
    targets = [(figure["unit"], figure["target"]) for figure in result["figures"]]
    assert targets == [*[("ms", 50)] * 5, ("µs", 0.2), ("core", 0.01), ("core", 0.05)]
    assert all(figure["value"] is not None for figure in result["figures"])
    assert not list(tmp_path.iterdir())
