"""Packages on which nothing runs, and counters that stand still while a task runs: a profile is made, and says so."""

import numpy as np
import pytest

import tprof

MS = 1_000_000
COUNT = 1000


def written(path, energy, begins_ms):
    """Return the trace of one thread that runs instances from one of these times to the next, on package 0."""
    t_ns, last = np.array(begins_ms) * MS, len(begins_ms) - 1
    thread = {
        "t_ns": t_ns,
        "instance": np.append(np.arange(last) + 1, 0),
        "task": np.append(np.arange(last) % 2, -1),
        "cpu_ns": t_ns,
        "cpu": np.zeros(last + 1, int),
        "package": 0,
    }
    read_ns = np.arange(COUNT) * MS
    energy = {name: (read_ns, joules, np.full(COUNT, MS // 2)) for name, joules in energy.items()}
    tprof.write_trace(path, tasks=["a", "b"], threads=[thread], energy=energy, quality="measured")
    return tprof.load(path)


def test_a_restless_package_on_which_nothing_runs_is_fitted(tmp_path):
    """Its noise cannot be told by the rows in which something ran: there is none."""
    draw = np.random.default_rng(1)
    jumps_j = np.where(draw.random(COUNT) < 0.3, draw.exponential(0.5, COUNT), 0.0)
    energy = {"package-0": np.arange(COUNT) * 0.02, "package-1": np.cumsum(0.01 + jumps_j)}

    profile = written(tmp_path / "t", energy, range(0, 804, 4)).profile(model="fitted")

    assert profile.accounts.loc["package-1", "tasks_j"] == 0
    assert profile.accounts.loc["package-0", "tasks_j"] == pytest.approx(0.8 * 20, rel=0.05)


@pytest.mark.parametrize("begins_ms", [[0, 999], [0, 1, 998, 999]], ids=["through it", "in three parts"])
def test_a_counter_that_stands_still_in_the_middle_of_a_task_is_said(tmp_path, begins_ms):
    joules = np.minimum(np.arange(COUNT), 500) * 0.02 + np.maximum(np.arange(COUNT) - 799, 0) * 0.02

    profile = written(tmp_path / "t", {"package-0": joules}, begins_ms).profile()

    (warning,) = [text for text in profile.info["warnings"] if "stuck" in text]
    assert warning == (
        "package-0 was stuck since 0.500 s of the recording for 0.3 s: what it drew meanwhile is in no figure"
    )
