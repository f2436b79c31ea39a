"""Every interval of an estimate holds what the error of its watts leaves open."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples
from support.traces import SECOND_NS
from tprof.analysis.profile.intervals import narrowed, widened
from tprof.analysis.report.profile_page import page_data
from tprof.benchmarks.suite.suite_tables import pooled

import tprof
from tprof.cli import summary
from tprof.sensors.assumed import generic_factors
from tprof.trace.estimate import WattsError, watts_error

ASSUMED = {"idle_w": 4.0, "per_core_w": 6.0, "given": False}
FACTORS = {"idle_factor": 2.0, "per_core_factor": 3.0}
ENDS = ("energy_low_j", "energy_high_j", "energy_mean_low_j", "energy_mean_high_j")


def estimated(path, *, idle_w=4.0, per_core_w=6.0, busy_s=((1.0, 0.5), (0.25, 1.0)), said=FACTORS, quanta=2):
    """Write an estimate of threads that run a task each second, busy for a part of it, and take its profile."""
    threads, seconds = [], max(len(one) for one in busy_s)
    for number, busy in enumerate(busy_s):
        cpu_s = np.concatenate(([0.0], np.cumsum(busy)))
        threads.append(
            {
                "t_ns": [second * SECOND_NS for second in range(len(busy) + 1)],
                "instance": [*(1 + number * 100 + second for second in range(len(busy))), 0],
                "task": [*((number + second) % 2 for second in range(len(busy))), -1],
                "cpu_ns": np.round(cpu_s * SECOND_NS).astype(np.int64).tolist(),
                "name": f"thread-{number}",
            }
        )
    edges_s = np.linspace(0.0, seconds, quanta + 1)
    drawn_j = idle_w * edges_s
    for busy in busy_s:
        times = np.arange(len(busy) + 1)
        drawn_j = drawn_j + per_core_w * np.interp(edges_s, times, np.concatenate(([0.0], np.cumsum(busy))))
    energy = {"package-0": (np.round(edges_s * SECOND_NS).astype(np.int64).tolist(), drawn_j.tolist())}
    tprof.write_trace(
        path, tasks=traces.TASKS, threads=threads, energy=energy, quality="estimated",
        static_power_w={"package-0": idle_w},
    )  # fmt: skip
    made_of = {"idle_w": idle_w, "per_core_w": per_core_w, "given": False, **said}
    traces.set_json(path / "manifest.json", estimate=made_of)
    return tprof.load(path).profile("cputime")


def assert_inside(value, low, high):
    assert (low <= value * (1 + 1e-6) + 1e-9).all()
    assert (value <= high * (1 + 1e-6) + 1e-9).all()


def test_no_instance_may_have_drawn_more_than_a_busy_core_and_all_idle_watts(tmp_path):
    profile = estimated(tmp_path / "t.tprof", busy_s=((0.1, 0.1), (1.0, 1.0)), quanta=1)

    tasks = profile.tasks
    most_w = (4.0 + 6.0) * max(FACTORS.values())
    assert (tasks["energy_high_j"] <= tasks["duration_s"] * most_w + 1e-9).all()
    assert (tasks["energy_high_j"] >= tasks["energy_j"]).all()


@examples(200)
@given(
    busy_s=st.lists(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5), min_size=1, max_size=3),
    quanta=st.integers(1, 12),
    idle_factor=st.floats(1.0, 10.0),
    per_core_factor=st.floats(1.0, 10.0),
    places=st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)),
)
def test_intervals_hold_the_energies_of_all_watts_within_the_error(
    tmp_path_factory, busy_s, quanta, idle_factor, per_core_factor, places
):
    folder = tmp_path_factory.mktemp("estimated")
    said = {"idle_factor": idle_factor, "per_core_factor": per_core_factor}
    real = (4.0 * idle_factor ** places[0], 6.0 * per_core_factor ** places[1])

    profile = estimated(folder / "assumed.tprof", busy_s=busy_s, quanta=quanta, said=said)
    truth = estimated(folder / "real.tprof", idle_w=real[0], per_core_w=real[1], busy_s=busy_s, quanta=quanta)

    tasks, summary, real_summary = profile.tasks, profile.summary(), truth.summary().loc[profile.summary().index]
    assert_inside(truth.tasks["energy_j"], tasks["energy_low_j"], tasks["energy_high_j"])
    assert_inside(real_summary["energy_j"], summary["energy_low_j"], summary["energy_high_j"])
    real, means = (table[summary["instances"] > 1] for table in (real_summary, summary))
    assert_inside(real["energy_mean_j"], means["energy_mean_low_j"], means["energy_mean_high_j"])
    total = profile.info["estimate"]
    assert_inside(np.array(truth.measured_j), total["energy_low_j"], total["energy_high_j"])


def test_idle_and_busy_watts_have_their_own_factor(tmp_path):
    profile = estimated(tmp_path / "t.tprof", busy_s=((1.0, 1.0),), quanta=1)

    total = profile.info["estimate"]
    assert profile.measured_j == pytest.approx(8 + 12)
    assert (total["energy_low_j"], total["energy_high_j"]) == pytest.approx((8 / 2 + 12 / 3, 8 * 2 + 12 * 3))


def test_text_report_and_json_say_how_wide_all_joules_are(tmp_path):
    profile, exact = (estimated(tmp_path / str(len(said)), said=said) for said in (FACTORS, {"given": True}))
    total, stream = profile.info["estimate"], io.StringIO()
    summary.show(profile, stream)

    said = f"the total could be {total['energy_low_j']:.3g} … {total['energy_high_j']:.3g} J (95 %)"
    assert said in stream.getvalue()
    assert stream.getvalue().count("assumed") == 1
    assert said in page_data(profile)["uncertainty"]
    assert summary.as_plain(profile)["info"]["estimate"]["energy_high_j"] == total["energy_high_j"]
    assert page_data(exact)["uncertainty"] is None


def test_watts_that_somebody_gave_are_taken_as_exact(tmp_path):
    profile = estimated(tmp_path / "t.tprof", said={"given": True})
    assumed = estimated(tmp_path / "a.tprof")

    assert profile.watts.is_none
    assert "from 4.0 W idle and 6.0 W a busy core, as given and taken as exact" in profile.info["sensor"]
    assert profile.summary(common=False)[[*ENDS]].equals(assumed.summary(common=False)[[*ENDS]])
    assert (profile.summary()["energy_high_j"] < assumed.summary()["energy_high_j"]).all()


def test_an_older_recording_whose_watts_were_assumed_has_the_error_of_an_unknown_processor(tmp_path):
    profile = estimated(tmp_path / "t.tprof", said={})

    assert profile.watts == WattsError(*generic_factors())
    assert "a busy core, typical of an unknown processor" in profile.info["sensor"]


@pytest.mark.parametrize("factor", [0.5, float("nan"), float("inf"), 10**400, "3", None])
def test_factors_that_mean_nothing_count_as_not_said(factor):
    assert watts_error({"estimate": {**ASSUMED, **FACTORS, "idle_factor": factor}}).idle == generic_factors()[0]
    assert watts_error({"estimate": [ASSUMED]}).is_none


def test_measured_joules_have_no_such_error(tmp_path):
    estimated(tmp_path / "t.tprof")
    path = traces.write(tmp_path / "measured.tprof", quality="measured")
    traces.set_json(path / "manifest.json", estimate=ASSUMED | FACTORS)

    profile = tprof.load(path).profile()

    assert profile.watts.is_none
    assert profile.info["estimate"] is None


def test_shares_and_what_is_resolved_do_not_depend_on_a_common_error(tmp_path):
    exact, assumed = (
        estimated(tmp_path / name, said=said, quanta=8).summary()
        for name, said in (("exact.tprof", {"given": True}), ("assumed.tprof", FACTORS))
    )

    columns = ["energy_j", "share", "resolved", "power_w", "energy_time_corr"]
    assert exact["resolved"].any()
    assert exact[columns].equals(assumed[columns])


def test_sums_above_static_power_and_powers_hold_the_error_of_the_watts(tmp_path):
    profile = estimated(tmp_path / "assumed.tprof", said=FACTORS, quanta=8)
    assumed, exact = profile.summary(), profile.summary(common=False)

    busy = profile.watts.busy
    assert assumed["dynamic_low_j"].to_numpy() == pytest.approx(exact["dynamic_low_j"].to_numpy() / busy)
    assert assumed["dynamic_high_j"].to_numpy() == pytest.approx(exact["dynamic_high_j"].to_numpy() * busy)
    assert (assumed["power_high_w"] > exact["power_high_w"]).all()
    assert (assumed["power_low_w"] <= exact["power_low_w"]).all()


def test_pooled_runs_hold_the_error_once(tmp_path):
    profiles = [estimated(tmp_path / f"{run}.tprof", quanta=8) for run in range(2)]
    one, both = profiles[0].summary(), pooled(profiles).loc[profiles[0].summary().index]

    assert both["energy_mean_low_j"].to_numpy() == pytest.approx(one["energy_mean_low_j"].to_numpy())
    assert both["energy_mean_high_j"].to_numpy() == pytest.approx(one["energy_mean_high_j"].to_numpy())
    assert (both["resolved"] == one["resolved"]).all()


@examples(200)
@given(st.floats(0.0, 1e3), st.floats(0.0, 1.0), st.floats(0.0, 1e3), st.floats(1.0, 20.0), st.floats(1.0, 20.0))
def test_narrowing_takes_out_what_widening_put_in(static_j, part, above_j, idle, busy):
    low_j, high_j = np.array([(static_j + above_j) * part]), np.array([static_j + above_j])
    error = WattsError(idle, busy)

    again = narrowed(*widened(low_j, high_j, np.array([static_j]), error), np.array([static_j]), error)

    assert again[0] == pytest.approx(low_j, rel=1e-9, abs=1e-9)
    assert again[1] == pytest.approx(high_j, rel=1e-9, abs=1e-9)
