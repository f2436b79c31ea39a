"""A fit of equation 1 finds the true coefficients, states its errors, and rejects runs that cannot separate them."""

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.models.calibration import Observations, counter_models, fit
from tprof.analysis.models.calibration.counter_models import fit_counters
from tprof.analysis.models.calibration.measured_runs import Table, counters_table, read_csv

from tprof.errors import UsageError

SHARED = Path(__file__).resolve().parents[2].parent / "shared/data/bsc_power_modelling"
COUNTERS = [
    "instructions", "cpu-cycles", "L1-dcache-load-misses", "L1-dcache-store-misses", "L1-icache-load-misses",
    "LLC-loads", "LLC-load-misses", "LLC-stores", "LLC-store-misses", "sumutil",
]  # fmt: skip
TRUE = (1.1, 0.08, 0.19, 8.0, 5.2)
KERNELS = {"pipeline": (2.8, 0.5, 0.1), "chain": (0.7, 0.1, 0.0), "l2": (1.2, 60.0, 1.0), "llc": (0.8, 25.0, 22.0),
           "memory": (0.4, 9.0, 9.0), "mixed": (1.9, 20.0, 4.0)}  # fmt: skip


def observed(true=TRUE, *, cores=(1, 2, 4), hz=3.3e9, noise=0.0, factor=1.0, kernels=KERNELS):
    """Runs of each kernel at each number of cores; `factor` is on what the cores draw."""
    random = np.random.default_rng(0)
    rows = [(name, n, *(n * part for part in parts)) for name, parts in kernels.items() for n in cores]
    kernel, n, ipc, l2, llc = (np.array(column) for column in zip(*rows, strict=True))
    a, b, c, c1, c2 = true
    power_w = factor * (a * ipc + b * l2 + c * llc + c1 * n) + c2
    power_w = power_w * (1 + noise * random.standard_normal(len(n)))
    return Observations(power_w, n.astype(float), ipc, l2, llc, kernel, np.full(len(n), hz))


