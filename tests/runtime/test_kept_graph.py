"""The graph that a runtime keeps is what had to wait for what, who spawned whom, and what each is called."""

import re
import threading

import numpy as np
import pytest
from tprof.runtime import Graph, Runtime

import tprof
from tprof.errors import UsageError


@tprof.task(name='load "it"')
def load(gate):
    gate.wait(30)
    return np.zeros(4)


@tprof.task(updates="x")
def change(x):
    child()


@tprof.task
def child():
    pass


@tprof.task(reads="x")
def look(x, *_):
    pass


@pytest.fixture
def graph():
    """Return the graph of seven tasks: two that read between two that change, one that needs futures, two children."""
    gate = threading.Event()
    x = np.zeros(4)
    with Runtime(workers=2, keep_graph=True) as runtime:
        first = load(gate)
        change(x)
        readers = [look(x[:2], first), look(x[2:], first)]
        change(x)
        look(None, *readers)
        gate.set()
        runtime.wait()
        return runtime.graph()


def by_name(graph):
    """Return its edges by the order of spawning, children left out."""
    order = {number: at for at, number in enumerate(number for number in graph.names if number not in graph.parents)}
    return {(order[before], order[after]) for before, after in graph.edges}


def test_nodes_edges_and_parents(graph):
    names = [name for number, name in graph.names.items() if number not in graph.parents]

    assert names == ['load "it"', "change", "look", "look", "change", "look"]
    # The first change may have ended before the readers came.
    assert by_name(graph) - {(1, 2), (1, 3), (1, 4)} == {(0, 2), (0, 3), (2, 4), (3, 4), (2, 5), (3, 5)}
    assert [graph.names[number] for number in graph.parents] == ["child", "child"]
    assert {graph.names[number] for number in graph.parents.values()} == {"change"}


def test_it_can_be_looked_at_while_tasks_run_and_afterwards():
    gate = threading.Event()
    with Runtime(workers=1, keep_graph=True) as runtime:
        assert runtime.graph() == Graph({}, (), {})
        load(gate)
        assert runtime.graph().names == {1: 'load "it"'}
        gate.set()
    assert runtime.graph().names == {1: 'load "it"'}


def test_a_runtime_that_keeps_none_says_so():
    with Runtime(workers=1) as runtime, pytest.raises(UsageError, match="make the runtime with keep_graph=True"):
        runtime.graph()


def test_dot_is_what_graphviz_reads(graph, tmp_path):
    graph.to_dot(tmp_path / "graph.dot")

    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith("digraph tasks {\n")
    assert text.endswith("}\n")
    labels = dict(re.findall(r'^  (\d+) \[label="((?:[^"\\]|\\.)*)"\];$', text, re.MULTILINE))
    assert set(labels) == {str(number) for number in graph.names}
    assert 'load \\"it\\"\\n#1' in labels.values()
    solid = re.findall(r"^  (\d+) -> (\d+);$", text, re.MULTILINE)
    dotted = re.findall(r"^  (\d+) -> (\d+) \[style=dotted\];$", text, re.MULTILINE)
    assert {(int(before), int(after)) for before, after in solid} == set(graph.edges)
    assert {(int(child), int(parent)) for parent, child in dotted} == set(graph.parents.items())


def test_networkx_has_the_same(graph):
    nx = pytest.importorskip("networkx", reason="networkx is not installed")

    drawn = graph.to_networkx()

    assert dict(drawn.nodes(data="name")) == graph.names
    assert {(one, other) for one, other, kind in drawn.edges(data="kind") if kind == "data"} == set(graph.edges)
    assert nx.is_directed_acyclic_graph(drawn)


def test_without_networkx_it_says_what_to_do(graph, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)

    with pytest.raises(UsageError, match=r"needs networkx, which is not installed: install it, or use to_dot\(\)"):
        graph.to_networkx()
