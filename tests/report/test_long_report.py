"""The page of a long recording, which is read window by window, shows what that of the whole one does."""

from __future__ import annotations

import numpy as np
import pytest
from support import nested_runs
from tprof.analysis.report.profile_page import page_data
from tprof.analysis.report.timeline import timeline_data

import tprof


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> tprof.Trace:
    """Return a recording of thousands of nested, suspended and moved instances."""
    path = tmp_path_factory.mktemp("long") / "x.tprof"
    return tprof.load(nested_runs.write(path, np.random.default_rng(1), events=12_000))


def test_the_page_of_windows_has_the_figures_of_the_whole(trace):
    """All but the sample of points, the order of siblings in the flame graph, and the order of equal durations."""
    whole, parts = page_data(trace.profile()), page_data(trace.profile(tables=False, window_samples=1_500))

    assert parts.keys() == whole.keys()
    for key in whole.keys() - {"flame", "longest", "instances", "expected"}:
        assert parts[key] == whole[key], key
    assert parts["instances"]["views"] == whole["instances"]["views"]
    assert [parts["instances"][key] for key in ("count", "unresolved", "cpus", "names")] == [
        whole["instances"][key] for key in ("count", "unresolved", "cpus", "names")
    ]
    assert {code: rows["duration_ns"] for code, rows in parts["longest"].items()} == {
        code: rows["duration_ns"] for code, rows in whole["longest"].items()
    }
    assert sorted(parts["flame"]["nodes"]["energy_j"]) == sorted(whole["flame"]["nodes"]["energy_j"])


def test_lanes_of_windows_are_few_and_add_up(trace):
    """Merged pieces hold all segments of the lanes, and their own time."""
    whole = timeline_data(trace.profile())

    parts = timeline_data(trace.profile(tables=False, window_samples=1_500), pieces=600)

    assert sum(lane["pieces"] for lane in parts["lanes"]) <= 600
    assert parts["segments"] == whole["segments"]
    assert parts["not_drawn"] == 0
    assert parts["merged"] > 0
    assert [lane["tid"] for lane in parts["lanes"]] == [lane["tid"] for lane in whole["lanes"]]
    assert parts["windows"]


def test_the_error_of_instances_is_of_a_slice_of_a_long_recording(trace):
    """A window in its middle is replayed, which here is nearly all of it."""
    whole = trace.profile().expected_errors

    parts = trace.profile(tables=False, window_samples=1_500).expected_errors

    assert list(parts.columns) == list(whole.columns)
    assert parts["instances"].sum() <= whole["instances"].sum()
    assert len(whole) == 0 or len(parts) > 0
