"""A trace that brings a calibrated model along is shared by it, with that model's own error in the intervals."""

import json

import numpy as np
import pytest

import tprof

MODEL = {
    "format": 1,
    "processor": "Test CPU",
    "date": "2026-11-20",
    "source": "tprof calibrate",
    "quality": "simulated",
    "coefficients": {"a": 2.0, "b": 0.0, "c": 0.0, "C1": 4.0, "C2": 5.0},
    "intervals": {"a": [1.9, 2.1]},
    "scales": [],
    "residual_share": 0.05,
}
MS = 1_000_000
HZ = 2e9


def trace_of(path, model, *, ipc=(1.0, 3.0), hz=(HZ, HZ)):
    """Two cores for a second, one task each, at their own IPC and frequency; 25 J a second in all."""
    threads = []
    for number in range(2):
        t_ns = np.arange(0, 1001, 10) * MS
        cycles = np.round(t_ns * 1e-9 * hz[number]).astype(np.int64)
        threads.append(
            {
                "t_ns": t_ns,
                "instance": np.append(np.full(100, number + 1), 0),
                "task": np.append(np.full(100, number), -1),
                "cpu": np.full(101, number),
                "cpu_ns": t_ns,
                "cycles": cycles,
                "instructions": np.round(cycles * ipc[number]).astype(np.int64),
                "tid": number + 1,
            }
        )
    at = np.arange(0, 1001) * MS
    tprof.write_trace(path, tasks=["slow", "fast"], threads=threads, energy={"package-0": (at, at * 25e-9)})
    manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    (path / "manifest.json").write_text(json.dumps(manifest | {"power_model": model}), encoding="utf-8")
    return tprof.load(path)


def test_auto_takes_the_calibrated_model_and_says_where_it_comes_from(tmp_path):
    profile = trace_of(tmp_path / "t.tprof", MODEL).profile()

    assert profile.info["model"] == "linear"
    assert "calibrated on Test CPU, 2026-11-20 (tprof calibrate, simulated)" in profile.info["model_why"]
    assert profile.info["coefficient_intervals"] == {"a": [1.9, 2.1]}
    # 20 J above C2 go by 4 + 2 IPC: 6 to 10.
    assert profile.summary()["energy_j"].to_dict() == pytest.approx({"fast": 2.5 + 12.5, "slow": 2.5 + 7.5})


def test_the_models_own_error_is_in_the_interval(tmp_path):
    sure = trace_of(tmp_path / "a.tprof", MODEL | {"residual_share": 0.0}).profile().summary()
    unsure = trace_of(tmp_path / "b.tprof", MODEL).profile().summary()

    half = (unsure["energy_high_j"] - unsure["energy_low_j"]) / 2
    before = (sure["energy_high_j"] - sure["energy_low_j"]) / 2
    assert half["fast"] ** 2 - before["fast"] ** 2 == pytest.approx((1.96 * 0.05 * 12.5) ** 2, rel=0.01)


def test_a_core_at_a_lower_frequency_draws_what_was_found_there(tmp_path):
    model = MODEL | {"scales": [[1e9, 0.5], [2e9, 1.0]]}

    profile = trace_of(tmp_path / "t.tprof", model, ipc=(1.0, 1.0), hz=(1e9, 2e9)).profile()

    dynamic_j = profile.tasks.set_index("task")["dynamic_j"].to_dict()
    assert dynamic_j == pytest.approx({"slow": 20 / 3, "fast": 40 / 3}, rel=1e-6)


def test_a_core_whose_cycles_are_not_known_draws_what_the_coefficients_say(tmp_path):
    coefficients = MODEL["coefficients"] | {"a": 0.0}
    model = MODEL | {"coefficients": coefficients, "scales": [[1e9, 0.5], [2e9, 1.0]]}

    profile = trace_of(tmp_path / "t.tprof", model, hz=(0.0, 2e9)).profile()

    dynamic_j = profile.tasks.set_index("task")["dynamic_j"].to_dict()
    assert dynamic_j == pytest.approx({"slow": 10.0, "fast": 10.0}, rel=1e-6)


def test_coefficients_that_are_given_come_before_those_of_the_trace(tmp_path):
    given = {"a": 0.0, "b": 0.0, "c": 0.0, "C1": 1.0}

    profile = trace_of(tmp_path / "t.tprof", MODEL).profile(coefficients=given)

    assert profile.summary()["energy_j"].to_dict() == pytest.approx({"fast": 12.5, "slow": 12.5})


@pytest.mark.parametrize(
    "hostile", [[], "x", {"format": 1}, MODEL | {"coefficients": {"a": 1e400}}, MODEL | {"scales": [[0, 1]]}]
)
def test_a_model_that_cannot_be_believed_is_refused_in_a_warning(tmp_path, hostile):
    profile = trace_of(tmp_path / "t.tprof", hostile).profile(model="auto")

    assert profile.info["model"] != "linear"
    assert any("power model in the trace's manifest was not used" in text for text in profile.info["warnings"])


def test_a_model_whose_counters_the_trace_lacks_is_named(tmp_path):
    model = MODEL | {"coefficients": MODEL["coefficients"] | {"c": 0.1}}

    info = trace_of(tmp_path / "t.tprof", model).profile().info

    assert info["model"] != "linear"
    assert "needs the counters llc_refs, which this trace lacks" in info["model_why"]
