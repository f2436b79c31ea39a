"""A runtime on a cluster leaves what threads leave, and says what it cannot do."""

import asyncio
import concurrent.futures
import threading

import numpy as np
import pytest
from support import cluster_tasks as tasks
from tprof.runtime import Runtime, TaskCancelledError, current

import tprof
from tprof.errors import TprofError, UsageError

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        client.run(_import_tasks)
        yield client


def _import_tasks():
    import support.cluster_tasks  # noqa: PLC0415, F401 - the workers have the tests' path


def draw_calls(seed, tiles):
    """Return a program of random calls, as (task, places of its tiles, number)."""
    source = np.random.default_rng(seed)
    for _ in range(60):
        first, second, third = source.choice(tiles, 3, replace=False).tolist()
        yield source.choice(["add", "multiply", "swap", "add_all"]), (first, second, third), int(source.integers(9))


def run_calls(calls, tiles):
    for name, (first, second, third), number in calls:
        if name == "add":
            tasks.add(tiles[first], number)
        elif name == "multiply":
            tasks.multiply(tiles[first], tiles[second], tiles[third])
        elif name == "swap":
            tasks.swap(tiles[first], tiles[second])
        else:
            tasks.add_all([tiles[first], tiles[second]], tiles[third])


def make_tiles():
    """Return tiles of one matrix, in both orders of memory, and one array of its own."""
    matrix = np.arange(64, dtype=float).reshape(8, 8) % 3
    turned = np.asfortranarray(matrix + 1)
    views = [whole[i : i + 4, k : k + 4] for whole in (matrix, turned) for i in (0, 4) for k in (0, 4)]
    return [*views, np.ones((4, 4))]


@pytest.mark.parametrize("seed", range(3))
def test_a_program_leaves_the_bytes_that_it_leaves_without_a_runtime(client, seed):
    plain, remote = make_tiles(), make_tiles()
    calls = list(draw_calls(seed, len(plain)))

    run_calls(calls, plain)
    with Runtime(cluster=client) as runtime:
        run_calls(calls[:30], remote)
        runtime.wait()
        run_calls(calls[30:], remote)

    assert [tile.tobytes() for tile in remote] == [tile.tobytes() for tile in plain]


def test_waiting_for_one_array_brings_that_one(client):
    one, other = np.zeros(4), np.zeros(4)

    with Runtime(cluster=client) as runtime:
        tasks.add(one, 1)
        tasks.add(other, 2)
        runtime.wait(one)
        assert one.tolist() == [1] * 4
        one += 1  # the program may change it now
        tasks.add(one, 1)

    assert one.tolist() == [3] * 4
    assert other.tolist() == [2] * 4


def test_views_that_overlap_partly_are_refused_until_the_program_has_waited(client):
    matrix = np.zeros((4, 4))

    with Runtime(cluster=client) as runtime:
        tasks.add(matrix[:2, :2], 1)
        tasks.add(matrix[2:, 2:], 1)
        with pytest.raises(UsageError, match=r"tile of add shares a part of its bytes with tile of add: use the same"):
            tasks.add(matrix, 1)
        with pytest.raises(UsageError, match="shares a part"):
            tasks.add(matrix[1:3, 1:3], 1)
        runtime.wait()
        tasks.add(matrix, 1)

    assert matrix.tolist() == [[2, 2, 1, 1], [2, 2, 1, 1], [1, 1, 2, 2], [1, 1, 2, 2]]


@pytest.mark.parametrize("value", [{}, bytearray(4), memoryview(bytearray(4)), np.array([None])])
def test_what_is_no_array_or_handle_is_refused(client, value):
    with (
        Runtime(cluster=client),
        pytest.raises(TypeError, match=r"tile of add is an? (dict|bytearray|memoryview|array of Python)"),
    ):
        tasks.add(value, 1)


def test_what_cannot_be_pickled_is_refused_by_its_name_and_other_tasks_run(client):
    tile = np.zeros(3)
    renamed = tprof.task(updates="tile")(tasks.add.__wrapped__)

    with Runtime(cluster=client):
        with pytest.raises(TypeError, match=r"argument 2 of add cannot be sent to a worker: cannot pickle '_thread"):
            tasks.add(tile, threading.Lock())
        with pytest.raises(TypeError, match=r"task add cannot be sent to a worker .*decorate it where it is defined"):
            renamed(tile, 1)
        tasks.add(tile, 1)

    assert tile.tolist() == [1, 1, 1]


def test_an_array_is_written_by_the_view_that_can_be_written(client):
    tile = np.zeros(3)
    frozen = tile.view()
    frozen.flags.writeable = False

    with Runtime(cluster=client):
        assert tasks.total_of(frozen).result() == 0
        with pytest.raises(UsageError, match="tile of add is a read-only array"):
            tasks.add(frozen, 1)
        tasks.add(tile, 1)

    assert tile.tolist() == [1, 1, 1]


def test_a_client_that_is_closed_is_refused(client):
    other = distributed.Client(client.scheduler.address)
    other.close()

    with pytest.raises(UsageError, match="closed"):
        Runtime(cluster=other)


