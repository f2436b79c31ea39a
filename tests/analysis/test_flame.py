"""The tree of nested tasks holds each instance once, on its own path, and the joules of the accounts."""

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from support import traces
from tprof.analysis.profile.flame import nodes_of
from tprof.analysis.profile.flame_tree import Paths

import tprof
from tprof.trace import EventKind
from tprof.trace.merge import merge

MS_NS = 1_000_000
TASKS = ("outer", "inner", "leaf")
# outer runs, inner in it, inner once more in itself, leaf in that; then leaf alone.
NESTED = {
    "t_ns": [0, MS_NS, 2 * MS_NS, 3 * MS_NS, 4 * MS_NS, 5 * MS_NS, 6 * MS_NS, 7 * MS_NS, 8 * MS_NS],
    "instance": [1, 2, 3, 4, 3, 2, 1, 5, 0],
    "task": [0, 1, 1, 2, 1, 1, 0, 2, -1],
    "name": "main",
}
BESIDE = {"t_ns": [0, 8 * MS_NS], "instance": [9, 0], "task": [2, -1], "name": "beside"}
ENERGY = {"package-0": (list(range(0, 9 * MS_NS, MS_NS)), [float(one) for one in range(9)])}


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "nested.tprof"
    return tprof.load(traces.write(path, tasks=TASKS, threads=(NESTED, BESIDE), energy=ENERGY)).profile()


def rows_by_path(flame):
    return {path: flame.nodes.loc[row] for row, path in flame.paths()}


def test_paths_are_those_of_nested_tasks_with_recursion_folded(profile):
    rows = rows_by_path(profile.flame())

    assert set(rows) == {("outer",), ("outer", "inner"), ("outer", "inner", "leaf"), ("leaf",)}
    assert rows["outer", "inner"]["instances"] == 2
    assert rows["outer", "inner"]["own_s"] == pytest.approx(4e-3)
    assert rows[("outer",)]["time_s"] == pytest.approx(7e-3)
    assert rows[("leaf",)]["instances"] == 2


@pytest.mark.parametrize("by", [(), ("thread",), ("host", "process", "thread")])
def test_the_joules_of_the_tree_are_those_of_all_tasks(profile, by):
    flame = profile.flame(*by)

    assert flame.energy_j == pytest.approx(profile.counted_accounts["tasks_j"])
    assert flame.nodes["own_j"].sum() == pytest.approx(flame.energy_j)
    nested = flame.nodes.iloc[1:].groupby("parent")["energy_j"].sum()
    above = flame.nodes.loc[nested.index]
    assert nested.to_numpy() + above["own_j"].to_numpy() == pytest.approx(above["energy_j"].to_numpy())
    assert (flame.nodes["energy_low_j"] <= flame.nodes["energy_j"] + 1e-12).all()
    assert (flame.nodes["energy_high_j"] >= flame.nodes["energy_j"] - 1e-12).all()


def test_threads_are_a_level_above_the_tasks(profile):
    rows = rows_by_path(profile.flame("thread"))

    assert {path[0].split()[0] for path in rows} == {"main", "beside"}
    assert sorted(path[1:] for path in rows if path[0].startswith("beside")) == [(), ("leaf",)]


def test_an_unknown_level_is_refused_in_one_sentence(profile):
    with pytest.raises(tprof.UsageError, match=r"^the top levels of a flame graph are host, process, thread, got 'x'$"):
        profile.flame("x")


def slow_path(row, task, parent):
    """Return the path of one instance, by walking to the outermost one."""
    chain = []
    while row >= 0:
        chain.append(task[row])
        row = parent[row]
    path = []
    for one in reversed(chain):
        path = path[: path.index(one) + 1] if one in path else [*path, one]
    return [str(one) for one in path]


def path_of(paths, node):
    """Return the names from below the root to a node of a tree."""
    _, _, name, *_ = paths.nodes[node]
    return [*path_of(paths, paths.nodes[node].parent), name] if node else []


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=1, max_size=40))
def test_every_instance_is_on_the_path_that_walking_finds(rows):
    task = [one for one, _ in rows]
    parent = [row - back if 0 < back <= row else -1 for row, (_, back) in enumerate(rows)]
    names = pd.Categorical.from_codes(task, categories=["0", "1", "2", "3"])
    paths = Paths()

    node = nodes_of(paths, pd.Series(names), np.array(parent), np.zeros(len(task), np.int64))

    assert [path_of(paths, one) for one in node] == [slow_path(row, task, parent) for row in range(len(rows))]


