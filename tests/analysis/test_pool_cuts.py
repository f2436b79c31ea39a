"""A pool that may spin after one task's call does not count as another task's until it has rested or spun out."""

import numpy as np
import pytest
from support.cut_pools import cut_by
from tprof.analysis.attribution.natives.cuts import LONG_REST_NS, Clock
from tprof.analysis.attribution.natives.segments import OF_TASK, RUN, UNIDENTIFIED, table

MS = 1_000_000
READ_MS, END_MS = 5, 400
SPINS_MS = 100
REST_MS = LONG_REST_NS // MS


def cut(runs, idle=()):
    """Cut a pool of one thread that has a core at all times but an idle one, in which it is not read.

    Runs are (task, begin, end), `idle` is (begin, end), in ms.
    """
    t_ms = np.arange(0, END_MS + 1, READ_MS)
    t_ms = t_ms[~((t_ms > idle[0]) & (t_ms < idle[1]))] if idle else t_ms
    used_ms = np.where(np.isin(t_ms[:-1], idle[:1]), 0, np.diff(t_ms))
    clock = Clock(t_ms * MS, np.append(0.0, np.cumsum(used_ms * 1e-3)))
    task, begin_ms, end_ms = np.array(runs).T
    users = table(RUN, begin_ms * MS, end_ms * MS, np.arange(len(runs)), task)
    return cut_by([clock], users, spins_ns=SPINS_MS * MS)


def unidentified_ms(found):
    """Return which of the reads' times, in ms, begin a segment that is unidentified."""
    return (found.t_ns[:-1][found.kind == UNIDENTIFIED] // MS).tolist()


def reads_ms(begin_ms, end_ms):
    return list(range(begin_ms, end_ms, READ_MS))


def test_a_pool_may_spin_on_in_the_task_after_its_caller_for_so_long():
    found = cut([(1, 0, 40), (2, 40, 300)])

    assert unidentified_ms(found) == reads_ms(40, 40 + SPINS_MS)
    own = found.kind == OF_TASK
    assert found.table["task"][own].tolist() == [1] * (40 // READ_MS) + [2] * ((300 - 40 - SPINS_MS) // READ_MS)


def test_a_pool_that_rested_has_ended_to_spin():
    begin_ms = 40 + REST_MS + READ_MS

    found = cut([(1, 0, 40), (2, begin_ms, 300)], idle=(40, begin_ms))

    assert begin_ms < 40 + SPINS_MS
    assert unidentified_ms(found) == []


def test_a_pause_that_is_shorter_than_a_rest_says_nothing():
    found = cut([(1, 0, 40), (2, 60, 300)], idle=(40, 60))

    assert unidentified_ms(found) == reads_ms(60, 40 + SPINS_MS)


def test_what_a_task_left_spinning_is_its_own_when_it_calls_again():
    assert unidentified_ms(cut([(1, 0, 40), (1, 50, 300)])) == []


@pytest.mark.parametrize("again_ms", [80, 100])
def test_another_task_that_calls_again_does_not_hide_who_called_before_it(again_ms):
    """It is the end of the last other task that counts, not the end of its own last call."""
    found = cut([(1, 0, 40), (2, 40, 70), (2, again_ms, 300)])

    assert unidentified_ms(found) == reads_ms(40, 70) + reads_ms(again_ms, 40 + SPINS_MS)


def test_a_task_that_returns_meets_what_the_task_between_left():
    found = cut([(1, 0, 40), (2, 40, 60), (1, 60, 300)])

    assert unidentified_ms(found) == reads_ms(40, 60 + SPINS_MS)


def test_a_call_of_another_task_beside_ones_own_leaves_spinning_too():
    found = cut([(1, 0, 40), (1, 50, 300), (2, 100, 110)])

    assert unidentified_ms(found) == reads_ms(100, 110 + SPINS_MS)


def test_of_several_earlier_tasks_the_last_other_one_counts():
    found = cut([(3, 0, 10), (1, 10, 30), (2, 30, 50), (2, 50, 60), (2, 60, 300)])

    assert unidentified_ms(found) == reads_ms(10, 30 + SPINS_MS)