def joined(*parts):
    names = [field.name for field in dataclasses.fields(Observations)]
    return Observations(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def found(calibration):
    one = calibration.coefficients
    return one.a, one.b, one.c, one.c1, one.c2


@given(st.tuples(*(st.floats(0.01, 20) for _ in range(5))))
@examples(40, quick=3)
def test_without_noise_the_coefficients_are_found(true):
    calibration = fit(observed(true))

    assert found(calibration) == pytest.approx(true, rel=1e-5, abs=1e-6)
    assert calibration.goodness.r2 == pytest.approx(1.0)
    assert calibration.goodness.left_out_error < 1e-5


@pytest.fixture(scope="module")
def noisy():
    """Return runs whose power has noise, and the coefficients found from them."""
    runs = observed(noise=0.03)
    return runs, found(fit(runs))


@given(factor=st.floats(0.1, 50))
@examples(20, quick=3)
def test_coefficients_follow_the_unit_of_power(noisy, factor):
    runs, coefficients = noisy
    scaled = dataclasses.replace(runs, power_w=runs.power_w * factor)

    assert found(fit(scaled)) == pytest.approx([factor * one for one in coefficients], rel=1e-6, abs=1e-9)


def test_the_order_of_runs_does_not_matter(noisy):
    runs, coefficients = noisy
    order = np.random.default_rng(1).permutation(len(runs))

    assert found(fit(runs.where(order))) == pytest.approx(coefficients, rel=1e-6)


def test_intervals_hold_the_truth_and_errors_are_those_of_the_noise():
    goodness = fit(observed(noise=0.02)).goodness

    assert all(
        low <= true * 1.2 and high >= true * 0.8
        for true, (low, high) in zip(TRUE, goodness.intervals.values(), strict=True)
    )
    assert 0.005 < goodness.error < 0.03
    assert goodness.left_out_error < goodness.mean_error / 5
    assert 0.005 < goodness.residual_share < 0.06


def test_one_number_of_cores_cannot_tell_c1_from_c2():
    with pytest.raises(UsageError, match=r"all runs had 4 active cores.*C1.*C2.*another number"):
        fit(observed(cores=(4, 4, 4)))


def test_too_few_runs_are_refused():
    with pytest.raises(UsageError, match="needs at least 8 runs"):
        fit(observed(cores=(1,)))


def first(count, of):
    """Return the first ones of some rows."""
    return type(of)(*(value[:count] if isinstance(value, np.ndarray) else value for value in vars(of).values()))


def test_as_many_runs_as_are_needed_are_enough():
    assert fit(first(8, observed())).coefficients.c1 > 0
    with pytest.raises(UsageError, match="needs at least 8 runs"):
        fit(first(7, observed()))


def test_as_many_rows_as_are_needed_are_enough():
    table = table_of(np.linspace(50, 80, 30), np.arange(30))

    assert fit_counters(first(20, table)).groups == 2
    with pytest.raises(UsageError, match="a fit needs at least 20 rows, got 19"):
        fit_counters(first(19, table))


def test_a_counter_that_is_not_there_is_left_out_and_named():
    runs = dataclasses.replace(observed(), l2_gbs=np.full(len(observed()), np.nan))

    calibration = fit(runs)

    assert calibration.left_out == ("b",)
    assert calibration.coefficients.b == 0
    assert calibration.coefficients.columns == ("instructions", "cycles", "llc_refs")


def test_columns_that_go_together_are_named():
    runs = observed(noise=0.01)
    runs = dataclasses.replace(runs, llc_gbs=0.3 * runs.l2_gbs)

    warnings = fit(runs).goodness.warnings

    assert any("b, c can hardly be separated from the other coefficients" in text for text in warnings)


def test_an_idle_run_gives_the_idle_power_and_is_not_fitted():
    idle = Observations(*(np.array([value]) for value in (3.0, 0.0, 0.0, 0.0, 0.0, "idle", np.nan)))

    calibration = fit(joined(observed(), idle))

    assert calibration.idle_w == 3.0
    assert found(calibration) == pytest.approx(TRUE, rel=1e-5)


def test_a_lower_frequency_is_a_scale_of_the_cores():
    runs = joined(observed(), observed(hz=1.6e9, factor=0.4, cores=(1, 4)))

    calibration = fit(runs)

    assert found(calibration) == pytest.approx(TRUE, rel=1e-5)
    assert np.ravel(calibration.coefficients.scales) == pytest.approx([1.6e9, 0.4, 3.3e9, 1.0], rel=1e-5)
    assert [one.hz for one in calibration.other_frequencies] == [1.6e9]
    assert calibration.other_frequencies[0].package_w == pytest.approx(5.2, rel=1e-5)


def test_a_frequency_with_one_number_of_cores_takes_the_packages_watts_of_the_others():
    runs = joined(observed(), observed(hz=1.6e9, factor=0.4, cores=(2, 2)))

    (scale,) = fit(runs).other_frequencies

    assert scale.core == pytest.approx(0.4, rel=1e-5)
    assert scale.package_w == pytest.approx(5.2, rel=1e-5)


def test_turbo_steps_count_as_one_frequency():
    runs = observed()
    runs = dataclasses.replace(runs, hz=3.7e9 - 0.1e9 * (runs.active_cores - 1))

    assert fit(runs).coefficients.scales == ()


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public measurements are not here")
@pytest.mark.parametrize(
    ("name", "most", "mean"),
    [
        pytest.param("INTEL_Xeon_E5-2650_validation", 0.065, 0.185, marks=pytest.mark.thorough),  # seven times as long
        ("INTEL_Xeon_E5-2640_RenewIT_validation", 0.062, 0.136),
    ],
)
def test_a_program_left_out_is_predicted_on_public_measurements(name, most, mean):
    table = counters_table(read_csv(SHARED / f"{name}.csv.gz"), power="P", group="app", counters=COUNTERS)

    result = fit_counters(table)

    assert result.curve_error <= most
    assert result.line_error < result.mean_error
    assert result.mean_error == pytest.approx(mean, abs=0.001)


def test_a_fit_starts_no_threads_which_would_share_the_warning_filters(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("P,x,g\n" + "".join(f"{50 + i},{i},{'ab'[i % 2]}\n" for i in range(40)), encoding="utf-8")
    table = counters_table(read_csv(path), power="P", group="g", counters=None)
    started = []
    monkeypatch.setattr(threading.Thread, "start", started.append)

    fit_counters(table)

    assert started == []


def test_one_group_says_nothing_of_what_was_not_seen(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("P,x,g\n" + "".join(f"{50 + i},{i},a\n" for i in range(30)), encoding="utf-8")

    with pytest.raises(UsageError, match='all rows are of one group \\("a"\\)'):
        fit_counters(counters_table(read_csv(path), power="P", group="g", counters=None))


def table_of(power_w, x):
    """Return a table of one counter, with ten rows of each of the groups a, b, c."""
    group = np.repeat(["a", "b", "c"], 10)
    return Table(np.asarray(power_w, float), np.asarray(x, float)[:, None], ("x",), group)


def test_a_line_is_chosen_where_groups_lie_outside_each_other_and_power_is_linear():
    """A curve does not extrapolate: it is worse in each group that is left out."""
    x = np.concatenate([np.linspace(begin, begin + 1, 10) for begin in (1, 20, 50)])

    found = fit_counters(table_of(10 + 2 * x, x))

    assert found.chosen == "line"
    assert found.line_error == pytest.approx(0.0, abs=1e-9)
    assert found.curve_error > 0.1
    assert found.better_groups == found.groups == 3
    assert found.coefficients == pytest.approx({"x": 2.0, "constant": 10.0})
    assert found.left_out.predicted_w == pytest.approx(10 + 2 * x)


@pytest.mark.parametrize(("line_off", "chosen"), [(0.9, "line"), (1.1, "curve")])
def test_groups_are_counted_in_which_the_chosen_model_is_better(monkeypatch, line_off, chosen):
    """Errors of the curve are 10, 20 and 40 %, those of the line 30 % in a, and about 20 % in each of the others."""
    table = table_of(np.linspace(50, 80, 30), np.arange(30))
    factor = {
        "curve": np.repeat([1.1, 0.8, 1.4], 10),
        "line": np.repeat([1.3, 1 - 0.2 * line_off, 1 + 0.2 * line_off], 10),
    }
    predicted = {name: table.power_w * one for name, one in factor.items()}
    mean = np.full(30, table.power_w.mean())
    monkeypatch.setattr(counter_models, "_left_out", lambda *_: (predicted["line"], predicted["curve"], mean))

    found = fit_counters(table)

    assert found.chosen == chosen
    assert found.line_error == pytest.approx((0.3 + 0.4 * line_off) / 3)
    assert found.curve_error == pytest.approx(0.7 / 3)
    own = {"curve": [0.1, 0.2, 0.4], "line": [0.3, 0.2 * line_off, 0.2 * line_off]}
    assert found.by_group == pytest.approx(dict(zip("abc", own[chosen], strict=True)))
    assert found.better_groups == 2
    assert (found.left_out.predicted_w == predicted[chosen]).all()
    assert found.mean_error == pytest.approx(np.abs(mean / table.power_w - 1).mean())
