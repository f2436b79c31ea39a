"""`analysis.measure` gives every figure of attribution with its target; how large they are is not tested."""

import json

from tprof.benchmarks import measured_figures
from tprof.benchmarks.overhead import attribution_speed as analysis


def test_each_target_has_its_figure_and_the_result_is_plain(tmp_path):
    result = analysis.measure(analysis.QUICK, directory=tmp_path)

    targets = {row.name: row.target for row in measured_figures.rows(result) if row.target}
    assert targets == {
        "20,000 samples, arrays to energies, 4 cores": "≤ 5",
        "20,000 samples, arrays to energies, 64 cores": "≤ 5",
        "20,000 samples, disk to profile.tasks, 4 cores": "≤ 10",
        "20,000 samples, disk to profile.tasks, 64 cores": "≤ 10",
        "64 cores over 4 cores": "≤ 1.3",
        "peak memory, 4 cores": "≤ 3",
        "report of 10,000 tasks besides the plot library": "≤ 10",
    }
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert list(tmp_path.iterdir()) == []
