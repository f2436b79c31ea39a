"""The figures of recordings that are made of integers are the frozen ones, whatever reads and shares the recording."""

import pytest
from frozen.every import RECORDINGS
from frozen.figures import differences
from frozen.freeze import COMMANDS, PRINTED, expected, printed, view_of

MOST = 12
SAMPLES = {False: 60, True: 700}
"""Of a window, without a fit and with one, which reads them several times."""


def ways(view, *, is_fitted):
    """Return a view with a table of instances, without one, and read in many small windows."""
    if "model" not in view:
        return [view]
    without = view | {"tables": False}
    return [view, without, without | {"window_samples": SAMPLES[is_fitted]}]


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_has_its_frozen_figures(tmp_path, name) -> None:
    """Energies to 1e-9, fitted ones to a hundredth of their interval."""
    recording, path = RECORDINGS[name], tmp_path / f"{name}.tprof"
    recording.write(path)

    found = []
    for view, before in zip(recording.views, expected(name), strict=True):
        is_fitted = before["info"]["model"] == "fitted"
        for options in ways(view, is_fitted=is_fitted):
            found += differences(before, view_of(path, options), is_fitted=is_fitted, at=str(options))

    assert not found, "\n".join(["", *found[:MOST], f"{len(found)} differences"])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_line_prints_the_frozen_figures(tmp_path, name) -> None:
    path = tmp_path / f"{name}.tprof"
    RECORDINGS[name].write(path)

    found = list(differences(expected(PRINTED)[name], printed(path, COMMANDS[name]), is_fitted=False))

    assert not found, "\n".join(["", *found[:MOST], f"{len(found)} differences"])
