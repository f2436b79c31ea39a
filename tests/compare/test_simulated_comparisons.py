"""Runs of the virtual processor, whose true joules are known: false alarms at their level, intervals that hold."""

import itertools
import math

import numpy as np
import pytest
from tprof.analysis.compare import compare_runs, figures_of

import tprof
from benchmarks.simulator import ICE_LAKE, Mix, Package, Run, random_mix, stated, write

BEFORE = (stated("short", 50e-6, 6.0), stated("middle", 200e-6, 8.0), stated("long", 800e-6, 12.0))
AFTER = (BEFORE[0], stated("middle", 200e-6, 10.0), BEFORE[2])
MIX = Mix(cores=2, duration_s=1.0)


def simulated(path, tasks, seed):
    """Return the figures of a run by `fitted`, and the true mean joules of each task above static power."""
    cores = random_mix(tasks, MIX, seed=seed)
    run = Run(Package(), [task.kernel for task in tasks], cores, MIX.duration_s + MIX.idle_s)
    truth = write(path, [task.name for task in tasks], run, sensor=ICE_LAKE, seed=seed, counters=False)
    joules = truth.dynamic_j + truth.static_j
    return figures_of(tprof.load(path).profile(model="fitted")), {
        task.name: joules[truth.task == number].mean() for number, task in enumerate(tasks)
    }


def test_a_task_that_draws_a_quarter_more_is_found_and_the_others_are_not(tmp_path):
    sides = [
        [simulated(tmp_path / f"{side}{seed}", tasks, 10 * place + seed) for seed in range(2)]
        for place, (side, tasks) in enumerate((("a", BEFORE), ("b", AFTER)))
    ]

    found = compare_runs(*([figures for figures, _ in side] for side in sides))

    assert found.tasks.loc["middle", "change"] in {"more", "unclear"}, "two runs a side may leave it open"
    assert found.tasks.loc["middle", "energy_mean_ratio"] > 1.1
    truth = [np.mean([true["middle"] for _, true in side]) for side in sides]
    row = found.tasks.loc["middle"]
    assert row["energy_mean_low_j"] <= truth[1] - truth[0] <= row["energy_mean_high_j"]


@pytest.mark.thorough
def test_pairs_of_runs_that_are_alike_differ_at_the_level_and_intervals_hold_the_truth(tmp_path):
    runs = [simulated(tmp_path / str(seed), BEFORE, seed) for seed in range(24)]
    changed = [simulated(tmp_path / f"more{seed}", AFTER, 100 + seed) for seed in range(12)]
    chances, held = [], []
    for (a, true_a), (b, true_b) in itertools.chain(zip(runs[::2], runs[1::2], strict=True), zip(runs, changed)):  # noqa: B905 - as many as changed
        found = compare_runs([a], [b]).tasks
        for name, row in found.iterrows():
            held.append(row["energy_mean_low_j"] <= true_b[name] - true_a[name] <= row["energy_mean_high_j"])
            if not any(b is one for one, _ in changed):
                chances.append(row["energy_mean_chance"])

    level = 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(chances))
    assert np.mean(np.array(chances) < 0.05) <= level
    assert np.mean(held) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / len(held))