def test_a_very_deep_chain_counts_every_instance(tmp_path):
    count = 3_000
    instance = [*range(1, count + 1), *range(count - 1, -1, -1)]
    task = [(one - 1) % 2 if one else -1 for one in instance]
    thread = {"t_ns": np.arange(len(instance)) * 1000, "instance": instance, "task": task}
    path = traces.write(tmp_path / "t.tprof", tasks=("a", "b"), threads=(thread,), energy=ENERGY)

    rows = rows_by_path(tprof.load(path).profile().flame())

    assert {path: row["instances"] for path, row in rows.items()} == {("a",): count // 2, ("a", "b"): count // 2}


def test_parents_in_a_circle_leave_their_instances_at_the_top(tmp_path):
    spawns = {"t_ns": [0, 0, 0], "kind": [EventKind.SPAWN] * 3, "instance": [1, 2, 3], "other": [2, 1, 3]}
    events = spawns | {"task": [-1] * 3, "worker": [-1] * 3}
    thread = {"t_ns": [0, MS_NS, 2 * MS_NS, 3 * MS_NS], "instance": [1, 2, 3, 0], "task": [0, 1, 2, -1]}
    path = traces.write(tmp_path / "t.tprof", tasks=TASKS, threads=({**thread, "events": events},), energy=ENERGY)

    rows = rows_by_path(tprof.load(path).profile().flame())

    assert {path: row["instances"] for path, row in rows.items()} == {(task,): 1 for task in TASKS}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    for name in ("one", "two"):
        path = traces.write(folder / f"{name}.tprof", tasks=TASKS, threads=(NESTED, BESIDE), energy=ENERGY)
        traces.set_json(path / "manifest.json", host={"hostname": name})
    merge([folder / "one.tprof", folder / "two.tprof"], folder / "job.tprof")
    return tprof.load(folder / "job.tprof")


def test_the_tree_of_a_job_adds_its_hosts(job, profile):
    whole, by_host = (job.profile(tables=False).flame(*by) for by in ((), ("host",)))
    rows, alone = rows_by_path(by_host), rows_by_path(profile.flame())

    assert whole.energy_j == pytest.approx(2 * profile.flame().energy_j)
    assert rows_by_path(whole)["outer", "inner"]["instances"] == 4
    assert rows[("two",)]["energy_j"] == pytest.approx(profile.flame().energy_j)
    assert rows["two", "outer", "inner"]["own_j"] == pytest.approx(alone["outer", "inner"]["own_j"])
    assert by_host.nodes["own_j"].sum() == pytest.approx(by_host.energy_j)


def test_threads_of_a_job_are_told_apart_by_instances(job):
    flame = job.profile().flame("host", "thread")
    again = job.profile(tables=False).flame("host", "thread")

    assert sorted(len(path) for _, path in flame.paths()) == [*[1] * 2, *[2] * 4, *[3] * 6, *[4] * 2, *[5] * 2]
    assert flame.nodes["own_j"].sum() == pytest.approx(flame.energy_j)
    pd.testing.assert_frame_equal(again.nodes, flame.nodes)


def test_a_path_of_few_instances_is_less_sure_than_the_mean_of_all(tmp_path):
    instance = np.append(np.arange(1, 402), [500, 501, 500, 0])
    task = np.append(np.arange(401) % 2, [2, 0, 2, -1])
    t_ns = np.arange(len(task)) * 3_000_000
    watts = np.array([10.0, 40.0, 30.0, 0.0])[task]
    edges_ns = np.append(np.arange(0, t_ns[-1], 50_000_000), t_ns[-1])
    joules = np.interp(edges_ns, t_ns, np.append(0, np.cumsum(watts[:-1] * 0.003)))
    thread = {"t_ns": t_ns, "instance": instance, "task": task, "cpu_ns": t_ns}
    energy = {"package-0": (edges_ns, joules)}
    tprof.write_trace(tmp_path / "t.tprof", tasks=["f", "g", "p"], threads=[thread], energy=energy)

    nodes = tprof.load(tmp_path / "t.tprof").profile(model="cputime").flame().nodes

    nested = nodes[(nodes["name"] == "f") & (nodes["depth"] == 2)].iloc[0]
    assert nested["own_low_j"] <= 0.03 <= nested["own_high_j"]
    assert nested["own_high_j"] > 2 * nested["own_j"]