def test_results_are_futures_and_arguments(client):
    array = np.ones(8)

    with Runtime(cluster=client):
        tasks.add(array, 1)
        total = tasks.total_of(array)
        doubled = tasks.double(tasks.double(total))
        assert concurrent.futures.wait([total, doubled], 60).not_done == set()

        assert (total.result(), doubled.result()) == (16, 64)
        nothing = tasks.add(array, 1)
        assert nothing.result() is None
        assert tasks.is_none(nothing).result()
        assert asyncio.run(_await(doubled)) == 64


async def _await(future):
    return await future


def test_tasks_on_a_handle_run_in_order(client, tmp_path):
    with Runtime(cluster=client):
        for letter in "abcdefgh":
            tasks.append("file", str(tmp_path / "written"), letter)

    assert (tmp_path / "written").read_text("utf-8") == "abcdefgh"


def test_tasks_may_spawn_tasks_and_wait(client):
    with Runtime(cluster=client):
        assert tasks.fibonacci(8).result() == 21


def test_a_failure_cancels_what_needs_it_and_is_raised_with_the_tasks_name(client):
    array, other = np.zeros(4), np.zeros(4)

    with pytest.raises(ValueError, match="no luck") as raised, Runtime(cluster=client):
        failed = tasks.fail(array)
        later = tasks.add(array, 1)
        tasks.add(other, 1)

    assert "raised in task fail (#1)" in raised.value.__notes__
    assert (failed.state, later.state) == ("failed", "cancelled")
    assert other.tolist() == [1] * 4


def test_data_of_a_failure_that_the_program_has_read_may_be_used_again(client):
    array = np.zeros(4)

    with Runtime(cluster=client):
        tasks.add(array, 1)
        failed = tasks.fail(array)
        with pytest.raises(TaskCancelledError, match="add did not run, since it needs what task fail failed"):
            tasks.add(array, 5).result()
        assert isinstance(failed.exception(), ValueError)
        tasks.add(array, 1)

    assert array.tolist() == [2] * 4


def test_a_group_waits_for_its_own_tasks_and_raises_their_failure(client, tmp_path):
    array, other = np.zeros(4), np.zeros(4)

    with Runtime(cluster=client) as runtime:
        slow = tasks.wait_for_file(other, str(tmp_path / "go"))
        with pytest.raises(ValueError, match="no luck"), runtime.group():
            tasks.fail(array)
        with runtime.group():
            tasks.add(array, 1)
        assert array.tolist() == [1] * 4
        assert not slow.done()
        (tmp_path / "go").touch()

    assert other.tolist() == [1] * 4


def test_an_exception_in_the_block_cancels_what_has_not_ended(client, tmp_path):
    array = np.zeros(4)

    with pytest.raises(KeyError, match="stop"), Runtime(cluster=client):
        first = tasks.wait_for_file(array, str(tmp_path / "go"))
        second = tasks.add(array, 1)
        raise KeyError("stop")
    (tmp_path / "go").touch()  # what runs goes on to its end

    assert first.cancelled()
    assert second.cancelled()
    assert array.tolist() == [0] * 4


def test_a_task_runs_again_if_its_worker_dies(client, tmp_path):
    with Runtime(cluster=client):
        assert tasks.end_process_once(None, str(tmp_path / "died")).result() == "survived"


def test_arrays_that_are_lost_with_a_worker_are_an_error_and_no_wrong_result(client, tmp_path):
    array = np.zeros(4)

    with pytest.raises(TprofError, match="a worker of the cluster ended"), Runtime(cluster=client):
        tasks.add(array, 1)
        tasks.end_process_once(array, str(tmp_path / "died"))

    assert array.tolist() in ([0] * 4, [1] * 4)


def test_a_spawn_waits_while_max_pending_tasks_are_unfinished(client):
    array = np.zeros(4)

    with Runtime(cluster=client, max_pending=8) as runtime:
        for _ in range(40):
            tasks.add(array, 1)
        counts = runtime.counts()

    assert counts["spawned"] == 40
    assert counts["peak_unfinished"] <= 8
    assert array.tolist() == [40] * 4


def test_the_graph_has_the_dependences(client, tmp_path):
    array = np.zeros(4)

    with Runtime(cluster=client, keep_graph=True) as runtime:
        tasks.wait_for_file(array, str(tmp_path / "go"))
        tasks.add(array, 1)
        tasks.total_of(array)
        graph = runtime.graph()
        (tmp_path / "go").touch()

    assert graph.edges == ((1, 2), (2, 3))


def test_calls_outside_the_block_and_in_other_tasks_of_the_workers_are_plain_calls(client):
    with Runtime(cluster=client):
        assert current().counts()["spawned"] == 0
        assert tasks.double(2).result() == 4
        assert client.submit(_call_plainly, pure=False).result() == 6

    assert tasks.double(3) == 6


def _call_plainly():
    return tasks.double(3)


@pytest.mark.parametrize("options", [{"workers": 2}, {"pin": True}, {"cluster": "tcp://127.0.0.1:8786"}])
def test_options_that_do_not_fit_are_refused(client, options):
    with pytest.raises(UsageError, match="cluster"):
        Runtime(**{"cluster": client, **options})
