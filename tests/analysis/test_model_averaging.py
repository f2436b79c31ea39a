"""Averages over models claim the error that they make, find effects that are there, and no others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.models.fitted.averaging import Group, Prior, average, not_negative
from tprof.analysis.models.fitted.products import LEAST_ROWS, MOST, crossed, times

WIDE = Prior(np.array([1.0]), np.array([1.0]))


def errors_and_claims(shared, rounds=60, rows=300):
    """Fit one power of 1 W to seconds whose noise, in part `shared`, is also that of the next."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(rounds):
        noise = random.normal(0.0, 0.1, rows + 1)
        energy_j = 1.0 + noise[1:] + shared * noise[:-1]
        fit = average(np.full((rows, 1), 10.0), energy_j * 10, WIDE, [], np.ones(1))
        found.append((fit.power[0] - 1.0, np.sqrt(fit.covariance[0, 0])))
    errors, claims = np.array(found).T
    return errors.std(), np.median(claims)


@pytest.mark.parametrize(("shared", "least", "most"), [(0.0, 0.9, 1.3), (1.0, 0.8, 1.2)])
def test_a_claimed_error_is_the_real_one_whether_quanta_share_noise_or_not(shared, least, most):
    real, claimed = errors_and_claims(shared)

    assert least < claimed / real < most


def with_effect(effect, seed, rows=1500):
    """Fit 4 and 10 W with a column that makes the second power depend on something by a part `effect`."""
    random = np.random.default_rng(seed)
    time = random.uniform(0.0, 1.0, (rows, 2))
    something = time[:, 1] * random.normal(0.0, 1.0, rows)
    something -= something.sum() / time[:, 1].sum() * time[:, 1]
    nothing = time[:, 0] * random.normal(0.0, 1.0, rows)
    energy_j = time @ [4.0, 10.0] + 10.0 * effect * something + random.normal(0.0, 1.0, rows)
    groups = [Group("something", "drift", np.array([2])), Group("nothing", "length", np.array([3]))]
    columns = np.column_stack([time, something, nothing])
    prior = Prior(np.full(2, 7.0), np.full(2, 7.0))
    return average(columns, energy_j, prior, groups, np.array([1.0, 1.0, 10.0, 4.0]))


@pytest.mark.parametrize("seed", range(5))
def test_an_effect_that_is_there_is_found_with_its_size_and_no_other(seed):
    found = with_effect(0.1, seed)

    assert found.chance["drift"] > 0.99
    assert found.chance["length"] < 0.5
    assert found.effect[2] == pytest.approx(0.1, abs=0.02)
    assert found.power == pytest.approx([4.0, 10.0], abs=0.4)


def test_without_effects_none_is_likely():
    chances = [with_effect(0.0, seed).chance["drift"] for seed in range(20)]

    assert np.median(chances) < 0.1
    assert max(chances) < 0.95


@given(rows=st.integers(0, 4000), columns=st.integers(1, 90), others=st.integers(1, 90), seed=st.integers(0, 9))
@examples(30)
def test_products_in_pieces_are_those_of_the_whole(rows, columns, others, seed):
    random = np.random.default_rng(seed)
    tall, beside = random.normal(size=(rows, columns)), random.normal(size=(rows, others))
    small = random.normal(size=(columns, others))

    assert times(tall, small) == pytest.approx(tall @ small, abs=1e-9)
    assert times(tall, small[:, 0]) == pytest.approx(tall @ small[:, 0], abs=1e-9)
    assert crossed(tall, beside) == pytest.approx(tall.T @ beside, abs=1e-9)
    assert crossed(tall, beside[:, 0]) == pytest.approx(tall.T @ beside[:, 0], abs=1e-9)


class Multiplied(np.ndarray):
    """An array that notes the shapes of its products: (a, b, c) for (a, b) times (b, c)."""

    noted: list[tuple[int, ...]] | None = None

    def __array_finalize__(self, of: object) -> None:
        self.noted = getattr(of, "noted", None)

    def __matmul__(self, other: np.ndarray) -> np.ndarray:
        self.noted.append((*self.shape, other.shape[1]))
        return np.asarray(self) @ np.asarray(other)


