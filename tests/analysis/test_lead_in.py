"""What a sensor was read before the recorded block begins is no part of its figures, and serves the fit."""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import traces
from support.properties import examples
from tprof.analysis import TABLE_1
from tprof.analysis.attribution.quanta import Quanta
from tprof.analysis.report.profile_page import page_data

import tprof
from tprof.cli.summary import show
from tprof.live import Meter

MS = 1_000_000
SECOND_NS = 10**9


def begin_block(path, t_ns, end_ns=None):
    """Say where the block begins, as the recorder does, and perhaps where it ended."""
    clock = json.loads((path / "manifest.json").read_text())["clock"]
    traces.set_json(path / "manifest.json", clock=clock | {"block_start_ns": t_ns})
    if end_ns is not None:
        traces.set_json(path / "end.json", end_ns=end_ns)
    return path


def recorded(path, *, begin_ms=333, end_ms=433, idle_w=40.0, busy_w=40.0):
    """One core runs a task from the begin of the block to its end, 20 ms before the sensor's last reading."""
    t_ms = np.arange(0, end_ms + 21)
    power_w = np.where((t_ms[:-1] >= begin_ms) & (t_ms[:-1] < end_ms), busy_w, idle_w)
    begin, end = begin_ms * MS, end_ms * MS
    thread = {
        "t_ns": [begin, end], "instance": [1, 0], "task": [0, -1], "cpu_ns": [0, end - begin],
        "instructions": [0, 10**6], "cycles": [0, 10**6], "l2_refs": [0, 0], "llc_refs": [0, 0],
    }  # fmt: skip
    energy = {"package-0": (t_ms * MS, np.append(0.0, np.cumsum(power_w * 1e-3)))}
    tprof.write_trace(path, tasks=["work"], threads=[thread], energy=energy)
    return begin_block(path, begin, end)


def test_totals_begin_with_the_block_and_the_lead_in_stands_apart(tmp_path):
    """A tenth of a second at 40 W is 4 J, whatever was read before."""
    profile = tprof.load(recorded(tmp_path / "t.tprof")).profile()

    account = profile.accounts.loc["package-0"]
    assert account["measured_j"] == pytest.approx(4.0)
    assert account["tasks_j"] == pytest.approx(4.0)
    assert profile.info["duration_s"] == pytest.approx(0.1)
    assert profile.info["domains"][0]["measured_j"] == pytest.approx(4.0)
    assert profile.info["lead_in_s"] == pytest.approx(0.333)
    assert profile.info["lead_in_j"] == pytest.approx(0.333 * 40)
    assert profile.info["after_end_s"] == pytest.approx(0.02)
    assert profile.info["after_end_j"] == pytest.approx(0.8)


@pytest.mark.parametrize("cut_us", [400, 900])
def test_an_edge_whose_window_reaches_over_the_blocks_end_stays_before_it(cut_us):
    """The count changed somewhere in the millisecond before a reading, and in the midst of that the block ended."""
    count, window_ns = 10, MS
    edges_ns = np.arange(count + 1) * 2 * MS
    domain = Quanta(
        "package-0", "package", 0, True, "measured", edges_ns, np.full(count, 0.01), np.ones(count, bool),  # noqa: FBT003
        np.zeros(count, bool), np.full(count + 1, window_ns * 1e-9), 1e-6, (),
    )  # fmt: skip
    begin_ns, end_ns = 2 * MS - cut_us * 500, 16 * MS + cut_us * 500

    cut, _ = domain.between(begin_ns, end_ns)

    half_ns = np.round(cut.window_s * 1e9 / 2).astype(int)
    assert (cut.edges_ns[0], cut.edges_ns[-1]) == (begin_ns, end_ns)
    assert (cut.edges_ns[1:-1] + half_ns[1:-1]).max() <= end_ns
    assert (cut.edges_ns[1:-1] - half_ns[1:-1]).min() >= begin_ns
    assert cut.window_s[2:-2] == pytest.approx(domain.window_s[2:8])


def test_a_lead_in_that_serves_the_fit_is_told_of_in_report_and_summary(tmp_path):
    told = "333 ms were read before the block began (13.3 J): they are in none of these figures"
    profile = tprof.load(recorded(tmp_path / "t.tprof")).profile()
    summary = io.StringIO()

    show(profile, summary)

    assert page_data(profile)["lead_in"] == told
    assert told in summary.getvalue().splitlines()
    assert page_data(tprof.load(traces.write(tmp_path / "whole.tprof")).profile())["lead_in"] is None


