"""The noise of the equations is the banded covariance that it claims, and its sizes are found again."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.models.fitted.equations import Rows, Work
from tprof.analysis.models.fitted.findings import memory
from tprof.analysis.models.fitted.noise import SCALE_BOUNDS, Noise, instance_spread

MS = 1_000_000


def rows_of(lengths_ms, used=None):
    count = len(lengths_ms)
    edges_ns = np.round(np.concatenate(([0.0], np.cumsum(lengths_ms))) * MS).astype(np.int64)
    used = np.ones(count, bool) if used is None else np.array(used)
    return Rows(edges_ns, np.zeros(count + 1), np.ones(count), np.zeros(count), used, 1e-6, timed=True)


def work_of(lengths_ms, tasks):
    t_ns = np.round(np.concatenate(([0.0], np.cumsum(lengths_ms))) * MS).astype(np.int64)
    task = np.array(tasks, np.int32)
    return Work(t_ns, np.diff(t_ns) * 1e-9, task, np.zeros(len(task), np.int32), np.zeros(len(task), np.float32))


def dense(noise):
    band = noise.band()
    count = band.shape[1]
    full = np.diag(band[0])
    for lag in range(1, len(band)):
        for row in range(count - lag):
            full[row + lag, row] = full[row, row + lag] = band[lag, row]
    return full


@st.composite
def some_work(draw):
    lengths = st.lists(st.floats(0.1, 8.0), min_size=4, max_size=12)
    segments = draw(lengths)
    tasks = draw(st.lists(st.integers(0, 2), min_size=len(segments), max_size=len(segments)))
    rows = draw(st.lists(st.floats(0.5, 3.0), min_size=4, max_size=12))
    used = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    used[:2] = [True, True]
    return rows_of(rows, used), work_of(segments, tasks)


@given(some_work())
@examples(80)
def test_the_spread_of_instances_is_the_sum_of_their_parts(case):
    """An oracle of loops: what each segment ran in each row."""
    rows, work = case

    found = instance_spread(rows, [work], 2, 0.0)

    edges, count = rows.edges_ns, len(rows.used)
    ran = np.zeros((len(work.task), count))
    for segment, (begin, end) in enumerate(zip(work.t_ns[:-1], work.t_ns[1:], strict=True)):
        for row in range(count):
            ran[segment, row] = max(min(end, edges[row + 1]) - max(begin, edges[row]), 0) * 1e-9
    for task in range(2):
        parts = ran[work.task == task][:, rows.at]
        assert found.own[:, task] == pytest.approx((parts**2).sum(axis=0), rel=1e-9, abs=1e-18)
        if len(rows) > 1 and len(found.across) >= (ran > 0).sum(axis=1).max() - 1:
            expected = (parts[:, :-1] * parts[:, 1:]).sum(axis=0) * rows.linked
            assert found.across[0, :-1, task] == pytest.approx(expected, rel=1e-9, abs=1e-18)


@given(some_work(), st.floats(1e-4, 1.0), st.integers(1, 3))
@examples(60)
def test_whitening_is_that_of_a_covariance_without_negative_directions(case, spread2, lags):
    rows, work = case
    spread = instance_spread(rows, [work], 2, 0.0, most_lags=lags)
    count, random = len(rows), np.random.default_rng(0)
    noise = Noise(
        random.uniform(1e-9, 1e-6, count), random.uniform(1e-9, 1e-6, count), np.zeros(count - 1, bool),
        spread.own.sum(axis=1), spread.across.sum(axis=2), np.zeros(count), np.full(count, 1e-3), SCALE_BOUNDS,
        np.zeros(count), spread2=spread2, busy_rate=1e-5,
    )  # fmt: skip
    columns = random.normal(0.0, 1.0, (count, 2))

    white, determinant = noise.whiten(columns)

    covariance = dense(noise)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert white.T @ white == pytest.approx(columns.T @ np.linalg.solve(covariance, columns), rel=1e-6)
    assert determinant == pytest.approx(np.linalg.slogdet(covariance)[1], rel=1e-6)
    assert noise.misfit(columns[:, 0]) == pytest.approx((white[:, 0] ** 2).sum() + determinant, rel=1e-6)


def noise_of(count=3000):
    """Edges of 1 mJ, and instances whose deviation of 100 % makes 20 mJ."""
    edge, linked, nothing = np.full(count, 1e-6), np.ones(count - 1, bool), np.zeros(count)
    return Noise(
        edge, edge, linked, np.full(count, 4e-4), np.zeros((1, count)), nothing, np.full(count, 1e-3), SCALE_BOUNDS,
        nothing,
    )  # fmt: skip


def drawn(noise, random):
    return np.linalg.cholesky(dense(noise)) @ random.normal(0.0, 1.0, len(noise.before))


def test_the_sizes_of_the_noise_are_found_again():
    true = dataclasses.replace(noise_of(1500), spread2=0.05**2, edge_scale=2.0)
    residual = drawn(true, np.random.default_rng(3))

    found = noise_of(1500).sized(residual, scaled=True)

    assert np.sqrt(found.spread2) == pytest.approx(0.05, rel=0.15)
    assert found.edge_scale == pytest.approx(2.0, rel=0.3)


def test_rows_that_nothing_explains_get_noise_of_their_own():
    residual = drawn(noise_of(600), np.random.default_rng(4))
    residual[300] += 0.1

    found = noise_of(600).with_outliers(residual)

    assert found.outlier[300] > 100 * found.band()[0][100]
    assert (found.outlier > 0).sum() < 20


def test_noise_of_all_busy_rows_is_found_where_it_would_look_like_many_outliers():
    true = dataclasses.replace(noise_of(1500), spread2=1e-6, busy_rate=0.4)
    residual = drawn(true, np.random.default_rng(6))

    outliers = noise_of(1500).with_outliers(residual)
    found = outliers.sized(residual, scaled=True)

    assert (outliers.outlier > 0).mean() > 0.1
    assert found.busy_rate == pytest.approx(0.4, rel=0.3)
    assert found.edge_scale < 30
    assert (found.with_outliers(residual).outlier > 0).mean() < 0.02


def test_few_rows_that_nothing_explains_do_not_make_all_rows_noisy():
    residual = drawn(noise_of(600), np.random.default_rng(7))
    residual[::20] += 0.1

    found = noise_of(600).with_outliers(residual).sized(residual, scaled=True)

    # No more than what the edges of a row make.
    assert (found.busy_rate * found.busy_s).max() < 4e-6


def test_noise_without_memory_is_not_taken_for_a_load_and_a_lasting_load_is():
    random = np.random.default_rng(5)
    residual = random.normal(0.0, 1.0, 2000)
    lasting = residual + 0.8 * np.repeat(random.normal(0.0, 1.0, 200), 10)

    assert memory(residual) < 4
    assert memory(lasting) > 10
    assert memory(lasting * 1000) == pytest.approx(memory(lasting))
