"""Every model takes the static power that the recording itself shows while nobody runs."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from support import traces
from tprof.analysis import TABLE_1
from tprof.analysis.profile.answer import answer_of

import tprof
from benchmarks.simulator import ICE_LAKE, STATED, Core, Kernel, Package, Run, write
from tprof.live import Meter
from tprof.trace import layout

MS = 1_000_000


def recorded(path, *, idle_ms, idle_w, **options):
    """One core runs for a tenth of a second at 10 W above what the package draws idle."""
    t_ns = np.arange(idle_ms + 101) * MS
    power_w = np.where(np.arange(idle_ms + 100) < idle_ms, idle_w, idle_w + 10.0)
    begin, end = idle_ms * MS, (idle_ms + 100) * MS
    thread = {
        "t_ns": [begin, end], "instance": [1, 0], "task": [0, -1], "cpu_ns": [0, 100 * MS],
        "instructions": [0, 10**6], "cycles": [0, 10**6], "l2_refs": [0, 0], "llc_refs": [0, 0],
    }  # fmt: skip
    energy = {"package-0": (t_ns, np.append(0.0, np.cumsum(power_w * 1e-3)))}
    tprof.write_trace(path, tasks=["work"], threads=[thread], energy=energy, **options)
    return tprof.load(path)


def test_idle_time_tells_static_power_where_a_calibration_says_otherwise(tmp_path):
    trace = recorded(tmp_path / "t.tprof", idle_ms=300, idle_w=3.0)

    profile = trace.profile(model="linear", coefficients=TABLE_1)

    assert profile.info["static_power_w"] == pytest.approx({"package-0": 3.0})
    assert profile.tasks["dynamic_j"].sum() == pytest.approx(1.0)
    assert profile.tasks["static_j"].sum() == pytest.approx(0.3)


def test_without_enough_idle_time_the_calibrated_value_stands_in(tmp_path):
    trace = recorded(tmp_path / "t.tprof", idle_ms=50, idle_w=3.0)

    profile = trace.profile(model="linear", coefficients=TABLE_1)

    assert profile.info["static_power_w"] == {"package-0": 5.2}
    assert profile.tasks["dynamic_j"].sum() == pytest.approx(1.3 - 0.52)


@pytest.mark.parametrize(("cores", "static_w"), [(0.0, 3.0), (1.0, 5.2)])
def test_time_in_which_another_program_is_busy_is_not_idle(tmp_path, cores, static_w):
    recorded(tmp_path / "t.tprof", idle_ms=300, idle_w=3.0)
    t_ns = np.arange(0, 401, 10) * MS
    for name, used in (
        ("program", np.maximum(t_ns - 300 * MS, 0)),
        ("busy", np.maximum(t_ns - 300 * MS, cores * t_ns)),
    ):
        readings = np.zeros(len(t_ns), layout.READING)
        readings["t_ns"], readings["value"] = t_ns, used
        traces.add_cpu_times(tmp_path / "t.tprof", name, quantity=name, package=None, readings=readings)

    profile = tprof.load(tmp_path / "t.tprof").profile(model="linear", coefficients=TABLE_1)

    assert profile.info["static_power_w"] == pytest.approx({"package-0": static_w})


def test_time_in_which_a_task_waits_is_not_idle(tmp_path):
    t_ns = np.arange(401) * MS
    thread = {"t_ns": [0, 400 * MS], "instance": [1, 0], "task": [0, -1]}
    thread |= {name: [0, 1000] for name in ("cpu_ns", "instructions", "cycles", "l2_refs", "llc_refs")}
    energy = {"package-0": (t_ns, t_ns * 3e-9)}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["waits"], threads=[thread], energy=energy)

    profile = tprof.load(tmp_path / "t.tprof").profile(model="linear", coefficients=TABLE_1)

    assert profile.info["static_power_w"] == {"package-0": 5.2}


def test_what_the_manifest_says_of_static_power_is_believed_before_idle_time(tmp_path):
    trace = recorded(tmp_path / "t.tprof", idle_ms=300, idle_w=3.0, static_power_w={"package-0": 4.0})

    profile = trace.profile(model="linear", coefficients=TABLE_1)

    assert profile.info["static_power_w"] == {"package-0": 4.0}


COUNTED = Kernel("work", ipc=1.0, unseen_w=8.0)
STATIC_W = dataclasses.replace(STATED, static_w=12.0)


@pytest.fixture(scope="module")
def paused(tmp_path_factory):
    """One kind of task, 500 times 4 ms at 8 W with pauses of 2 ms, on a package that draws 12 W while nothing runs."""
    path = tmp_path_factory.mktemp("paused") / "x.tprof"
    begin_s = 0.33 + np.arange(500) * 6e-3
    core = Core(np.round(begin_s, 9), np.round(begin_s + 4e-3, 9), np.zeros(500, np.int64), np.ones(500))
    run = Run(Package(law=STATIC_W), [COUNTED], [core], float(begin_s[-1]) + 0.014, 1)
    write(path, ["work"], run, sensor=ICE_LAKE, seed=1)
    return tprof.load(path)


@pytest.mark.parametrize("model", ["auto", "cputime", "ipc", "fitted"])
def test_energy_above_static_power_means_the_same_under_each_model(paused, model):
    """The task takes 16 J above static power, and 24 J of it while it runs; `auto` finds no use for fitted powers."""
    profile = paused.profile(model=model)
    row = profile.summary().loc["work"]

    assert profile.info["static_power_w"]["package-0"] == pytest.approx(12.0, rel=2e-3)
    assert 0 < profile.info["static_error_w"]["package-0"] < 0.1
    assert row["dynamic_j"] == pytest.approx(16.0, rel=5e-3)
    assert row["power_w"] == pytest.approx(20.0, rel=2e-3)
    assert profile.info["warnings"] == []


def test_windows_and_a_session_that_has_ended_have_the_same_static_power(paused):
    whole = paused.profile(model="cputime")
    row = whole.summary().loc["work"]
    assert row["dynamic_low_j"] <= 16.0 <= row["dynamic_high_j"]

    parts = paused.profile(model="cputime", tables=False, window_samples=100)
    ended = Meter(paused.path).energy()

    pd.testing.assert_frame_equal(parts.summary(), whole.summary(), rtol=1e-9)
    assert ended.tasks["work"].energy_j == pytest.approx(whole.tasks["energy_j"].sum())


def test_doubts_of_a_fit_stay_where_another_model_shares_the_joules(tmp_path):
    """All the time a core is busy with one kind of task: the readings do not show what is static power."""
    begin_s = np.arange(500) * 4e-3
    core = Core(np.round(begin_s, 9), np.round(begin_s + 4e-3, 9), np.zeros(500, np.int64), np.ones(500))
    run = Run(Package(law=STATIC_W), [COUNTED], [core], 2.0, 1)
    write(tmp_path / "x.tprof", ["work"], run, sensor=ICE_LAKE, seed=1, counters=False)

    profile = tprof.load(tmp_path / "x.tprof").profile()
    row = profile.summary().loc["work"]

    assert profile.info["model"] == "cputime"
    assert row["dynamic_low_j"] <= 16.0 <= row["dynamic_high_j"]
    assert any("static power of package-0 is uncertain" in text for text in profile.info["warnings"])
    assert "known well" not in answer_of(profile).certainty
