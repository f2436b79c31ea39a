"""Powers are fitted to a recording that is read window by window as to the whole, and its joules shared by them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs
from support.properties import examples
from support.streamed_profiles import assert_same_pools

import tprof
from benchmarks.simulator import ICE_LAKE, Drift, Effects, Mix, Package, Run, random_mix, stated, write
from benchmarks.simulator import Beside as DrawsMore
from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis import Profile
    from tprof.analysis.models.fitted import Fit

TASKS = (
    stated("short", 30e-6, 4.0, 0.05),
    stated("middle", 80e-6, 8.0, 0.05),
    stated("long", 200e-6, 12.0, 0.05),
)
UNEVEN = tuple(dataclasses.replace(task, duration_spread=0.5, length_exponent=0.4) for task in TASKS)
OTHER_PROCESSOR = "Prescott" if platform.machine() == "x86_64" else "ARMV8"
LATE = dataclasses.replace(ICE_LAKE, late_s=0.5e-3)


def simulated(path: Path, tasks: Sequence[Any] = TASKS, sensor: Any = ICE_LAKE, **effects: Any) -> tprof.Trace:
    """Write a run of 0.6 s on three cores."""
    mix = Mix(duration_s=0.6, cores=3)
    cores, package = random_mix(tasks, mix, seed=1), Package(effects=Effects(**effects))
    run = Run(package, [task.kernel for task in tasks], cores, mix.duration_s + mix.idle_s, 1)
    write(path, [task.name for task in tasks], run, sensor=sensor, seed=1, counters=False)
    return tprof.load(path)


def both_ways(trace: tprof.Trace, model: str, samples: int) -> tuple[Profile, Profile]:
    """Return the profile of the whole recording, and that of windows of so few samples."""
    parts = trace.profile(model, tables=False, window_samples=samples)
    return trace.profile(model), parts


def assert_same(whole: Profile, parts: Profile, rtol: float = 1e-9) -> None:
    """Compare two profiles; their sums are rounded otherwise, as other processors would do it."""
    pd.testing.assert_frame_equal(parts.summary(), whole.summary(), rtol=rtol, atol=1e-12)
    assert_same_within_intervals(whole.summary(), parts.summary())
    pd.testing.assert_frame_equal(parts.accounts, whole.accounts, rtol=1e-9, atol=1e-10)
    pd.testing.assert_frame_equal(in_order(parts.tasks), in_order(whole.tasks), rtol=rtol, atol=1e-9)
    assert parts.info["warnings"] == whole.info["warnings"]
    for name in ("static_power_w", "static_error_w"):
        assert parts.info[name] == pytest.approx(whole.info[name], rel=rtol)
    assert_same_pools(whole.info["native"], parts.info["native"], rel=1e-6)
    plain = [key for key in whole.info if key not in ("fitted", "static_power_w", "static_error_w", "native")]
    assert {key: parts.info[key] for key in plain} == {key: whole.info[key] for key in plain}
    fits = whole.recipe.fits, parts.recipe.fits
    assert list(fits[1]) == list(fits[0])
    for name in fits[0]:
        assert_same_fit(fits[0][name], fits[1][name], rtol)


def assert_same_within_intervals(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Compare mean energies with their own 95 % intervals: no more than rounding moves them."""
    half_j = (one["energy_mean_high_j"] - one["energy_mean_low_j"]) / 2
    moved_j = (other["energy_mean_j"] - one["energy_mean_j"]).abs()
    assert (moved_j <= 1e-9 * half_j + 1e-12 * one["energy_mean_j"]).all()


def in_order(tasks: pd.DataFrame) -> pd.DataFrame:
    """Sort instances by id."""
    return tasks.sort_values("instance").reset_index(drop=True)


def assert_same_fit(whole: Fit, parts: Fit, rtol: float) -> None:
    """Compare powers, uncertainty and what was found."""
    assert parts.power == pytest.approx(whole.power, rel=rtol)
    assert parts.static_w == pytest.approx(whole.static_w, rel=rtol, abs=1e-9)
    scale = np.sqrt(np.outer(np.diag(whole.covariance), np.diag(whole.covariance)))  # the largest that each could be
    assert (abs(parts.covariance - whole.covariance) <= rtol * scale + 1e-12).all()
    assert (parts.late_s, parts.together) == (whole.late_s, whole.together)
    assert [one.text for one in parts.findings] == [one.text for one in whole.findings]