def test_time_0_of_every_table_is_the_blocks_begin(tmp_path):
    profile = tprof.load(recorded(tmp_path / "t.tprof")).profile()

    assert profile.tasks["start_s"].tolist() == [0.0]
    assert profile.power["time_s"].iloc[0] == 0.0
    assert profile.power["duration_s"].sum() == pytest.approx(0.1)
    assert (profile.power["package-0_w"] * profile.power["duration_s"]).sum() == pytest.approx(4.0)


def test_live_figures_begin_with_the_block(tmp_path):
    path = recorded(tmp_path / "t.tprof")
    ended = Meter(path).energy()
    (path / "end.json").unlink()

    meter = Meter(path)
    energy = meter.energy()

    assert energy.until_s == pytest.approx(0.12)
    assert energy.measured_j == pytest.approx(4.0 + 0.8)
    assert energy.tasks["work"].energy_j == pytest.approx(4.0)
    assert meter.read_j == pytest.approx(0.453 * 40)
    assert (ended.until_s, ended.measured_j) == pytest.approx((0.1, 4.0))


def test_a_quantum_that_the_blocks_begin_cuts_gives_its_part_by_time(tmp_path):
    path = traces.write(tmp_path / "t.tprof")
    begin_block(path, SECOND_NS // 4, 2 * SECOND_NS - SECOND_NS // 2)

    profile = tprof.load(path).profile()

    assert profile.measured_j == pytest.approx(5 * 0.75 + 20 * 0.5)
    assert profile.counted_accounts["tasks_j"] == pytest.approx(profile.measured_j)
    assert profile.info["lead_in_j"] == pytest.approx(1.25)
    assert profile.info["after_end_j"] == pytest.approx(10.0)


@examples(60)
@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["cputime", "fitted"]))
def test_block_lead_in_and_what_follows_sum_to_what_was_read(tmp_path_factory, one, other, model):
    path = recorded(tmp_path_factory.mktemp("lead") / "t.tprof", idle_w=7.0, busy_w=31.0)
    last_ns = 453 * MS
    begin_ns, end_ns = sorted((round(one * last_ns), round(other * last_ns)))
    assume(begin_ns < end_ns or model != "fitted")  # a block without length has nothing to fit to
    begin_block(path, begin_ns, end_ns)

    profile = tprof.load(path).profile(model)

    account = profile.accounts.loc["package-0"]
    given_j = account[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum()
    if begin_ns < end_ns:
        assert given_j == pytest.approx(account["measured_j"], abs=1e-12)
    block_j = 0.0 if math.isnan(account["measured_j"]) else account["measured_j"]
    assert block_j + profile.info["lead_in_j"] + profile.info["after_end_j"] == pytest.approx(353 * 7e-3 + 100 * 31e-3)


@pytest.mark.parametrize(
    ("model", "options"), [("linear", {"coefficients": TABLE_1}), ("fitted", {})], ids=["calibrated", "fitted"]
)
def test_static_power_is_found_with_the_lead_in(tmp_path, model, options):
    """The block itself holds no idle time."""
    path = recorded(tmp_path / "t.tprof", idle_w=3.0, busy_w=13.0)

    profile = tprof.load(path).profile(model, **options)

    assert profile.info["static_power_w"]["package-0"] == pytest.approx(3.0, rel=0.02)
    assert profile.tasks["static_j"].sum() == pytest.approx(0.3, rel=0.02)
    assert profile.tasks["dynamic_j"].sum() == pytest.approx(1.0, rel=0.02)


def test_without_a_word_of_where_the_block_begins_the_whole_is_the_block(tmp_path):
    profile = tprof.load(traces.write(tmp_path / "t.tprof")).profile()

    assert profile.measured_j == 25.0
    assert (profile.info["lead_in_s"], profile.info["lead_in_j"]) == (0.0, 0.0)
    assert (profile.info["after_end_s"], profile.info["after_end_j"]) == (0.0, 0.0)


@pytest.mark.parametrize("said", ["soon", -1, 1 << 63, 1.5, None])
def test_a_begin_that_is_no_time_is_as_if_it_were_not_there(tmp_path, said):
    path = begin_block(traces.write(tmp_path / "t.tprof"), said)

    assert tprof.load(path).profile().measured_j == 25.0


@pytest.mark.parametrize("key", ["block_start_ns", "start_ns"])
def test_a_begin_after_the_end_is_left_out_with_a_note(tmp_path, key):
    path = traces.write(tmp_path / "t.tprof")
    traces.set_json(path / "manifest.json", clock={"start_ns": 0, key: 3 * SECOND_NS})

    trace = tprof.load(path)

    assert trace.profile().measured_j == 25.0
    assert trace.notes == (f"manifest.json: '{key}' of 'clock' is after the end of the recording, and left out",)
