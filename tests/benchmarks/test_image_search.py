"""Images are cut and described as said, bounds bound, no nearer image is missed, and wrong answers are noticed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.properties import examples
from tprof.benchmarks.programs import ferret
from tprof.benchmarks.programs.image_search import ranking
from tprof.benchmarks.programs.image_search.features import (
    FEATURES,
    SEGMENTS,
    WEIGHTS,
    Segments,
    cut,
    describe,
    extract,
)
from tprof.benchmarks.programs.image_search.images import FAMILY, SIDE, distort, make_image
from tprof.benchmarks.programs.outcome import WrongResultError

SEEDS = st.integers(0, 2**32 - 1)


def database_of(seed, images):
    """Return images of segments at random, a third of them without pixels, in groups so that some are near others."""
    source = np.random.default_rng(seed)
    groups = source.normal(0, 1, (5, SEGMENTS, FEATURES))[source.integers(0, 5, images)]
    features = (groups + source.normal(0, 0.1, groups.shape)).astype(np.float32).transpose(1, 2, 0)
    weights = source.random((SEGMENTS, images)) * (source.random((SEGMENTS, images)) < 2 / 3)
    weights[0] += 0.01
    weights = (weights / weights.sum(axis=0)).astype(np.float32)
    return ranking.Database.of(np.where(weights[:, None] > 0, features, 0), weights)


def image_of(database, index):
    return Segments(database.features[:, :, index], database.weights[:, index])


def earth_movers_distance(ours, theirs, ways):
    """Solve the transport as a linear programme."""
    flows = np.arange(ways.size).reshape(ways.shape)
    sums = np.zeros((sum(ways.shape), ways.size))
    for place, flow in enumerate([*flows, *flows.T]):
        sums[place, flow] = 1
    totals = np.concatenate([ours / ours.sum(), theirs / theirs.sum()])
    return linprog(ways.ravel(), A_eq=sums, b_eq=totals).fun


def test_an_image_is_the_same_each_time_and_unlike_the_next():
    assert (make_image(7) == make_image(7)).all()
    assert (make_image(7) != make_image(8)).any()
    assert make_image(7).shape == (SIDE, SIDE, 3)


def test_a_distorted_copy_is_nearer_to_its_original_than_a_stranger_is():
    original, copy, stranger = (
        extract(image) for image in (make_image(0), distort(make_image(0), 0), make_image(FAMILY))
    )
    pair = [np.stack(column, axis=-1) for column in zip(original, stranger, strict=True)]

    own, other = ranking.distances(copy, ranking.Database.of(*pair), np.arange(2))

    assert 0 < own < other / 2


@given(SEEDS)
@examples(20)
def test_cutting_gives_each_point_to_one_segment_as_plain_loops_do(seed):
    points = np.random.default_rng(seed).random((5, 40), dtype=np.float32)
    members = np.arange(40) * SEGMENTS // 40 == np.arange(SEGMENTS)[:, None]
    owners = [point * SEGMENTS // 40 for point in range(40)]
    centres = [[0.0] * 5 for _ in range(SEGMENTS)]
    columns = points.T.tolist()
    for _ in range(6):
        for segment in range(SEGMENTS):
            mine = [columns[point] for point in range(40) if owners[point] == segment]
            centres[segment] = [sum(axis) / len(mine) for axis in zip(*mine, strict=True)] or centres[segment]
        owners = [min(range(SEGMENTS), key=lambda one: math.dist(point, centres[one])) for point in columns]

    result = cut(points, members)

    assert (result.sum(axis=0) == 1).all()
    assert result.argmax(axis=0).tolist() == owners


def test_segments_are_described_by_moments_and_box():
    """Of 2 by 4 pixels, the left column and one more are the first segment, the rest the third."""
    members = np.zeros((SEGMENTS, 8), bool)
    members[0], members[2] = [1, 1, 0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 0, 1, 1, 1]
    colours = np.zeros((3, 8), np.float32)
    colours[0, [0, 1, 4]] = 0, 0, 0.9

    features, weights = describe(colours, members, 2, 4)

    first = [0.3, 0, 0, math.sqrt(0.18), 0, 0, math.cbrt(0.054), 0, 0, math.log(2 / 2), math.log(4 / 8), 3 / 4]
    assert features[0] / WEIGHTS == pytest.approx([*first, 1 / 3, 1 / 9], abs=1e-6)
    assert features[2][:9] == pytest.approx(0)
    assert features[2][9:] / WEIGHTS[9:] == pytest.approx([math.log(3 / 2), math.log(6 / 8), 5 / 6, 3 / 5, 11 / 15])
    assert weights == pytest.approx(np.sqrt([3, 0, 5, 0, 0, 0, 0, 0]) / (math.sqrt(3) + math.sqrt(5)))
    assert (features[weights == 0] == 0).all()


@given(SEEDS)
@examples(25)
def test_a_distance_is_that_of_plain_loops_and_never_below_its_bound(seed):
    database = database_of(seed, 30)
    query = image_of(database, 0)

    measured = ranking.distances(query, database, np.arange(30))

    assert (ranking.lower_bounds(query, database) <= measured).all()
    plain = ferret.plain_ranking(query, database, 30)
    assert measured[[image for _, image in plain]] == pytest.approx([distance for distance, _ in plain], abs=1e-9)


@given(SEEDS)
@examples(25)
def test_matching_regions_carries_no_less_far_than_the_best_plan(seed):
    one, other = (image_of(database_of(seed, 2), index) for index in range(2))
    ways = np.linalg.norm(one.features[:, None].astype(float) - other.features, axis=2)
    matched = ferret.plain_distance(one.weights.tolist(), other.weights.tolist(), ways.tolist())

    best = earth_movers_distance(one.weights.astype(float), other.weights.astype(float), ways)

    assert best <= matched + 1e-5
    assert matched <= ways.max()


def test_an_image_is_at_no_distance_from_itself():
    database = database_of(1, 3)

    assert ranking.distances(image_of(database, 2), database, np.array([2])) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("images", [3, ranking.BATCH, ranking.BATCH + 1, 5 * ranking.BATCH])
def test_a_search_misses_no_nearer_image(images):
    database = database_of(images, images)
    query = image_of(database_of(0, 1), 0)

    found = ranking.search(query, database, 10)

    right = np.sort(ranking.distances(query, database, np.arange(images)))[:10]
    assert found["distance"].tolist() == right.tolist()
    assert len(set(found["image"].tolist())) == min(images, 10)


def test_blocks_of_the_database_change_no_bound(monkeypatch):
    database = database_of(3, 100)
    whole = ranking.lower_bounds(image_of(database, 5), database)
    monkeypatch.setattr(ranking, "BLOCK", 33)

    assert ranking.lower_bounds(image_of(database, 5), database) == pytest.approx(whole, abs=1e-5)


def test_a_copy_whose_original_was_not_found_is_noticed():
    answers = np.zeros((4, 10), ranking.ANSWER)
    answers["image"] = np.arange(10)

    with pytest.raises(
        WrongResultError, match="originals of 3 of 4 distorted copies first and of 4 among the first 10"
    ):
        ferret.check_originals(answers, np.array([0, 0, 0, 9]))
