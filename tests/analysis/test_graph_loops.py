"""Loops in C over graphs of instances give what slow, obvious ones give, and refuse indices that lead nowhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.analysis.attribution import _loops


def sort(source, target, nodes):
    """Return where the edges of each node begin, edges by source, and the nodes in topological order."""
    first, by_source = np.empty(nodes + 1, np.int32), np.empty(len(source), np.int32)
    missing, order = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
    count = _loops.sort_graph(source, target, first, by_source, missing, order)
    return first, by_source, order[:count]


@examples(50)
@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(0, 30), st.booleans())
def test_nodes_come_after_all_that_lead_to_them_and_paths_are_the_longest(seed, nodes, edges, has_cycles) -> None:
    """Without the nodes on cycles, and those behind them."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, nodes, (2, edges)).astype(np.int32)
    if not has_cycles:
        kept = source < target
        source, target = source[kept], target[kept]
    row, weight = rng.integers(0, 3, nodes).astype(np.int32), rng.random(3)
    share, reached, came = rng.random(len(source)), np.zeros(nodes), np.full(nodes, -1, np.int32)

    first, by_source, order = sort(source, target, nodes)
    _loops.longest_paths(source, target, first, by_source, share, row, weight, order, reached, came)

    assert np.array_equal(source[by_source], np.sort(source))
    assert np.array_equal(first, np.searchsorted(np.sort(source), np.arange(nodes + 1)))
    into = [np.flatnonzero(target == node).tolist() for node in range(nodes)]
    found: dict[int, float] = {}
    for node in order.tolist():
        assert all(int(source[edge]) in found for edge in into[node])
        found[node] = max(
            (found[int(source[edge])] + share[edge] * weight[row[source[edge]]] for edge in into[node]), default=0.0
        )
        assert reached[node] == found[node]
        assert (came[node] < 0) == (not into[node])
    left = set(range(nodes)) - set(found)
    assert all(any(int(source[edge]) in left for edge in into[node]) for node in left)


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
    """In the order of the rows, so that what is above them comes later."""
    t_ns = np.array([5, 9, 3, 7])

    _loops.raise_parents(np.array([3, 1, 2], np.int32), np.array([2, 2, 0], np.int32), t_ns)

    assert t_ns.tolist() == [9, 9, 9, 7]


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_that_leads_nowhere_is_refused(index) -> None:
    wrong, right, t_ns = np.array([index], np.int32), np.zeros(1, np.int32), np.zeros(2, np.int64)
    first = np.zeros(3, np.int32)

    with pytest.raises(ValueError, match="a key is negative, or not less than the number"):
        sort(wrong, right, 2)
    with pytest.raises(ValueError, match="a key is negative, or not less than the number"):
        sort(right, wrong, 2)
    with pytest.raises(ValueError, match="a key is negative, or not less than the number"):
        _loops.raise_parents(right, wrong, t_ns)
    with pytest.raises(ValueError, match="a key is negative, or not less than the number"):
        _loops.count_until(first, t_ns, wrong, t_ns[:1], True, right)  # noqa: FBT003 - positional in C
    with pytest.raises(ValueError, match="a key is negative, or not less than the number"):
        _loops.longest_paths(
            right, right, first, right, np.ones(1), wrong.repeat(2), np.ones(2), right, np.zeros(2),
            np.full(2, -1, np.int32),
        )  # fmt: skip
