"""Loops in C over graphs of instances give what slow, obvious ones give, and refuse indices that lead nowhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution import _loops


def by_source(rng, nodes, edges):
    """Return random edges by their source, where those from each node begin, and shares."""
    source, target = rng.integers(0, nodes, (2, edges)).astype(np.int32)
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(nodes + 1)).astype(np.int32)
    return source[order], target[order], first, rng.random(edges)


def advanced(net, nodes, steps):
    """Return what is reached, the last edges, and how many edges are missing, found so many steps at a time."""
    missing = np.zeros(nodes, np.int32)
    _loops.count_edges(net[2], missing)
    reached, came = np.zeros((nodes, 2)), np.full((nodes, 2), -1, np.int32)
    paths, progress = (reached, came, missing, np.empty(nodes, np.int32)), np.array([0, 0, 0, -1, 0])
    while not _loops.advance_paths(net, paths, progress, steps):
        pass
    return reached, came, missing


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(0, 30), st.booleans())
def test_paths_are_the_longest_without_the_nodes_on_cycles_and_those_behind_them(seed, nodes, edges, has_cycles):
    """For two weights, in parts as in the whole, whether edges lead to later nodes or to earlier ones."""
    rng = np.random.default_rng(seed)
    source, target, first, share = by_source(rng, nodes, edges)
    if not has_cycles:
        rank = rng.permutation(nodes)
        kept = rank[source] < rank[target]
        source, target, share = source[kept], target[kept], share[kept]
        first = np.searchsorted(source, np.arange(nodes + 1)).astype(np.int32)
    row, weight = rng.integers(0, 3, nodes).astype(np.int32), rng.random((3, 2))
    net = (first, row, target, share, weight)

    reached, came, missing = advanced(net, nodes, 1000)
    in_parts = advanced(net, nodes, int(rng.integers(1, 5)))

    for ours, theirs in zip(in_parts, (reached, came, missing), strict=True):
        assert np.array_equal(ours, theirs)
    into = [np.flatnonzero(target == node).tolist() for node in range(nodes)]
    left = set(np.flatnonzero(missing).tolist())
    assert all(any(int(source[edge]) in left for edge in into[node]) for node in left)
    for node in set(range(nodes)) - left:
        assert not any(int(source[edge]) in left for edge in into[node])
        for which in range(2):
            sums = [
                reached[source[edge], which] + share[edge] * weight[row[source[edge]], which] for edge in into[node]
            ]
            assert reached[node, which] == max(sums, default=0.0)
            assert (came[node, which] < 0) == (not sums)
            assert not sums or sums[into[node].index(came[node, which])] == max(sums)


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 20), st.integers(0, 40), st.booleans())
def test_times_of_a_row_are_counted_as_one_by_one(seed, rows, queries, inclusive) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, rows)
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    t_ns = np.concatenate([np.empty(0, np.int64), *(np.sort(rng.integers(0, 9, length)) for length in lengths)])
    row, until_ns = rng.integers(0, rows, queries).astype(np.int32), rng.integers(0, 9, queries)
    counts = np.empty(queries, np.int32)

    _loops.count_until(first, t_ns, row, until_ns, inclusive, counts)

    for one, until, count in zip(row, until_ns, counts, strict=True):
        mine = t_ns[first[one] : first[one + 1]]
        assert count == ((mine <= until) if inclusive else (mine < until)).sum()


def test_parents_last_as_long_as_their_children() -> None:
    """Backwards, so that what is above the parents comes later; then nothing is left to raise."""
    t_ns, parent = np.array([5, 9, 3, 7]), np.array([-1, 0, 0, 2], np.int32)

    raised = [_loops.raise_parents(parent[at:], at, True, t_ns) for at in (2, 0, 0)]  # noqa: FBT003 - positional in C

    assert t_ns.tolist() == [9, 9, 7, 7]
    assert raised == [2, 1, 0]


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(0, 40))
def test_the_last_of_those_for_which_a_row_waits_was_done_last(seed, rows, edges) -> None:
    rng = np.random.default_rng(seed)
    waits, waits_for = rng.integers(0, rows, (2, edges)).astype(np.int32)
    done_ns, last = rng.integers(0, 5, rows), np.full(rows, -1, np.int32)

    _loops.find_last(waits, waits_for, done_ns, last)

    for row in range(rows):
        mine = waits_for[waits == row].tolist()
        assert last[row] == (max(reversed(mine), key=lambda other: done_ns[other]) if mine else -1)


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_that_leads_nowhere_is_refused(index) -> None:
    wrong, right, t_ns = np.array([index], np.int32), np.zeros(1, np.int32), np.zeros(2, np.int64)
    first, two = np.array([0, 1, 1], np.int32), np.zeros(2, np.int32)
    weight, share = np.ones((2, 2)), np.ones(1)
    calls = [
        lambda: _loops.count_edges(wrong, two),
        lambda: _loops.count_until(first, t_ns, wrong, t_ns[:1], True, right),  # noqa: FBT003 - positional in C
        lambda: _loops.find_last(wrong, right, t_ns, two.copy()),
        lambda: _loops.find_last(right, wrong, t_ns, two.copy()),
        lambda: _loops.find_last(right, right, t_ns, np.full(2, 2, np.int32)),
        lambda: advance((first, two, wrong, share, weight)),
        lambda: advance((first, np.array([index, 0], np.int32), right, share, weight)),
        lambda: advance((first + np.int32(1), two, right, share, weight)),
        lambda: advance((first - np.int32(1), two, right, share, weight)),
        lambda: advance((first, two, right, share, weight), (0, 0, 0, 2, 0)),
        lambda: advance((first, two, right, share, weight), (0, 0, 3, -1, 0)),
        lambda: advance((first, two, right, share, weight), (0, 0, 0, 0, -1)),
    ]
    if index > 0:  # less is none
        calls.append(lambda: _loops.raise_parents(wrong, 0, True, t_ns))  # noqa: FBT003 - positional in C

    for call in calls:
        with pytest.raises(ValueError, match="a key is negative, or not less than the number"):
            call()


def advance(net, progress=(0, 0, 0, -1, 0)) -> None:
    """Go all the way through a net of two nodes."""
    paths = np.zeros((2, 2)), np.full((2, 2), -1, np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32)
    _loops.advance_paths(net, paths, np.array(progress), 100)
