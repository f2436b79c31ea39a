"""A calibrated model takes the static power that the recording itself shows while nobody runs."""

import numpy as np
import pytest
from support import traces
from tprof.analysis import TABLE_1

import tprof
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
