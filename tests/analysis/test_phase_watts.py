"""A phase's watts are its own, whatever is drawn beside it and wherever in its window each value changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.models.calibration import observe

import tprof

MS = 1_000_000
PHASE_W = 30.0


def observed(path, phases_ms, beside_w, window_ms):
    """Return the watts of phases on one core; each reading, one a millisecond, lags by a random part of its window.

    Parameters
    ----------
    phases_ms : (n, 2) begin and end
    beside_w : what is drawn outside of them
    window_ms : (m,) one a reading, 1 at most; the last reading ends the recording
    """
    random = np.random.default_rng(len(window_ms))
    edges_ns = np.round(np.asarray(phases_ms, float).ravel() * MS).astype(np.int64)
    read_ns = (1 + np.arange(len(window_ms))) * MS
    window_ns = np.round(np.asarray(window_ms) * MS).astype(np.int64)
    changed_ns = read_ns - window_ns * random.random(len(read_ns))
    turns_ns = np.concatenate(([0], edges_ns, read_ns[-1:]))
    power_w = np.where(np.arange(len(turns_ns) - 1) % 2, PHASE_W, beside_w)
    joules = np.concatenate(([0.0], np.cumsum(power_w * np.diff(turns_ns) * 1e-9)))
    count = len(edges_ns)
    thread = {
        "t_ns": edges_ns,
        "instance": np.where(np.arange(count) % 2, 0, 1 + np.arange(count) // 2),
        "task": np.where(np.arange(count) % 2, -1, 0),
        "cpu": np.zeros(count, np.int64),
        "cpu_ns": edges_ns - edges_ns[0],
        "instructions": edges_ns - edges_ns[0],
        "cycles": edges_ns - edges_ns[0],
    }
    energy = {"package-0": (read_ns, np.interp(changed_ns, turns_ns, joules), window_ns)}
    tprof.write_trace(path, tasks=["spin@1"], threads=[thread], energy=energy, quality="measured")
    found = observe(tprof.load(path))
    return found.power_w[found.kernel == "spin"]


PHASE = st.tuples(st.floats(10.0, 30.0), st.floats(12.0, 60.0))


@given(PHASE, st.floats(0.0, 100.0))
@examples(30)
def test_what_is_drawn_beside_a_phase_is_not_its_own(tmp_path_factory, phase, beside_w):
    """A quantum that the phase's end cuts has joules of both sides."""
    begin_ms, length_ms = phase

    power_w = observed(
        tmp_path_factory.mktemp("watts") / "t.tprof", [(begin_ms, begin_ms + length_ms)], beside_w, np.zeros(120)
    )

    assert power_w == pytest.approx([PHASE_W], rel=1e-5)


@given(PHASE, st.floats(0.0, 100.0), st.data())
@examples(30)
def test_a_phase_is_off_by_no_more_than_the_windows_at_its_ends(tmp_path_factory, phase, beside_w, data):
    begin_ms, length_ms = phase
    window_ms = data.draw(st.lists(st.floats(0.001, 1.0), min_size=120, max_size=120))

    power_w = observed(
        tmp_path_factory.mktemp("watts") / "t.tprof", [(begin_ms, begin_ms + length_ms)], beside_w, window_ms
    )

    assert power_w == pytest.approx([PHASE_W], rel=1.0 / (length_ms - 4.0))


@pytest.mark.parametrize("beside_w", [0.0, 5.0, 100.0])
@pytest.mark.parametrize("widest_ms", [0.1, 1.0])
def test_phases_are_right_on_average(tmp_path, beside_w, widest_ms):
    random = np.random.default_rng(0)
    begin_ms = 20.0 + 80.0 * np.arange(100) + random.random(100)
    end_ms = begin_ms + 30.0 + random.random(100)

    power_w = observed(
        tmp_path / "t.tprof", np.column_stack([begin_ms, end_ms]), beside_w, widest_ms * random.random(8100)
    )

    error = power_w / PHASE_W - 1
    assert len(error) == 100
    assert abs(error.mean()) < 3 * error.std() / 10
    assert error.std() < widest_ms / 30
