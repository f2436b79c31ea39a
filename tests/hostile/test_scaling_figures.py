"""Whatever number a trace scales its figures by, they are finite; what no machine can have is left out and said."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from support import traces
from support.properties import examples
from tprof.analysis import build_profile

import tprof
from tprof.errors import UsageError
from tprof.live import Meter

ACCOUNTS = ["measured_j", "tasks_j", "runtime_j", "other_j", "idle_j"]
COEFFICIENTS = {"a": 1.0, "b": 0.1, "c": 0.2, "C1": 8.0, "C2": 5.0}
MODEL = {"format": 1, "coefficients": COEFFICIENTS, "scales": [], "residual_share": 0.1, "intervals": {"a": [0.5, 1.5]}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return traces.write(tmp_path_factory.mktemp("trace") / "whole.tprof")


@pytest.fixture
def trace(whole, tmp_path):
    return traces.copy(whole, tmp_path / "t.tprof")


def readings_of(trace):
    return trace / "readings" / "package-0.readings"


@pytest.mark.parametrize("unit", [1e308, 1001.0, 1e-300, 5e-324, 0.0, -1.0, math.inf, math.nan])
def test_a_unit_that_no_sensor_has_leaves_the_file_out_and_is_said(trace, unit):
    traces.set_header(readings_of(trace), unit=unit)

    loaded = tprof.load(trace)

    assert loaded.readings == {}
    (note,) = loaded.notes
    assert note.startswith(f"left out: {readings_of(trace)} is damaged: its unit is {unit:g}, and a sensor counts in ")
    assert note.endswith("6e-61 to 1000 joules or seconds; leave the file out")
    assert loaded.profile().accounts.empty
    assert Meter(trace).energy().quality == "none"


@pytest.mark.parametrize("unit", [1000.0, 1.0, 2.0**-14, 1e-9, 2.0**-200])
def test_a_unit_that_a_sensor_may_have_is_taken(trace, unit):
    traces.set_header(readings_of(trace), unit=unit)

    assert tprof.load(trace).readings["package-0"].unit == unit


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("static_power_w", {"package-0": 1e308}),
        ("static_power_w", {"package-0": -5.0}),
        ("estimate", {"idle_w": 1e308, "per_core_w": 5.0}),
        ("estimate", {"idle_w": 1.0, "per_core_w": -1.0}),
    ],
)
def test_watts_that_nothing_draws_are_left_out_and_said(trace, key, said):
    traces.set_json(trace / "manifest.json", **{key: said})

    loaded = tprof.load(trace)

    assert loaded.notes == (f"manifest.json: {key!r} is damaged, and left out",)
    assert loaded.profile().info["static_power_w"] == {}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"coefficients": COEFFICIENTS | {"a": 1e308}},
            "its coefficients are not a, b, c, C1, C2, each from 0 to 1e+09",
        ),
        ({"coefficients": COEFFICIENTS | {"C2": math.inf}}, "its coefficients are not"),
        ({"scales": [[1e300, 1.0]]}, "its scales are not pairs of a rising frequency, to 1e+12 Hz, and a factor"),
        ({"scales": [[1e9, 1e300]]}, "its scales are not pairs"),
        ({"scales": [[1e9, 1e-300]]}, "its scales are not pairs"),
        ({"residual_share": 1e300}, "its residual_share is no number from 0 to 1000"),
        ({"intervals": {"a": [0.0, math.inf]}}, "its intervals are not pairs of finite numbers by coefficient"),
        ({"intervals": {"a": 5}}, "its intervals are not pairs"),
    ],
)
def test_a_power_model_that_no_processor_has_is_not_used_and_it_is_said(trace, change, why):
    traces.set_json(trace / "manifest.json", power_model=MODEL | change)

    info = tprof.load(trace).profile().info

    assert any(f"the power model in the trace's manifest was not used: {why}" in text for text in info["warnings"])
    json.dumps(info, allow_nan=False)


@pytest.mark.parametrize("value", [1e308, 1e10, -1.0, math.nan])
def test_coefficients_that_no_processor_has_are_refused(trace, value):
    with pytest.raises(UsageError, match=r"coefficients are finite watts of 0 or more, at most 1e\+09; got "):
        build_profile(tprof.load(trace), model="linear", coefficients=COEFFICIENTS | {"C1": value})


def test_a_count_above_its_modulus_is_no_wrap(trace):
    """What counts to 10 and shows 1000 did not wrap when it shows 5."""
    rows = np.zeros(4, tprof.trace.layout.READING)
    rows["t_ns"], rows["value"] = np.arange(4) * 10**8, [1000, 5, 6, 7]
    traces.set_readings(readings_of(trace), rows, unit=1.0, modulus=10)

    account = tprof.load(trace).profile().accounts.loc["package-0"]

    assert account["measured_j"] == 1.0
    assert Meter(trace).energy().measured_j == 1.0


numbers = st.floats() | st.integers(-(2**70), 2**70)
SCALING = st.fixed_dictionaries(
    {
        "unit": st.floats(),
        "modulus": st.integers(0, 2**64 - 1),
        "values": st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3),
        "quality": st.sampled_from(["measured", "estimated", "simulated", "given"]),
        "static": numbers,
        "coefficient": numbers,
        "scale": st.tuples(numbers, numbers).map(list),
        "share": numbers,
        "clock": st.dictionaries(st.sampled_from(["start_ns", "block_start_ns"]), numbers),
    }
)


@given(said=SCALING)
@example(
    said={
        "unit": 1000.0, "modulus": 2**64 - 1, "values": [2**64 - 1, 0, 2**64 - 2], "quality": "given", "static": 1e9,
        "coefficient": 1e9, "scale": [1.0, 1000.0], "share": 1000, "clock": {},
    }
)  # fmt: skip
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_figures_are_finite_and_conserved_whatever_scales_them(whole, tmp_path, said):
    path = traces.copy(whole, tmp_path / "scaled.tprof")
    rows = np.zeros(3, tprof.trace.layout.READING)
    rows["t_ns"], rows["value"] = [0, 10**9, 2 * 10**9], said["values"]
    readings = readings_of(path)
    traces.set_readings(readings, rows, unit=said["unit"], modulus=said["modulus"])
    readings.write_bytes(readings.read_bytes().replace(b'"given"', json.dumps(said["quality"]).encode().ljust(7)))
    model = MODEL | {
        "coefficients": COEFFICIENTS | {"C1": said["coefficient"]}, "scales": [said["scale"]],
        "residual_share": said["share"], "intervals": {"a": said["scale"]},
    }  # fmt: skip
    keys = {"static_power_w": {"package-0": said["static"]}, "power_model": model, "clock": said["clock"]}
    traces.set_json(path / "manifest.json", **keys)

    profile = tprof.load(path).profile("cputime")

    accounts = profile.accounts[ACCOUNTS].astype(float)
    assert not np.isinf(accounts.to_numpy()).any()
    assert (accounts.dropna() >= 0).all(axis=None)
    for _, row in accounts.dropna().iterrows():
        assert row[ACCOUNTS[1:]].sum() == pytest.approx(row["measured_j"], rel=1e-9)
    figures = profile.summary().select_dtypes("number").to_numpy(float)
    assert not np.isinf(figures).any()
    assert not np.isinf(profile.tasks.select_dtypes("number").to_numpy(float)).any()
    json.dumps(profile.info, allow_nan=False)
