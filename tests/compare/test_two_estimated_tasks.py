"""Two functions of a run without a sensor: what their energies share cancels, and what they do not share is counted."""

import io
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.estimated_runs import IDLE_FACTOR, IDLE_W, PER_CORE_FACTOR, PER_CORE_W, write_estimate
from support.properties import examples
from tprof.analysis.compare.two_tasks import IDLE, two_tasks

import tprof
from benchmarks.simulator import Core, Mix, random_mix, stated
from tprof.cli.two_tasks import show_two_tasks

CALL_S = 0.004
NAMES = ("a", "b", "c")


def tasks_of(ratio):
    return [stated("a", CALL_S, 1.0), stated("b", ratio * CALL_S, 1.0), stated("c", 0.003, 1.0)]


def in_turns(ratio, seed, **mix):
    """Return what cores do that run both, and the ratio of the joules of a call."""
    return random_mix(tasks_of(ratio), Mix(**mix), seed=seed), {}, ratio


def alone(ratio, seed):
    return random_mix(tasks_of(ratio)[:2], Mix(cores=1, duration_s=1.0), seed=seed), {}, ratio


def few_calls(ratio, seed):
    return random_mix(tasks_of(ratio)[:2], Mix(cores=1, duration_s=0.2), seed=seed), {}, ratio


def beside_tasks(ratio, seed):
    return in_turns(ratio, seed, cores=4, duration_s=1.0)


def with_pauses(ratio, seed):
    return in_turns(ratio, seed, cores=2, duration_s=2.0, busy=0.4)


def beside_programs(ratio, seed):
    """Another program, of which the recording knows nothing, keeps a core busy for half of the time."""
    (other,) = random_mix(tasks_of(ratio)[2:], Mix(cores=1, duration_s=0.5), seed=seed + 900)
    cores, _, truth = alone(ratio, seed)
    return cores, {"others": [other]}, truth


def waiting(ratio, seed):
    """B waits for half of its time."""
    cores, _, truth = alone(ratio, seed)
    return cores, {"parts": (1.0, 0.5, 1.0)}, truth / 2


def apart(ratio, seed):
    """A runs beside three others and B alone, so the idle watts are shared by four and by one."""
    first = random_mix(tasks_of(ratio)[:1], Mix(cores=4, duration_s=0.5, idle_s=0.3), seed=seed)
    (then,) = random_mix(tasks_of(ratio)[1:2], Mix(cores=1, duration_s=0.5, idle_s=0.9), seed=seed + 500)
    then = Core(then.begin_s, then.end_s, np.ones_like(then.task), then.scale)
    fields = ("begin_s", "end_s", "task", "scale")
    both = Core(*(np.concatenate([getattr(first[0], name), getattr(then, name)]) for name in fields))
    draw = np.random.default_rng(seed)
    idle_w = IDLE_W * IDLE_FACTOR ** (draw.standard_normal() / 1.96)
    busy_w = PER_CORE_W * PER_CORE_FACTOR ** (draw.standard_normal() / 1.96)
    return [both, *first[1:]], {}, ratio * (idle_w + busy_w) / (idle_w / 4 + busy_w)


def compared(case, ratio, seed):
    """Return the comparison of a run, and the true ratio."""
    cores, options, truth = case(ratio, seed)
    with tempfile.TemporaryDirectory() as folder:
        profile = write_estimate(Path(folder) / "t.tprof", NAMES, cores, seed=seed, **options).profile()
    return two_tasks(profile, ["a"], ["b"]), truth


@pytest.mark.parametrize("case", [few_calls, beside_tasks, beside_programs])
def test_a_fifth_more_is_decided_although_watts_are_assumed(case):
    found, truth = compared(case, 1.2, seed=3)

    assert found.is_of_model
    assert found.energy.chance[0] < 0.05
    assert found.energy.ratio_low[0] <= truth <= found.energy.ratio_high[0]


@pytest.mark.thorough
@pytest.mark.parametrize("case", [alone, few_calls, beside_tasks, with_pauses, beside_programs, waiting, apart])
def test_intervals_of_ratios_hold_the_truth_and_a_fifth_is_decided(case):
    held, decided = {}, {}
    for ratio in (1.0, 1.2):
        runs = [compared(case, ratio, seed) for seed in range(60)]
        held[ratio] = np.mean([one.energy.ratio_low[0] <= truth <= one.energy.ratio_high[0] for one, truth in runs])
        decided[ratio] = np.mean([one.energy.chance[0] < 0.05 for one, _ in runs])

    assert min(held.values()) >= 0.93
    assert decided[1.2] >= 0.9
    if case not in (waiting, apart):
        assert decided[1.0] <= 0.07, "these take the same"


@examples(80)
@given(
    seed=st.integers(0, 1000),
    ratio=st.floats(0.5, 2.0),
    cores=st.integers(1, 3),
    idle=st.floats(-1.0, 1.0),
    busy=st.floats(-1.0, 1.0),
)
def test_the_interval_holds_the_ratio_of_all_watts_within_their_error(seed, ratio, cores, idle, busy):
    ran = random_mix(tasks_of(ratio), Mix(cores=cores, duration_s=0.15), seed=seed)
    real = (IDLE_W * IDLE_FACTOR**idle, PER_CORE_W * PER_CORE_FACTOR**busy)
    with tempfile.TemporaryDirectory() as folder:
        assumed, true = (
            two_tasks(write_estimate(Path(folder) / str(at), NAMES, ran, seed=1, watts=watts).profile(), ["a"], ["b"])
            for at, watts in enumerate(((IDLE_W, PER_CORE_W), real))
        )

    if assumed is None:
        return
    (low,), (high,), (real_ratio,) = assumed.energy.ratio_low, assumed.energy.ratio_high, true.energy.ratio
    assert np.isnan(low) or low <= real_ratio * (1 + 1e-9)
    assert np.isnan(high) or real_ratio <= high * (1 + 1e-9)


def test_it_says_what_keeps_the_energy_undecided_and_for_which_model_it_holds(tmp_path):
    cores, _, _ = apart(0.8, seed=1)
    trace = write_estimate(tmp_path / "t.tprof", NAMES, cores, seed=1)
    table = trace.path / "tasks" / "00000000.jsonl"
    lines = (f'{{"task": {at}, "name": "{one}", "file": "/p.py", "line": {at}}}\n' for at, one in enumerate(NAMES))
    table.write_text("".join(lines))
    profile, stream = tprof.load(trace.path).profile(), io.StringIO()
    met = [{("a", "/p.py", 0)}, {("b", "/p.py", 1)}]

    show_two_tasks(profile, SimpleNamespace(patterns=["a", "b"], met=met), stream)

    said = " ".join(stream.getvalue().split())
    assert two_tasks(profile, ["a"], ["b"]).cause == IDLE
    assert "within noise" in said
    assert "how idle watts compare with busy ones" in said
    assert "holds for the assumed model: a busy core draws the same whatever it runs" in said