@examples(40, quick=4)
@given(
    st.integers(0, 2**31), st.integers(20, 300), st.integers(1, 4), st.sampled_from([0.0, 0.2, 1.0]),
    st.sampled_from(["fitted", "auto"]),
)  # fmt: skip
def test_windows_of_any_size_give_the_fit_of_the_whole(seed, samples, domains, timed, model) -> None:
    """Nested, suspended and moved instances, on several packages; updates are known well, badly, or not."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(
            Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains, updates_ms=(2, 7), timed=timed
        )

        assert_same(*both_ways(tprof.load(path), model, samples))


@examples(30, quick=3)
@given(
    st.integers(0, 2**31), st.integers(20, 300), st.integers(1, 4), st.sampled_from([0.0, 0.2, 1.0]), st.integers(1, 3)
)  # fmt: skip
def test_windows_give_the_fit_of_the_whole_beside_native_threads(seed, samples, domains, timed, pools) -> None:
    """Pools work for tasks, for one of several and after these, on no known core."""
    with tempfile.TemporaryDirectory() as folder:
        path = nested_runs.write(
            Path(folder) / "x.tprof", np.random.default_rng(seed), domains=domains, updates_ms=(2, 7), timed=timed,
            pools=pools,
        )  # fmt: skip

        assert_same(*both_ways(tprof.load(path), "fitted", samples))


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        (set(), {}),
        ({"contention"}, {"beside": (DrawsMore(2, 0, 0.3),)}),
        ({"length"}, {"tasks": UNEVEN}),
        ({"drift", "lateness"}, {"sensor": LATE, "drift": Drift(linear=0.3)}),
    ],
    ids=["constant", "beside", "length", "late and drifting"],
)
def test_what_a_task_depends_on_is_found_and_shared_in_windows_too(tmp_path, kinds, options) -> None:
    """That may be in other windows: how long an instance runs, what runs beside a segment, where late updates were."""
    trace = simulated(tmp_path / "x.tprof", **options)

    whole, parts = both_ways(trace, "fitted", 2000)

    assert {one["kind"] for one in parts.info["fitted"]["findings"]} == kinds
    assert_same(whole, parts)


def test_a_window_of_time_is_fitted_in_windows_too(tmp_path) -> None:
    """Its ends cut segments and quanta."""
    trace = simulated(tmp_path / "x.tprof", sensor=LATE).between(0.2, 0.7)

    assert_same(*both_ways(trace, "fitted", 2000))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="constant", marks=pytest.mark.thorough),
        pytest.param({"tasks": UNEVEN}, id="length", marks=pytest.mark.thorough),
        pytest.param({"sensor": dataclasses.replace(ICE_LAKE, noise_j=1e-3)}, id="noisy sensor"),
        pytest.param({"sensor": LATE}, id="late", marks=pytest.mark.thorough),
    ],
)
def test_other_processors_find_the_same_powers(tmp_path, options) -> None:
    """The libraries of linear algebra add up in other orders there."""
    simulated(tmp_path / "x.tprof", **options)

    here, there = (fitted_by_command(tmp_path / "x.tprof", kind) for kind in (None, OTHER_PROCESSOR))

    assert_same_within_intervals(here, there)


def fitted_by_command(path: Path, processor: str | None) -> pd.DataFrame:
    """Return the tasks of a summary that a process makes whose linear algebra is that of a kind of processor."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "NPY_"))}
    if processor is not None:
        environment["OPENBLAS_CORETYPE"] = processor
    command = [sys.executable, "-m", "tprof", "summary", str(path), "--model", "fitted", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return pd.DataFrame(json.loads(done.stdout)["tasks"]).set_index("task").sort_index()


def test_a_recording_too_short_for_a_fit_says_so_in_windows_too(tmp_path) -> None:
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(0), domains=1))

    with pytest.raises(UsageError, match="needs 30 readings of the sensor"):
        trace.profile("fitted", tables=False, window_samples=50)


def test_progress_is_told_of_the_passes_of_the_fit(tmp_path) -> None:
    """What ran is gathered, powers are fitted, and readings are placed in time before instances are shared."""
    seen: list[tuple[str, int, int]] = []

    simulated(tmp_path / "x.tprof", sensor=LATE).profile(
        "fitted", tables=False, window_samples=4000, progress=lambda *how_far: seen.append(how_far)
    )

    passes = list(dict.fromkeys(doing for doing, _, _ in seen))
    assert passes == ["what ran", "powers of package-0", "times of readings", "instances"]
    for name in ("what ran", "times of readings", "instances"):
        counts = [(done, of) for doing, done, of in seen if doing == name]
        assert counts == [(number + 1, len(counts)) for number in range(len(counts))]
