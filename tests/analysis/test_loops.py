"""The loops in C give what NumPy gives, and refuse arrays that do not fit."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution import _loops
from tprof.analysis.attribution.segment_energy import locate, members, sums_by
from tprof.analysis.attribution.short_threads import Joints, join_arrays

from tprof.trace import Flag, Kind

SAMPLES = {"instance": np.uint64, "task": np.uint32, "cpu": np.uint16, "kind": np.uint8, "flags": np.uint8}
ROWS = {
    "first": np.int64, "instance": np.uint64, "parent": np.uint64, "task": np.uint32, "cpu": np.uint16,
    "start_ns": np.int64, "end_ns": np.int64, "last_ns": np.int64, "begun": np.bool_, "failed": np.bool_,
    "ended": np.bool_,
}  # fmt: skip


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200), st.integers(1, 20), st.integers(0, 19))
def test_sums_of_columns_are_those_of_bincount(seed, size, groups, columns) -> None:
    rng = np.random.default_rng(seed)
    key, values = rng.integers(0, groups, size).astype(np.int32), rng.normal(size=(columns, size))

    sums = sums_by(key, list(values), groups)

    expected = [np.bincount(key, weights=one, minlength=groups) for one in values]
    np.testing.assert_array_equal(sums, np.reshape(expected, (columns, groups)))


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200), st.integers(1, 20))
def test_products_are_about_the_centres_of_groups(seed, size, groups) -> None:
    rng = np.random.default_rng(seed)
    key, (x, y) = rng.integers(0, groups, size).astype(np.int32), rng.normal(size=(2, size))
    centres, sums = rng.normal(size=(2, groups)), np.zeros((3, groups))

    _loops.add_products_by(key, x, y, *centres, groups, sums)

    off_x, off_y = x - centres[0][key], y - centres[1][key]
    for found, product in zip(sums, (off_x * off_x, off_y * off_y, off_x * off_y), strict=True):
        np.testing.assert_array_equal(found, np.bincount(key, weights=product, minlength=groups))


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200), st.integers(1, 20))
def test_products_are_of_the_factors_of_groups(seed, size, groups) -> None:
    rng = np.random.default_rng(seed)
    key, values, factors = (
        rng.integers(0, groups, size).astype(np.int32),
        rng.normal(size=size),
        rng.normal(size=groups),
    )
    products = np.empty(size)

    _loops.multiply_by(key, factors, values, products)

    np.testing.assert_array_equal(products, values * factors[key])
    for wrong in (-1, groups):
        with pytest.raises(ValueError, match="a key is negative, or not less than the number of groups"):
            _loops.multiply_by(np.array([wrong], np.int32), factors, np.ones(1), np.empty(1))


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 200), st.integers(1, 20))
def test_rows_say_of_slots_what_their_first_and_last_samples_say(seed, size, slots) -> None:
    rng = np.random.default_rng(seed)
    slot, t_ns = rng.integers(0, slots, size).astype(np.int32), rng.integers(0, 1 << 40, size + 1)
    of = {name: rng.integers(0, 200, size).astype(kind) for name, kind in SAMPLES.items()}
    of["kind"] %= 4
    rows = {name: np.zeros(slots, kind) for name, kind in ROWS.items()}
    rows["first"] -= 1

    _loops.fill_instances(slot, tuple(of.values()), t_ns, tuple(rows.values()))

    ends = [at for at in range(1, size) if of["kind"][at] == Kind.FINISH]
    for number in range(slots):
        places = np.flatnonzero(slot == number).tolist()
        row = {name: column[number].item() for name, column in rows.items()}
        assert row["ended"] == any(slot[at - 1] == number for at in ends)
        assert row["failed"] == any(slot[at - 1] == number and of["flags"][at] & Flag.FAILED for at in ends)
        if not places:
            assert row["first"] == -1
            continue
        first, last = places[0], places[-1]
        begun = of["kind"][first] == Kind.START
        parent = of["instance"][first - 1] if begun and first else 0
        assert (row["first"], row["begun"], row["parent"]) == (first, begun, parent)
        assert all(row[name] == of[name][first] for name in ("instance", "task", "cpu"))
        assert (row["start_ns"], row["last_ns"], row["end_ns"]) == (t_ns[first], t_ns[last], t_ns[last + 1])


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200), st.integers(1, 20))
def test_members_are_the_keys_that_are_marked(seed, size, groups) -> None:
    rng = np.random.default_rng(seed)
    key, is_member = rng.integers(0, groups, size).astype(np.int32), rng.random(groups) < 0.5

    np.testing.assert_array_equal(members(key, is_member), np.flatnonzero(is_member[key]))
    for wrong in (-1, groups):
        with pytest.raises(ValueError, match="a key is negative, or not less than the number of groups"):
            members(np.array([wrong], np.int32), is_member)


@pytest.mark.parametrize("wrong", [{"slot": 3}, {"slot": -1}, {"samples": 4}, {"times": 2}, {"parent": 2}])
def test_slots_samples_and_rows_that_do_not_fit_are_refused(wrong) -> None:
    slot = np.array([0, wrong.get("slot", 1)], np.int32)
    samples = tuple(np.zeros(2, kind) for kind in SAMPLES.values())[: wrong.get("samples", 5)]
    rows = tuple(np.zeros(wrong.get(name, 3), kind) for name, kind in ROWS.items())

    with pytest.raises(ValueError, match=r"a key is|expected 5 columns, got 4|must have 3 elements, got 2"):
        _loops.fill_instances(slot, samples, np.zeros(wrong.get("times", 3), np.int64), rows)


@pytest.mark.parametrize("key", [-1, 2])
def test_a_key_that_is_no_group_is_refused(key) -> None:
    with pytest.raises(ValueError, match="a key is negative, or not less than the number of groups"):
        sums_by(np.array([0, key], np.int32), [np.ones(2)], 2)


def test_arrays_of_another_kind_or_size_are_refused() -> None:
    key = np.zeros(3, np.int32)

    with pytest.raises(ValueError, match="a column must have 3 elements, got 2"):
        sums_by(key, [np.ones(2)], 1)
    with pytest.raises(ValueError, match="the keys must have the format i, got l"):
        sums_by(key.astype(np.int64), [np.ones(3)], 1)


@examples(50)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 9))
def test_ids_have_numbers_by_thread_in_their_order(seed, counts, spread) -> None:
    """Equal ids of one thread have one number, in no other thread; a smaller id a smaller one; none has 0."""
    rng = np.random.default_rng(seed)
    joints = Joints.of(counts)
    ids = np.zeros(int(joints.end[-1]), np.uint64)
    for part in joints.parts():
        low = int(rng.integers(1, 1 << 40))
        ids[part] = rng.choice([0, *range(low, low + spread + 1)], part.stop - part.start)
    slot = np.full(len(ids), -7, np.int32)

    count = _loops.number(ids, joints.begin, joints.end, len(counts) * (spread + 1), slot)

    assert count is not None
    assert slot.max(initial=0) <= count
    assert (slot[ids == 0] == 0).all()
    before = 0
    for part in joints.parts():
        of_ids = dict(zip(ids[part].tolist(), slot[part].tolist(), strict=True))
        of_ids.pop(0, None)
        assert [of_ids.get(one, 0) for one in ids[part].tolist()] == slot[part].tolist()
        numbers = [of_ids[one] for one in sorted(of_ids)]
        assert all(a < b for a, b in itertools.pairwise([before, *numbers]))
        before = max([before, *numbers])


@pytest.mark.parametrize("ids", [[1, 9], [1 << 63, 1], [2**64 - 1, 5]])
def test_ids_far_apart_are_not_numbered_by_distance(ids) -> None:
    slot = np.zeros(2, np.int32)

    assert _loops.number(np.array(ids, np.uint64), np.array([0]), np.array([2]), 8, slot) is None


@pytest.mark.parametrize(("begin", "end"), [([0, 1], [2, 3]), ([-1], [2]), ([0], [4]), ([2], [1])])
def test_threads_that_overlap_or_are_not_there_are_refused(begin, end) -> None:
    ids = np.ones(3, np.uint64)

    with pytest.raises(ValueError, match="threads must have places among 3 samples"):
        _loops.number(ids, np.array(begin), np.array(end), 9, np.zeros(3, np.int32))


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 60), st.integers(0, 20))
def test_times_are_located_among_edges_in_whatever_order(seed, size, edges) -> None:
    rng = np.random.default_rng(seed)
    edges_ns = np.unique(rng.integers(0, 50, edges))
    t_ns = rng.integers(-5, 60, size)
    t_ns = np.sort(t_ns) if seed % 2 else t_ns
    extremes = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    t_ns = np.concatenate((t_ns, extremes))

    np.testing.assert_array_equal(locate(t_ns, edges_ns), np.searchsorted(edges_ns, t_ns, side="right"))


@examples(50)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_two_times_are_searched_in_each_thread(seed, counts) -> None:
    rng = np.random.default_rng(seed)
    joints = Joints.of(counts)
    t_ns = rng.integers(0, 20, int(joints.end[-1]))
    for part in joints.parts():
        t_ns[part].sort()
    times_ns = tuple(rng.integers(-1, 22, 2).tolist())
    found = np.empty((len(counts), 2), np.intp)

    _loops.search(t_ns, joints.begin, joints.end, times_ns, found)

    expected = [part.start + np.searchsorted(t_ns[part], times_ns) for part in joints.parts()]
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_searched_outside_the_times() -> None:
    with pytest.raises(ValueError, match="threads must have places among 2 samples"):
        _loops.search(np.zeros(2, np.int64), np.array([0]), np.array([3]), (0, 1), np.empty((1, 2), np.intp))


@examples(50)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_times_are_limited_to_the_end_of_their_thread_which_follows_them(seed, counts) -> None:
    """Falls are counted in each thread, and not from one to the next; times near 2^64 are late ones."""
    rng = np.random.default_rng(seed)
    joints, ends_ns = Joints.of(counts), rng.integers(0, 20, len(counts))
    t_ns = rng.choice(np.array([*range(20), 2**63, 2**64 - 1], np.uint64), int(joints.end[-1]) + 1)
    limited, falls = np.empty(len(t_ns), np.int64), np.empty(len(counts), np.intp)

    _loops.limit(t_ns, joints.begin, joints.end, ends_ns, limited, falls)

    for part, end_ns, fallen in zip(joints.parts(), ends_ns.tolist(), falls, strict=True):
        expected = [min(int(one), end_ns) for one in t_ns[part]]
        assert limited[part.start : part.stop + 1].tolist() == [*expected, end_ns]
        assert fallen == sum(after < before for before, after in itertools.pairwise(expected))


@pytest.mark.parametrize(("begin", "end", "end_ns"), [(0, 2, 5), (-1, 1, 5), (1, 0, 5), (0, 1, -1)])
def test_no_times_are_limited_without_a_place_for_the_end(begin, end, end_ns) -> None:
    places = np.array([begin]), np.array([end]), np.array([end_ns])

    with pytest.raises(ValueError, match="threads must have places among 2 samples"):
        _loops.limit(np.zeros(2, np.uint64), *places, np.empty(2, np.int64), np.empty(1, np.intp))


@examples(50)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_parts_of_columns_follow_each_other_from_where_the_first_begins(seed, counts) -> None:
    rng = np.random.default_rng(seed)
    joints = Joints.of(counts)
    bounds = np.sort(rng.integers(joints.begin[:, None], joints.end[:, None] + 1, (len(counts), 2)))
    begin, end = np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])
    columns = tuple(rng.integers(0, 99, int(joints.end[-1]) + 1).astype(kind) for kind in (np.uint8, np.int32, float))
    expected = [np.concatenate([one[a:b] for a, b in bounds]) for one in columns]

    _loops.compact(columns, begin, end)

    for one, parts in zip(columns, expected, strict=True):
        assert one[begin[0] : begin[0] + len(parts)].tolist() == parts.tolist()


@pytest.mark.parametrize(("begin", "end"), [([0, 1], [2, 3]), ([-1], [2]), ([0], [4]), ([2], [1])])
def test_parts_that_overlap_or_are_not_there_are_not_moved(begin, end) -> None:
    with pytest.raises(ValueError, match="threads must have places among 3 samples"):
        _loops.compact((np.zeros(3),), np.array(begin), np.array(end))
    with pytest.raises(ValueError, match="columns must be of one length, got 3 and 2"):
        _loops.compact((np.zeros(3), np.zeros(2)), np.array([0]), np.array([1]))


@examples(50)
@given(st.integers(0, 2**31), st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 2))
def test_joined_arrays_have_zeros_between_them(seed, counts, gap) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=2 * count)[::2] for count in counts]

    joined = join_arrays(parts, gap)

    expected = [one for part in parts for one in (part, np.zeros(gap))][: 2 * len(parts) - 1]
    np.testing.assert_array_equal(joined, np.concatenate(expected))


def test_arrays_are_not_joined_as_another_kind_or_where_there_is_no_room() -> None:
    with pytest.raises(ValueError, match="of different kinds"):
        join_arrays([np.zeros(2), np.zeros(2, np.int64)])
    for count, gap in ((2, 0), (2, -1), (5, 1 << 62), (2, 1 << 40)):
        with pytest.raises(ValueError, match="do not fill 24"):
            _loops.join((np.zeros(1),) * count, gap, np.empty(3))


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200), st.sampled_from([1.0, 1e-9]))
def test_increases_are_those_of_a_count_that_may_fall(seed, size, scale) -> None:
    """A fall counts as nothing, and counts near 2^64 have increases as others do."""
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.integers(-3, 10, size + 1)).astype(np.uint64) + rng.integers(0, 2**64, dtype=np.uint64)
    increments = np.empty(size)

    _loops.increase(values, scale, increments)

    expected = [max(int(after) - int(before), 0) for before, after in itertools.pairwise(values)]
    np.testing.assert_array_equal(increments, np.array(expected, float) * scale)


@examples(50)
@given(st.integers(0, 2**31), st.integers(0, 200))
def test_segments_without_power_weigh_by_cpu_time_and_those_of_no_length_not(seed, size) -> None:
    rng = np.random.default_rng(seed)
    t_ns, cpu_s = np.cumsum(rng.integers(0, 2, size + 1)), rng.random(size)
    modelled = rng.choice([np.nan, -1.0, 0.0, 2.0], size)
    expected = np.where(modelled > 0, modelled, cpu_s * 1e-3)
    expected[np.diff(t_ns) == 0] = 0.0

    _loops.weigh(t_ns, cpu_s, 1e-3, modelled)

    np.testing.assert_array_equal(modelled, expected)


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 200), st.floats(0.0, 1e3), st.booleans())
def test_cpu_time_adds_up_to_each_time_but_for_falls_and_segments_of_no_length(seed, size, used_s, cut) -> None:
    rng = np.random.default_rng(seed)
    records = np.zeros(size + 1, [("t_ns", "<u8"), ("other", "<u8"), ("cpu_ns", "<u8")])
    records["t_ns"] = np.cumsum(rng.integers(0, 3, size + 1))
    records["cpu_ns"] = np.cumsum(rng.integers(-2, 9, size + 1)) + 2 * size
    end_ns = int(records["t_ns"][-1]) - (size if cut else 0)
    t_ns = np.minimum(records["t_ns"].astype(np.int64), max(end_ns, 0))
    grid_ns = np.arange(t_ns[0], t_ns[-1])
    total_s = np.full(len(grid_ns), np.nan)
    first, later = records[0], records[1:]

    before = (int(t_ns[0]), int(first["cpu_ns"]), used_s)
    after = _loops.accumulate(later["t_ns"], later["cpu_ns"], before, max(end_ns, 0), grid_ns, total_s)

    more_s = np.maximum(np.diff(records["cpu_ns"].astype(np.int64)), 0) * 1e-9
    cumulative_s = used_s + np.concatenate(([0.0], np.cumsum(np.where(np.diff(t_ns) > 0, more_s, 0.0))))
    assert after is not None
    assert after[:2] == (t_ns[-1], records["cpu_ns"][-1])
    np.testing.assert_allclose(after[2], cumulative_s[-1], rtol=1e-12)
    lasting = np.concatenate(([True], np.diff(t_ns) > 0))
    np.testing.assert_allclose(total_s, np.interp(grid_ns, t_ns[lasting], cumulative_s[lasting]), rtol=1e-12)


def test_no_cpu_time_adds_up_over_times_that_decrease() -> None:
    t_ns = np.array([7, 6], np.uint64)

    assert _loops.accumulate(t_ns, t_ns, (5, 0, 0.0), 9, np.empty(0, np.int64), np.empty(0)) is None


def test_samples_of_two_dimensions_have_no_cpu_time() -> None:
    t_ns = np.zeros((2, 2), np.uint64)

    with pytest.raises(ValueError, match="the times must have one dimension, got 2"):
        _loops.accumulate(t_ns, t_ns, (5, 0, 0.0), 9, np.empty(0, np.int64), np.empty(0))
