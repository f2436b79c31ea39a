"""Tasks that spawn tasks and wait for them: any program of them ends, on any number of workers."""

import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.runtime import Runtime, current

import tprof


@tprof.task
def fib(n):
    if n < 2:
        return n
    one, other = fib(n - 1), fib(n - 2)
    return one.result() + other.result()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_fib(workers):
    with Runtime(workers=workers, library_threads=None) as runtime:
        assert fib(15).result() == 610
        counts = runtime.counts()

    assert counts["spawned"] == counts["executed"] == 1973
    assert counts["unfinished"] == 0


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("max_pending", [1, 2, 100])
def test_mergesort_whose_merges_are_ordered_by_their_data(workers, max_pending):
    @tprof.task(updates="x")
    def sort(x):
        if len(x) <= 16:
            x.sort()
            return
        middle = len(x) // 2
        sort(x[:middle])
        sort(x[middle:])
        merge(x)

    @tprof.task(updates="x")
    def merge(x):
        x.sort(kind="stable")

    x = np.random.default_rng(1).random(1000)
    expected = np.sort(x)
    with Runtime(workers=workers, max_pending=max_pending, library_threads=None):
        sort(x)

    assert (x == expected).all()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("how", ["result", "wait", "group", "end"])
def test_chains_two_thousand_deep(workers, how):
    ended = []

    @tprof.task
    def down(n):
        if n > 0 and how == "group":
            with current().group():
                down(n - 1)
        elif n > 0:
            deeper = down(n - 1)
            if how == "result":
                deeper.result()
            elif how == "wait":
                current().wait()
        ended.append(n)
        return n

    with Runtime(workers=workers, library_threads=None) as runtime:
        assert down(2000).result() == 2000
        counts = runtime.counts()

    assert sorted(ended) == list(range(2001))
    assert how == "end" or ended == list(range(2001))
    # A stolen task waits on a stack of its own; without Python's lock the other worker steals many of them.
    assert counts["threads"] < 100 + counts["stolen"]


def test_a_long_chain_of_futures_ends_without_deep_stacks():
    @tprof.task
    def add(one, other):
        return one + other

    with Runtime(workers=2, library_threads=None):
        gate = threading.Event()
        total = gate_open(gate)
        for _ in range(20_000):
            total = add(total, 1)
        gate.set()
        assert total.result() == 20_000


@tprof.task
def gate_open(gate):
    gate.wait(30)
    return 0


@dataclass(frozen=True)
class Node:
    """A task that spawns others, and waits for these or for any that was spawned before in the way that it says."""

    children: tuple
    wait: str
    other: int


WAITS = ["nothing", "each", "backwards", "all", "group", "other", "briefly", "data"]
NODES = st.recursive(
    st.builds(Node, st.just(()), st.sampled_from(WAITS), st.integers(0, 99)),
    lambda below: st.builds(Node, st.lists(below, max_size=4).map(tuple), st.sampled_from(WAITS), st.integers(0, 99)),
    max_leaves=25,
)


class Play:
    """Plays nodes as tasks that note that they ran."""

    def __init__(self) -> None:
        self.ran = []
        self.spawned = []
        self.numbering = threading.Lock()

    @tprof.task(updates="data")
    def node(self, node, data, at):
        self.ran.append(at)
        if node.wait == "group":
            with current().group():
                mine = self.spawn(node, data)
                if mine:
                    mine[0].result()
        else:
            mine = self.spawn(node, data)
            self.wait(node, mine, data)
        assert node.wait not in {"each", "backwards", "all", "group"} or all(future.done() for future in mine)
        return at

    def spawn(self, node, data):
        mine = []
        for number, child in enumerate(node.children):
            with self.numbering:
                at = len(self.spawned)
                self.spawned.append(None)
            self.spawned[at] = self.node(child, (data, number % 2), at)
            mine.append(self.spawned[at])
        return mine

    def wait(self, node, mine, data):
        if node.wait in {"each", "backwards"}:
            for future in mine if node.wait == "each" else reversed(mine):
                future.result()
        elif node.wait == "all":
            current().wait()
        elif node.wait == "data":
            current().wait((data, 0))
        elif node.wait == "briefly" and mine:
            mine[-1].wait(1e-4)
        elif node.wait == "other" and mine:
            mine[node.other % len(mine)].result()


