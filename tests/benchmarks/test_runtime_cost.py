"""`runtime.measure` gives every figure of the task runtime with its target; how large they are is not tested."""

import dataclasses
import json
import os
import threading

import pytest
from tprof.benchmarks import measured_figures
from tprof.benchmarks.programs import cholesky
from tprof.benchmarks.programs.outcome import WrongResultError
from tprof.runtime import Runtime

import tprof
from benchmarks.overhead import factoring, timing
from benchmarks.overhead import runtime_cost as runtime
from benchmarks.overhead.factoring import ONE_WORKER, RECORDED, TWO_WORKERS, Factored
from benchmarks.overhead.native_cost import make_orders
from benchmarks.peers import DASK, EXECUTOR, OURS, PEERS, BatchPeer, Peer, contract, native_libraries
from tprof.errors import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder in which the result is measured."""
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture(scope="module")
def result(folder):
    return runtime.measure(runtime.QUICK, directory=folder)


def test_each_target_has_its_figure(result):
    targets = {figure["name"]: (figure["target"], figure["unit"]) for figure in result["figures"] if figure["target"]}

    tiles = "Cholesky, 4 × 4 tiles of 64"
    assert targets == {
        "an empty task: tprof over ThreadPoolExecutor": (0.5, "×"),
        "an empty task: tprof over dask threaded, plain graph": (0.2, "×"),
        "an empty task that depends on three others: tprof over ThreadPoolExecutor's independent one": (1, "×"),
        "an empty task, recorded: over one that is not": (1.3, "×"),
        f"{tiles}: tprof over the best peer": (1.1, "×"),
        f"{tiles}: what recording adds": (3, "%"),
        f"{tiles}: time, 2 workers over 1": (1 / 1.7, "×"),
        "peak memory, 10,000 tasks in 1,000 chains, then 10,000 independent ones": (1000, "MB"),
        "peak memory, 10,000 unfinished tasks in 1,000 chains, max_pending=None": (1000, "MB"),
    }


def test_every_peer_stands_beside_the_runtime_measured_or_named(result):
    figures = {figure["name"]: figure for figure in result["figures"]}

    for peer in PEERS:
        figure = figures[f"Cholesky, 4 × 4 tiles of 64: {peer.name}"]
        assert (figure["value"] is not None) == peer.is_installed()
        assert peer.is_installed() or figure["note"] == "not installed"
        assert (f"an empty task: {peer.name}" in figures) == isinstance(peer, BatchPeer)


def test_libraries_for_cpp_stand_beside_the_runtime_on_each_graph_or_are_named(result):
    figures = {figure["name"]: figure for figure in result["figures"]}

    for order in make_orders(500, 4):
        assert figures[f"tasks a second, {order.name}: tprof"]["value"] > 0
        for library in native_libraries.LIBRARIES:
            theirs = figures[f"tasks a second, {order.name}: {library.name}"]
            ratio = figures.get(f"a task, {order.name}: tprof over {library.name}")
            assert (ratio is None) == (theirs["value"] is None) == theirs["note"].startswith("not measured: no ")


def test_the_result_is_plain_names_its_machine_and_leaves_nothing_behind(folder, result):
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["machine"]["python"] in measured_figures.heading(result)
    assert result["effort"] == {**dataclasses.asdict(runtime.QUICK), "workers": len(os.sched_getaffinity(0))}
    assert list(folder.iterdir()) == []


@pytest.mark.thorough
def test_one_worker_is_enough(tmp_path):
    small = dataclasses.replace(runtime.QUICK, tasks=10, rows=64, tile_rows=32, workers=1)

    result = runtime.measure(small, directory=tmp_path)

    assert result["effort"]["workers"] == 1


def test_a_measurement_inside_a_recording_is_refused(tmp_path):
    with (
        tprof.record(tmp_path / "outer.tprof", energy="none", counters="none"),
        pytest.raises(UsageError, match="a recording already runs in this process"),
    ):
        runtime.measure(runtime.QUICK, directory=tmp_path)


def test_the_paper_size_is_the_papers():
    assert runtime.PAPER.rows == cholesky.ROWS["paper"]
    assert runtime.PAPER.tile_rows == cholesky.TILE_ROWS["paper"]


@pytest.mark.parametrize("peer", [OURS, *PEERS], ids=lambda peer: peer.name)
def test_the_factor_of_every_peer_is_right(peer):
    if not peer.is_installed():
        pytest.skip(f"{peer.package} is not installed")
    tiles = cholesky.make_matrix(5 * 16, 16)

    assert peer.run_cholesky(tiles, 3) > 0

    cholesky.check(tiles, whole=True)


def test_a_peer_that_computes_nothing_is_noticed():
    class Idle(Peer):
        name = "idle"

        def run_cholesky(self, tiles, workers):  # noqa: ARG002 - it is idle
            return 1.0

    with pytest.raises(WrongResultError, match="cholesky's factor is wrong"):
        factoring.Factoring(Idle(), 1, 64, 16)()


@pytest.mark.parametrize(("others", "met"), [((0.1, 0.0, 0.9), True), ((0.5, 0.1, 0.3), None)])
def test_times_are_held_to_targets_only_where_the_processors_were_free(others, met):
    values = dict.fromkeys((OURS.name, EXECUTOR.name, RECORDED, ONE_WORKER), (1.0,)) | {TWO_WORKERS: (0.55,)}

    held = [
        figure
        for figure in Factored("x", 2, values, values, others, processors=2).figures()
        if figure.target is not None
    ]

    assert [figure.name for figure in held] == [
        "x: tprof over the best peer",
        "x: what recording adds",
        "x: time, 2 workers over 1",
    ]
    assert {figure.as_plain()["met"] for figure in held} == {met}
    assert {"not held to it: other programs kept 0.3 of 2" in figure.note for figure in held} == {met is None}


def test_the_best_peer_is_the_one_with_the_least_median():
    times = {OURS.name: (2.0, 2.0, 2.0), EXECUTOR.name: (0.5, 4.0, 4.0), DASK.name: (2.0, 2.0, 4.0)}
    times |= dict.fromkeys((RECORDED, ONE_WORKER), (1.0, 1.0, 1.0))

    figures = {figure.name: figure for figure in Factored("x", 1, times, times, (0.0,), processors=1).figures()}

    assert figures["x: tprof over the best peer"].values == (1.0, 1.0, 0.5)
    assert figures["x: time, 2 workers over 1"].note == "there is one processor"


def test_a_peer_that_is_not_installed_is_known():
    class Absent(Peer):
        name = "absent"
        package = "no_such_package"

        def run_cholesky(self, *_):
            raise AssertionError

    assert not Absent().is_installed()


def test_kernels_come_in_the_order_of_the_program(monkeypatch):
    called = []
    for name in ("potrf", "trsm", "syrk", "gemm"):
        monkeypatch.setattr(cholesky, name, lambda *tiles, name=name: called.append((name, tiles)))

    cholesky.factor([[(row, column) for column in range(row + 1)] for row in range(4)])

    assert [(kernel.__name__, places) for kernel, places in contract.in_order(4)] == called


def test_a_wave_holds_what_may_run_side_by_side():
    tiles = [[(row, column) for column in range(row + 1)] for row in range(3)]

    waves = [[kernel.__name__ for kernel, _ in wave] for wave in contract.waves(tiles)]

    assert waves == [
        ["potrf"],
        ["trsm", "trsm"],
        ["syrk", "gemm", "syrk"],
        ["potrf"],
        ["trsm"],
        ["syrk"],
        ["potrf"],
    ]


def test_every_task_of_the_grid_depends_on_three_tasks_from_its_fourth_step_on():
    writer, edges = {}, []
    for number, places in enumerate(contract.grid_steps(5)):
        edges.append({writer[place] for place in places if place in writer})
        writer[places[-1]] = number

    assert len(edges) == contract.grid_count(5) == 80
    assert {len(found) for found in edges[3 * 16 :]} == {3}


@pytest.mark.parametrize("number", range(4))
def test_libraries_for_cpp_are_given_the_graph_that_the_runtime_finds(number):
    order, gate = make_orders(80, 5)[number], threading.Event()

    @tprof.task(updates="lock")
    def hold(lock):
        del lock
        gate.wait(60)

    @tprof.task(reads=("lock", "first", "second"), updates="updated")
    def touch(lock, first, second, updated):
        """Begin only once all are spawned, so that the runtime keeps every dependence."""

    with Runtime(workers=2, keep_graph=True) as runtime:
        hold("lock")
        for read, updated in order.steps:
            touch("lock", *[None] * (2 - len(read)), *read, updated)
        gate.set()
        runtime.wait()
        edges = runtime.graph().edges

    expected = native_libraries.predecessors(order.steps)
    assert {(one - 2, other - 2) for one, other in edges if one > 1} == {
        (one, other) for other, needed in enumerate(expected) for one in needed
    }


@pytest.mark.parametrize("library", native_libraries.LIBRARIES, ids=lambda library: library.name)
@pytest.mark.parametrize("number", range(4))
def test_a_library_for_cpp_runs_every_task_after_its_predecessors(library, number, programs, tmp_path):
    program = programs[library.name]
    if program is None:
        pytest.skip(f"a compiler of C++ finds no {library.name} here")
    found = native_libraries.predecessors(make_orders(500, 8)[number].steps)
    native_libraries.write_graph(tmp_path / "graph", found)

    assert native_libraries.run_graph(program, tmp_path / "graph", 3, check=True) > 0


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native")
    return {library.name: library.compile(folder) for library in native_libraries.LIBRARIES}


@pytest.mark.parametrize("library", native_libraries.LIBRARIES, ids=lambda library: library.name)
def test_a_graph_that_is_missing_is_said(library, programs, tmp_path):
    program = programs[library.name]
    if program is None:
        pytest.skip(f"a compiler of C++ finds no {library.name} here")

    with pytest.raises(UsageError, match="failed with status 2: native_graph FILE WORKERS"):
        native_libraries.run_graph(program, tmp_path / "absent", 3)


def test_a_library_that_is_missing_is_not_compiled(tmp_path):
    absent = native_libraries.NativeLibrary("Absent", "no/such/header.hpp", (), "nowhere")

    assert absent.compile(tmp_path) is None


@pytest.mark.parametrize(("tasks", "side"), [(0, 2), (2, 2), (11, 2), (12, 3), (99_452, 47)])
def test_the_grid_makes_no_more_tasks_than_asked_for(tasks, side):
    assert contract.grid_side(tasks) == side


def test_no_task_of_the_live_graph_ends_before_the_last_is_spawned():
    peak = runtime.measure_live(5_000, 2)

    assert peak.most_unfinished == 5_000
    assert peak.before_bytes <= peak.peak_bytes


def test_the_throttled_graph_keeps_to_the_runtimes_limit():
    assert runtime.measure_throttled(5_000, 2).most_unfinished <= 10_000


def test_turns_of_long_runs_rotate_and_the_first_is_thrown_away():
    order = []
    subjects = {name: lambda name=name: order.append(name) or float(len(order)) for name in "abc"}

    taken = timing.take_turns(subjects, rounds=2)

    assert order == list("abc" + "abc" + "bca")
    assert taken == {"a": (4.0, 9.0), "b": (5.0, 7.0), "c": (6.0, 8.0)}


def test_the_runtime_is_gone_after_a_measurement():
    OURS.run_empty(10, 2)

    with Runtime(workers=1) as after:
        assert after.counts()["spawned"] == 0
