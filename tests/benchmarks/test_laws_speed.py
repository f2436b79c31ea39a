"""`laws.measure` gives a figure with a target for each model; how fast they are is not tested."""

import json

from tprof.analysis.theory import energy_scalability as cores
from tprof.analysis.theory import strong_scaling as scaling
from tprof.benchmarks.overhead import laws_speed as laws


def test_each_model_has_its_figure_and_the_result_is_plain():
    result = laws.measure(laws.QUICK)

    measured = {figure["name"].partition(":")[0] for figure in result["figures"]}
    assert measured == {*scaling.ALGORITHMS, *scaling.TWO_LEVEL_ALGORITHMS, *cores.ALGORITHMS}
    assert all(figure["target"] == laws.QUICK.evaluations / laws.MILLION for figure in result["figures"])
    assert json.loads(json.dumps(result, allow_nan=False)) == result