@examples(200)
@given(st.lists(NODES, max_size=4), st.integers(1, 4), st.sampled_from([None, 1, 3]))
def test_programs_that_wait_at_random_end(nodes, workers, max_pending):
    play = Play()

    with Runtime(workers=workers, max_pending=max_pending, library_threads=None) as runtime:
        play.spawn(Node(tuple(nodes), "nothing", 0), "root")
        runtime.wait()

    numbers = list(range(len(play.spawned)))
    assert sorted(play.ran) == numbers
    assert [future.result() for future in play.spawned] == numbers


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=30), st.integers(1, 4))
def test_tasks_that_wait_for_any_that_was_spawned_before_end(waits, workers):
    """For the results of brothers and cousins, which may be queued, waiting or done."""
    futures = []

    @tprof.task
    def ask(number, other, nests):
        if nests:
            return ask(number, other, nests=False).result()
        return number if other is None else (number, futures[other].result())

    with Runtime(workers=workers, library_threads=None):
        for number, (other, nests) in enumerate(waits):
            futures.append(ask(number, other % number if number else None, nests))
        results = [future.result() for future in futures]

    for number, (other, _) in enumerate(waits):
        assert results[number] == ((number, results[other % number]) if number else 0)


def test_no_more_tasks_run_at_a_time_than_there_are_workers():
    lock, running, most = threading.Lock(), [0], [0]

    def busy():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        sum(range(2000))
        with lock:
            running[0] -= 1

    @tprof.task
    def spread(n):
        busy()
        children = [spread(n - 1) for _ in range(3)] if n > 0 else []
        busy()
        for child in children:
            child.wait(1e-5) if n % 2 else child.result()
            busy()
        current().wait()
        busy()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with Runtime(workers=3, library_threads=None) as runtime:
            spread(5)
            runtime.wait()
            threads = runtime.counts()["threads"]
    finally:
        sys.setswitchinterval(before)

    assert most[0] <= 3
    assert threads > 3


@pytest.mark.parametrize("workers", [2, 3])
def test_a_task_that_waits_runs_nothing_meanwhile_that_might_wait_for_it(workers):
    gate, spawned, begun = threading.Event(), threading.Event(), threading.Event()
    box = {}

    def first():
        spawned.wait(30)
        return box["held"].result() + 1

    def second():
        begun.set()
        return box["first"].result() + 1

    with Runtime(workers=workers, library_threads=None) as runtime:
        box["held"] = gate_open(gate)
        box["first"] = runtime.submit(first)
        last = runtime.submit(second)
        spawned.set()
        assert begun.wait(30)
        gate.set()
        assert last.result() == 2


def test_slots_that_two_tasks_lend_at_once_are_both_taken():
    """Two tasks have to meet while two others wait: a thread that is on its way stands for one of them only."""
    for _ in range(30):
        met, gate = threading.Barrier(2), threading.Event()
        box = {}

        def wait(gate=gate, box=box):
            gate.wait(30)
            return box["end"].result()

        with Runtime(workers=2, library_threads=None) as runtime:
            waiting = [runtime.submit(wait) for _ in range(2)]
            pair = [runtime.submit(met.wait, 30, priority=-1) for _ in range(2)]
            box["end"] = runtime.submit(lambda one, other: {one, other}, *pair)
            gate.set()
            assert [task.result() for task in waiting] == [{0, 1}, {0, 1}]


def test_a_task_spawned_by_a_thread_of_a_task_is_no_child():
    spawned = []

    @tprof.task
    def body(gate):
        thread = threading.Thread(target=lambda: spawned.append(gate_open(gate)))
        thread.start()
        thread.join()
        current().wait()
        return len(spawned)

    with Runtime(workers=2) as runtime:
        gate = threading.Event()
        assert body(gate).result() == 1
        assert not spawned[0].done()
        gate.set()
        runtime.wait()
        assert spawned[0].result() == 0


def test_many_threads_spawn_at_once():
    x = np.zeros(8)

    @tprof.task(updates="x")
    def add(x):
        x += 1

    def spawn():
        for _ in range(200):
            add(x[:5])
            add(x[3:])

    with Runtime(workers=2, max_pending=7, library_threads=None) as runtime:
        threads = [threading.Thread(target=spawn) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        runtime.wait()

    assert x.tolist() == [1000] * 3 + [2000] * 2 + [1000] * 3
