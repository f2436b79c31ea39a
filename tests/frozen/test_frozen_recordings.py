"""The figures of recordings that are made of integers are the frozen ones, whatever reads and shares the recording."""

import pytest
from frozen.figures import differences
from frozen.freeze import expected, view_of
from frozen.recordings import RECORDINGS

MOST = 12


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_has_its_frozen_figures(tmp_path, name) -> None:
    """With a table of instances and without: energies to 1e-9, fitted ones to a hundredth of their interval."""
    recording, path = RECORDINGS[name], tmp_path / f"{name}.tprof"
    recording.write(path)

    found = []
    for number, (view, before) in enumerate(zip(recording.views, expected(name), strict=True)):
        is_fitted = before["info"]["model"] == "fitted"
        for tables in ({}, {"tables": False}) if "model" in view else ({},):
            at = f"view {number}{' without tables' if tables else ''}"
            found += differences(before, view_of(path, view | tables), is_fitted=is_fitted, at=at)

    assert not found, "\n".join(["", *found[:MOST], f"{len(found)} differences"])
