"""Each task and operating point of a sweep has one row: means over its repeats, with intervals where it has some."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tprof.analysis.operating_points.measured import by_task
from tprof.analysis.operating_points.table import read
from tprof.benchmarks.sweep.sweep_page import panels
from tprof.benchmarks.sweep.sweep_tables import FIGURES, POINT_COLUMNS, at, ends, points_of, rows_of, write_csv

import tprof

GHZ = 10**9
INTERVALS = [
    "energy_low_j", "energy_high_j", "time_low_s", "time_high_s", "power_low_w", "power_high_w", "edp_low_js",
    "edp_high_js", "ed2p_low_js2", "ed2p_high_js2",
]  # fmt: skip


def run(energy_j, time_s, *, task="", setting=GHZ, repeat=1, quality="measured"):
    known = energy_j is not None
    return {
        "task": task, "setting": setting, "setting_unit": "Hz", "workers": 1, "repeat": repeat, "energy_j": energy_j,
        "energy_low_j": None, "energy_high_j": None, "time_s": time_s, "power_w": energy_j / time_s if known else None,
        "edp_js": energy_j * time_s if known else None, "ed2p_js2": energy_j * time_s**2 if known else None,
        "instances": 1, "quality": quality, "stalls_per_cycle": None, "llc_misses": None, "watts_factor": None,
    }  # fmt: skip


def test_every_figure_has_an_interval_of_its_own_columns():
    assert [column for figure in FIGURES for column in ends(figure)] == INTERVALS
    assert set(INTERVALS) <= set(POINT_COLUMNS)


def test_the_interval_is_students_over_the_repeats():
    (point,) = points_of([run(value, 2.0, repeat=number) for number, value in enumerate((9.0, 10.0, 11.0), 1)])

    half = 4.302652729911275 / math.sqrt(3)  # Student's 97.5 % with two degrees of freedom, deviation 1
    assert (point["energy_j"], point["repeats"]) == (10.0, 3)
    assert (point["energy_low_j"], point["energy_high_j"]) == pytest.approx((10 - half, 10 + half))
    assert (point["time_low_s"], point["time_high_s"]) == (2.0, 2.0)
    assert point["edp_high_js"] == pytest.approx(2 * (10 + half))
    assert point["power_low_w"] == pytest.approx((10 - half) / 2)


def test_one_run_has_no_interval_and_what_is_not_known_no_figure():
    single, unknown = points_of([run(5.0, 2.0), run(None, 3.0, task="short")])

    assert [single[column] for column in INTERVALS] == [None] * len(INTERVALS)
    assert (unknown["energy_j"], unknown["edp_js"], unknown["time_s"]) == (None, None, 3.0)


def test_of_repeats_that_differ_in_quality_the_least_sure_is_said():
    (point,) = points_of([run(5.0, 2.0, repeat=1), run(6.0, 2.0, repeat=2, quality="estimated")])

    assert point["quality"] == "estimated"


@given(st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1e-3, 1e3)), min_size=2, max_size=6))
def test_no_interval_is_below_zero_or_beside_its_mean(values):
    (point,) = points_of([run(energy_j, time_s, repeat=place) for place, (energy_j, time_s) in enumerate(values)])

    for figure in FIGURES:
        low, high = (point[column] for column in ends(figure))
        assert 0 <= low <= point[figure] * (1 + 1e-12)
        assert point[figure] <= high * (1 + 1e-12)


def test_figure_and_table_show_the_same_mean():
    slow = [run(value, 1.0, setting=GHZ, repeat=number) for number, value in enumerate((1.0, 2.0, 9.0), 1)]
    rows = [run(2.0, 1.0, setting=2 * GHZ), *slow]

    (panel,) = panels(rows)

    assert panel["tasks"][0]["energy"]["value"] == [2.0, 1.0]
    assert [point["energy_j"] for point in points_of(rows)] == [2.0, 4.0]


def test_the_summary_is_a_table_that_advice_reads(tmp_path):
    rows = [
        run(value, 1.0, setting=hz, repeat=number) for hz in (GHZ, 2 * GHZ) for number, value in enumerate((4, 5), 1)
    ]
    write_csv(tmp_path / "sweep-points.csv", points_of(rows), POINT_COLUMNS)

    (program,) = by_task(read(tmp_path / "sweep-points.csv"))

    assert program.energy_j.tolist() == [4.5, 4.5]


def counted(path):
    """Write two instances of one task with counters."""
    second = 10**9
    thread = {
        "t_ns": [0, second, 2 * second, 3 * second],
        "instance": [1, 0, 2, 0],
        "task": [0, -1, 0, -1],
        "cpu_ns": [0, second, second, 2 * second],
        "cycles": [0, 1000, 1000, 4000],
        "stalls_frontend": [0, 100, 100, 1100],
        "llc_misses": [0, 10, 10, 30],
    }
    energy = {"package-0": ([0, 3 * second], [0.0, 30.0])}
    tprof.write_trace(path, tasks=["work"], threads=[thread], energy=energy)
    return tprof.load(path).profile("cputime")


def test_what_counters_say_of_waiting_reaches_the_table_and_advice(tmp_path):
    _, task = rows_of(counted(tmp_path / "t.tprof"))

    assert task["stalls_per_cycle"] == pytest.approx(1100 / 4000)
    assert task["llc_misses"] == pytest.approx(30)
    kept = rows_of(counted(tmp_path / "u.tprof"))
    rows = [row for hz in (GHZ, 2 * GHZ) for row in at(kept, hz, 1, 1)]
    write_csv(tmp_path / "sweep.csv", rows)
    assert by_task(read(tmp_path / "sweep.csv"))[1].waiting == pytest.approx(1100 / 4000)
    assert np.isnan(pd.read_csv(tmp_path / "sweep.csv")["llc_misses"][0])