@pytest.mark.parametrize("product", [times, crossed])
@pytest.mark.parametrize(("columns", "others"), [(20, 30), (150, 200), (487, 487)])
def test_each_product_is_too_small_for_threads_and_of_many_rows(product, columns, others):
    tall = np.ones((500, columns)).view(Multiplied)
    tall.noted = []

    product(tall, np.ones((500 if product is crossed else columns, others)))

    assert max(a * b * c for a, b, c in tall.noted) <= MOST
    assert max(shape[1 if product is crossed else 0] for shape in tall.noted) >= LEAST_ROWS


def test_of_two_causes_that_explain_the_same_neither_is_certain():
    """Beside the one that is tried first each form of the other adds nothing, but it could stand in its place."""
    random = np.random.default_rng(2)
    time = random.uniform(0.5, 1.0, (1500, 1))
    one = time[:, 0] * random.normal(0.0, 1.0, 1500)
    other = one[:, None] + time * random.normal(0.0, 0.001, (1500, 6))
    target = 100 * (time[:, 0] + 0.1 * one) + random.normal(0.0, 1.0, 1500)
    forms = [Group(f"other {form}", "static", np.array([2 + form])) for form in range(6)]

    columns = 100 * np.column_stack([time, one, other])
    found = average(columns, target, WIDE, [Group("one", "drift", np.array([1])), *forms], np.ones(8))

    assert 0.05 < found.chance["drift"] < 0.95
    assert 0.05 < found.chance["static"] < 0.95
    assert found.chance["drift or static"] > 0.99


def test_an_effect_too_weak_to_be_found_widens_the_interval():
    """A column that goes with a power makes it uncertain by the scale of effects that cannot be seen."""
    random = np.random.default_rng(1)
    time = random.uniform(0.5, 1.0, (2000, 1))
    like_time = time + random.normal(0.0, 0.05, time.shape)
    target = 1e3 * time[:, 0] + random.normal(0.0, 1.0, 2000)
    prior, size = Prior(np.ones(1), np.ones(1)), np.ones(2)

    alone = average(1e3 * time, target, prior, [], size[:1])
    beside = average(1e3 * np.hstack([time, like_time]), target, prior, [Group("a", "a", np.array([1]))], size)

    assert beside.chance["a"] < 0.5
    assert beside.covariance[0, 0] > 25 * alone.covariance[0, 0]
    assert np.sqrt(beside.floor[0, 0]) < 0.01


def test_effects_of_which_one_excludes_the_other_are_never_on_together():
    random = np.random.default_rng(2)
    columns = random.normal(0.0, 1.0, (800, 3))
    target = columns @ [3.0, 0.3, 0.3] + random.normal(0.0, 1.0, 800)
    forms = [
        Group("one", "beside", np.array([1]), excludes=frozenset({"other"})),
        Group("other", "beside", np.array([2]), excludes=frozenset({"one"})),
    ]

    found = average(columns, target, Prior(np.ones(1), np.full(1, 9.0)), forms, np.array([1.0, 3.0, 3.0]))

    assert found.chance["beside"] > 0.99
    # Each would be 0.1 if both could be on: an average over one or the other gives less of at least one.
    assert min(found.effect[1:]) < 0.08


@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.floats(-2, 2), min_size=9, max_size=9),
)
@examples(80)
def test_powers_that_are_not_negative_are_the_most_likely_ones(power, entries):
    mean, root = np.array(power), np.array(entries).reshape(3, 3)
    covariance = root @ root.T + 0.1 * np.eye(3)

    found = not_negative(mean, covariance)

    # The conditions of Karush, Kuhn and Tucker: no step that is allowed is more likely.
    slope = np.linalg.solve(covariance, found - mean)
    assert (found >= 0).all()
    assert (slope >= -1e-6 * (1 + np.abs(slope).max())).all()
    assert np.abs(slope * found).max() < 1e-5 * (1 + np.abs(slope).max())
