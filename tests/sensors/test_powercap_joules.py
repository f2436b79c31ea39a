"""Joules that powercap's counters advance by are the joules of the readings and of the accounts."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fake_trees
from support.fake_sensor import FakeSensor, is_missing, joules_by_hand, raw_readings, wait_for
from support.properties import examples

import tprof
from benchmarks.overhead.sensor_thread_cost import cpu_time_ns
from tprof.live import Meter

MODULUS = fake_trees.RANGE_UJ + 1
LONGEST_STEP_S = 0.004
"""Of the fake sensor: 200 W for so long are no jump, however late it is."""


@tprof.task
def spend(energy, joules):
    """Run until the counter has moved on by as much."""
    start_uj = int(energy.read_text())
    rounds = 0

    def spent():
        nonlocal rounds
        rounds += 1
        return (int(energy.read_text()) - start_uj) % MODULUS >= joules * 1e6

    wait_for(spent, f"{joules} J")
    return rounds > 0


def record(path, tree, watts, joules, *, start_uj=1_000_000, **options):
    """Return a recording of a task that takes so many joules, and what the counter showed meanwhile."""
    energy = tree.energy_of("intel-rapl:0")
    sensor = fake(watts=watts, start_uj=start_uj).drives(energy)
    with sensor, tprof.record(path, energy="powercap", counters="none", **options) as recording:
        assert joules == 0 or spend(energy, joules)
    return recording, sensor.truth(energy)


def fake(**given):
    return FakeSensor(modulus=MODULUS, longest_step_s=LONGEST_STEP_S, **given)


def read_j(profile):
    """Return all that was read: in the block, before it and after it."""
    # None: no reading was that early or that late, as on a busy machine; then the block has all joules.
    return profile.measured_j + sum(profile.info[name] or 0.0 for name in ("lead_in_j", "after_end_j"))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = fake_trees.laptop(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    return tree


@pytest.mark.parametrize("wraps", [0, 1], ids=["plain", "through the wrap"])
@pytest.mark.parametrize("watts", [15.0, 200.0])
def test_readings_are_what_the_counter_showed_between_two_looks(tmp_path, tree, watts, wraps):
    start_uj = MODULUS - round(watts * 0.6e6) if wraps else 1_000_000

    _, truth = record(tmp_path / "t.tprof", tree, watts, watts * 1.2, start_uj=start_uj)

    readings = tprof.load(tmp_path / "t.tprof").readings["package-0"]
    t_ns = readings.t_ns.tolist()
    assert not readings.missing.any()
    assert readings.modulus == MODULUS
    for since_ns, until_ns, value in zip([0, *t_ns], t_ns, readings.value, strict=False):
        assert truth.showed(str(value), since_ns, until_ns)
    least_j, most_j = truth.drawn_j(t_ns[1], t_ns[-2])
    step_j = watts * LONGEST_STEP_S
    assert least_j - step_j <= joules_by_hand(readings.value[1:-1], MODULUS) <= most_j + step_j
    assert (np.diff(readings.value.astype("i8")) < 0).sum() == wraps


@pytest.mark.parametrize("start_uj", [1_000_000, MODULUS - 40_000_000], ids=["plain", "through the wrap"])
def test_accounts_hold_the_joules_of_the_readings(tmp_path, tree, start_uj):
    recording, _ = record(tmp_path / "t.tprof", tree, 100.0, 60, start_uj=start_uj)

    readings = tprof.load(tmp_path / "t.tprof").readings["package-0"]
    profile = recording.profile()
    account = profile.accounts.loc["package-0"]
    assert read_j(profile) == pytest.approx(joules_by_hand(readings.value, MODULUS), rel=1e-9)
    assert account[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum() == pytest.approx(account["measured_j"])
    assert account["tasks_j"] > 0
    shown_j = max(int(thread.read()["energy_uj"].max()) for thread in tprof.load(recording.path).threads) / 1e6
    assert read_j(profile) / 2 < shown_j <= read_j(profile)
    assert profile.info["quality"] == "measured"


def test_parts_and_what_stands_around_are_recorded_and_not_added(tmp_path, tree):
    recording, _ = record(tmp_path / "t.tprof", tree, 100.0, 5)

    readings = tprof.load(tmp_path / "t.tprof").readings
    assert {name for name, one in readings.items() if one.quantity == "energy" and one.counted} == {"package-0"}
    assert {"core-0", "uncore-0", "psys"} <= set(readings)
    assert {entry["name"] for entry in tprof.load(recording.path).manifest["left_out"]} >= {"core-0", "psys"}


def record_steps(place, modulus, start_uj, steps_uj, *, range_uj):
    """Record a counter that takes these steps, each after the one before was seen."""
    tree = fake_trees.machine(place / "root", fake_trees.INTEL, {0: range(2)})
    energy = tree.zone("intel-rapl:0", "package-0", energy_uj=start_uj, range_uj=range_uj)
    value_uj = start_uj
    with (
        pytest.MonkeyPatch.context() as patch,
        energy.open("r+b", buffering=0) as file,
    ):
        patch.setenv("TPROF_SYSROOT", str(tree.root))
        with tprof.record(place / "t.tprof", energy="powercap", counters="none", idle_s=0) as recording:
            for step_uj in steps_uj:
                value_uj = (value_uj + step_uj) % modulus
                file.write(f"{value_uj}\n".ljust(10, "\n").encode())
                file.seek(0)
                shown = value_uj
                wait_for(lambda shown=shown: raw_readings(recording.path)["value"][-1] == shown, "the step's reading")
    assert not is_missing(raw_readings(recording.path)).any()
    return recording


@examples(15)
@given(
    modulus=st.integers(300_000, 500_000),
    steps_uj=st.lists(st.integers(1, 290_000), min_size=1, max_size=30),
    start=st.floats(0, 1, exclude_max=True),
)
def test_any_steps_through_any_number_of_wraps_are_counted_exactly(tmp_path_factory, modulus, steps_uj, start):
    place = tmp_path_factory.mktemp("steps")

    recording = record_steps(place, modulus, int(start * modulus), steps_uj, range_uj=modulus - 1)

    readings = tprof.load(recording.path).readings["package-0"]
    assert joules_by_hand(readings.value, modulus) == sum(steps_uj) / 1e6
    assert read_j(recording.profile()) == pytest.approx(sum(steps_uj) / 1e6, rel=1e-9)


@pytest.mark.parametrize("off_uj", [-1, 1])
def test_a_range_that_is_off_by_one_errs_by_one_a_wrap(tmp_path, off_uj):
    modulus, steps_uj = 400_000, [399_999, 200_000, 199_999, 2, 250_000]

    recording = record_steps(tmp_path, modulus, 0, steps_uj, range_uj=modulus - 1 + off_uj)

    assert read_j(recording.profile()) == pytest.approx((sum(steps_uj) + 2 * off_uj) / 1e6, abs=1e-9)


def test_without_a_range_a_wrap_gives_no_energy_for_its_interval(tmp_path, tree):
    for link in ("intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:1"):
        tree.unlink(link)
    tree.energy_of("intel-rapl:0").with_name("max_energy_range_uj").unlink()
    recording, _ = record(tmp_path / "t.tprof", tree, 15.0, 15, start_uj=MODULUS - 10_000_000)

    readings = tprof.load(recording.path).readings["package-0"]
    steps_uj = np.diff(np.delete(readings.value, np.flatnonzero(np.diff(readings.value) == 0)).astype("i8"))
    (fall,) = np.flatnonzero(steps_uj < 0)
    profile = recording.profile()
    assert readings.modulus is None
    assert read_j(profile) == pytest.approx((steps_uj.sum() - steps_uj[fall] - steps_uj[fall + 1]) / 1e6, rel=1e-9)
    assert any("seen to go backwards in 1 interval" in warning for warning in profile.info["warnings"])


def test_an_interval_that_may_hold_two_wraps_is_flagged(tmp_path, monkeypatch):
    tree = fake_trees.machine(tmp_path / "root", fake_trees.INTEL, {0: range(2)})
    energy = tree.zone("intel-rapl:0", "package-0", range_uj=4_999_999)
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    sensor = FakeSensor(watts=200.0, modulus=5_000_000, longest_step_s=LONGEST_STEP_S).drives(energy)

    with sensor, tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none") as recording:
        sensor.order(energy, text="unreadable\n")
        failed = wait_for(lambda: is_missing(raw_readings(recording.path)).sum() >= 3, "failures over 0.1 s")
        sensor.order(energy, text=None)
        wait_for(lambda: not is_missing(raw_readings(recording.path))[-1], "the counter's return")

    assert failed
    assert any("may have wrapped more than once" in warning for warning in recording.profile().info["warnings"])


@pytest.mark.parametrize(("options", "least_s"), [({}, 0.33), ({"idle_s": 0.8}, 0.8)])
def test_a_third_of_a_second_of_idle_is_read_before_the_block_runs(tmp_path, tree, options, least_s):
    recording, truth = record(tmp_path / "t.tprof", tree, 20.0, 0, **options)

    trace = tprof.load(recording.path)
    profile = trace.profile()
    first_ns = int(trace.readings["package-0"].t_ns[0])
    least_j, most_j = truth.drawn_j(first_ns, trace.start_ns)
    step_j = longest_quantum_j(profile)
    assert profile.info["lead_in_s"] >= 0.7 * least_s  # a busy machine takes its first reading later
    assert least_j - step_j <= profile.info["lead_in_j"] <= most_j + step_j
    assert int(trace.threads[0].read()["t_ns"][0]) >= trace.start_ns


@pytest.mark.parametrize("idle_s", [None, 0.0, 1.0])
def test_a_block_shows_what_was_drawn_in_it_however_long_the_lead_in(tmp_path, tree, idle_s):
    recording, truth = record(tmp_path / "t.tprof", tree, 40.0, 4, idle_s=idle_s)

    trace, live_j = tprof.load(recording.path), Meter(recording.path).energy().measured_j
    profile = trace.profile()
    least_j, most_j = truth.drawn_j(trace.start_ns, trace.end_ns)
    step_j = 2 * longest_quantum_j(profile)
    assert least_j >= 4 - 40 * LONGEST_STEP_S
    for measured_j in (profile.measured_j, live_j):
        assert least_j - step_j <= measured_j <= most_j + step_j
    assert profile.tasks["start_s"].between(0, profile.info["duration_s"]).all()
    assert profile.power["time_s"].iloc[0] == 0


def longest_quantum_j(profile):
    """Return what the quantum that the begin or the end of the block cuts may hold at most."""
    return max(float(one.energy_j.max()) for one in profile.recipe.whole)


@pytest.mark.parametrize("idle_s", [-1, 61, float("nan")])
def test_an_idle_time_out_of_range_is_refused(tmp_path, idle_s):
    with pytest.raises(tprof.UsageError, match="idle_s must be from 0 to 60 seconds"):
        tprof.record(tmp_path / "t.tprof", idle_s=idle_s)


def test_updates_are_looked_for_closely_as_far_as_the_budget_allows(tmp_path, tree):
    close = {}
    for share in (0.0, 0.5):
        path = tmp_path / f"{share}.tprof"
        record(path, tree, 50.0, 60, poller_share=share)
        readings = tprof.load(path).readings["package-0"]
        changed = np.flatnonzero(np.diff(readings.value.astype("i8")) != 0) + 1
        close[share] = (readings.window_ns[changed] < 300_000).mean()

    assert close[0.5] > close[0.0]


def test_sources_that_are_slow_to_read_are_polled_less_often_within_the_budget(tmp_path, tree):
    (tree.root / "proc/stat").write_text("".join(f"cpu{number} 1 2 3 4 5 6 7\n" for number in range(20_000)))

    with tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none", poller_share=0.02):
        assert any(polling_share() < 0.04 for _ in range(20))


def polling_share():
    """Return the share of a core that polling takes in a second."""
    begin_ns, begin_cpu_ns = time.monotonic_ns(), cpu_time_ns()
    time.sleep(1)
    return (cpu_time_ns() - begin_cpu_ns) / (time.monotonic_ns() - begin_ns)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_of_a_core_out_of_range_is_refused(tmp_path, share):
    with pytest.raises(tprof.UsageError, match="poller_share must be from 0 to 1 of a core"):
        tprof.record(tmp_path / "t.tprof", poller_share=share)
