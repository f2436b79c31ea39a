"""`scripts/bench dask` gives every figure with its target; how large they are is not tested."""

import json

import pytest

pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

import tprof
from benchmarks.overhead import dask_cost


@pytest.mark.thorough
def test_each_target_has_its_figure():
    result = dask_cost.measure(dask_cost.QUICK)

    assert json.loads(json.dumps(result, allow_nan=False)) == result
    targets = {figure["name"]: figure["target"] for figure in result["figures"] if figure["target"]}
    assert list(targets.values()) == [1.05, 1.01, 200]
    assert all(figure["value"] > 0 for figure in result["figures"])


def test_the_part_to_bring_home_is_a_part(tmp_path):
    size_bytes = dask_cost.write_part(tmp_path / "hosts" / "host", 1)

    assert size_bytes > 1_000_000
    assert len(tprof.load(tmp_path / "hosts" / "host").threads[0].stream.description) > 0
