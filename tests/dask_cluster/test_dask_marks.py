"""Each dask task is an instance of a tprof task where it runs: threads of this process, one cluster for all tests."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import tprof

dask = pytest.importorskip("dask", reason="dask is not installed: pip install tprof-energy[dask]")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

WAIT_S = 0.3  # so long that a busy machine, which lets a coroutine wait for a processor too, takes no half of it
HAS_PARTS = tuple(map(int, dask.__version__.split(".")[:2])) >= (2024, 12)

from tprof.dask import marks  # noqa: E402 - after the skip
from tprof.dask.worker_hooks import mark_no_more, mark_tasks  # noqa: E402


def inc(x):
    return x + 1


def total(numbers):
    return sum(numbers)


def fail(x):
    raise ValueError(x)


async def later(x):
    await asyncio.sleep(WAIT_S)
    return x


async def fail_later(x):
    await asyncio.sleep(0)
    raise ValueError(x)


def leave_and_return(x):
    distributed.secede()
    distributed.rejoin()
    return x


def inside(n):
    with distributed.worker_client() as client:
        return sum(client.gather(client.map(inc, range(n), pure=False)))


@tprof.task
def part(x):
    return x


def outer(x):
    return part(x)


@tprof.task
def decorated(x):
    return x


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, n):
        self.count += n
        return self.count

    async def add_later(self, n):
        await asyncio.sleep(0)
        return self.add(n)

    def fail(self):
        raise ValueError(self.count)


def run_every_kind(client):
    """Run tasks of every kind, and return their results."""
    pairs = client.map(inc, client.map(inc, range(6)))
    found = [client.submit(total, pairs).result()]
    found += [client.submit(later, 3).result(), client.submit(leave_and_return, 4).result()]
    found += [client.submit(inside, 5).result(), client.submit(outer, 6).result()]
    found += [client.submit(decorated, 7).result()]
    for function, options in ((fail, {"retries": 2}), (fail_later, {})):
        found.append(type(client.submit(function, 1, **options).exception()))
    counter = client.submit(Counter, actor=True).result()
    found += [counter.add(1).result(), counter.add_later(2).result(), counter.add(3, separate_thread=False).result()]
    with pytest.raises(ValueError, match="6"):
        counter.fail().result()
    return found


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield cluster, client


@pytest.fixture(scope="module")
def recorded(cluster, tmp_path_factory):
    """Return the profile of a program with tasks of every kind, and the program's results."""
    local, client = cluster
    workers = list(local.workers.values())
    for worker in workers:
        mark_tasks(worker)
    path = tmp_path_factory.mktemp("marks") / "a.tprof"
    with tprof.record(path, energy="estimate", watts=(1, 4), counters="none", attribute_native=False) as recording:
        results = run_every_kind(client)
        x = pytest.importorskip("dask.array").arange(4, chunks=2)
        results.append(int(x.map_blocks(inc).sum().compute()))
    for worker in workers:
        mark_no_more(worker)
    return recording.profile(), results, workers


def test_results_and_errors_are_those_of_the_program(recorded):
    assert recorded[1] == [27, 3, 4, 15, 6, 7, ValueError, ValueError, 1, 3, 6, 10]


def test_each_dask_task_is_an_instance_named_by_its_keys_prefix(recorded):
    counts = recorded[0].tasks["task"].value_counts()

    expected = {"inc": 17, "total": 1, "later": 1, "leave_and_return": 1, "inside": 1, "outer": 1, "part": 1}
    expected |= {"decorated": 1, "decorated (dask)": 0}
    expected |= {"fail": 3, "fail_later": 1, "Counter": 1}
    expected |= {"Counter.add": 2, "Counter.add_later": 1, "Counter.fail": 1}
    assert {name: int(counts.get(name, 0)) for name in expected} == expected


def test_fused_tasks_have_the_names_of_their_parts(recorded):
    names = set(recorded[0].tasks["task"])

    assert any(name.startswith("sum-aggregate") for name in names)
    if HAS_PARTS:
        assert "arange-inc-sum" in names


def test_only_attempts_that_raised_are_failed(recorded):
    tasks = recorded[0].tasks

    failed = tasks[tasks["failed"]]["task"].value_counts()

    assert {name: count for name, count in failed.items() if count} == {"fail": 3, "fail_later": 1, "Counter.fail": 1}


def test_instances_have_keys_and_what_they_needed(recorded):
    profile = recorded[0]
    tasks = profile.tasks.set_index("instance")
    sums = tasks.index[tasks["task"] == "total"]

    needed = profile.dependences.set_index("instance")["waits_for"].loc[sums]

    assert tasks.loc[sums[0], "key"].startswith("total-")
    assert tasks.loc[needed, "task"].tolist() == ["inc"] * 6
    assert tasks[tasks["task"] == "fail"]["key"].nunique() == 1
    assert tasks[tasks["task"] == "part"]["key"].isna().all()
    assert tasks[tasks["task"] == "decorated"]["key"].str.startswith("decorated-").all()


def test_a_task_of_the_program_is_nested_in_the_dask_task_that_calls_it(recorded):
    tasks = recorded[0].tasks.set_index("instance")

    parent = tasks.loc[tasks["task"] == "part", "parent"].iloc[0]

    assert tasks.loc[parent, "task"] == "outer"


def test_the_critical_path_follows_the_needs(recorded):
    path = recorded[0].critical_path()

    chain = recorded[0].tasks.set_index("instance").loc[path.chain["instance"], "task"].tolist()
    assert chain  # the longest chain is some program's: what holds for any machine is that needs come first
    assert path.contradicting == 0
    assert path.span_s <= path.makespan_s * (1 + 1e-9)


def test_a_coroutine_counts_while_it_runs_not_while_it_waits(recorded):
    profile = recorded[0]
    own_s = profile.own_s[(profile.tasks["task"] == "later").to_numpy()]
    waited_s = profile.tasks.loc[profile.tasks["task"] == "later", "duration_s"]

    assert (waited_s >= WAIT_S).all()
    assert (own_s < waited_s.to_numpy() / 2).all()


def test_the_workers_are_as_before_when_marking_ends(recorded):
    for worker in recorded[2]:
        assert "execute" not in vars(worker)
        assert worker.handlers["actor_execute"] == worker.actor_execute
        assert all("submit" not in vars(executor) for executor in worker.executors.values())


def test_marking_twice_counts_once_and_ends_with_the_last(cluster, tmp_path):
    local, client = cluster
    worker = next(iter(local.workers.values()))
    mark_tasks(worker)
    mark_tasks(worker)
    mark_no_more(worker)

    with tprof.record(tmp_path / "a.tprof", energy="none", counters="none", attribute_native=False) as recording:
        assert client.submit(inc, 1, pure=False, workers=[worker.address]).result() == 2
    mark_no_more(worker)

    assert recording.profile().tasks["task"].tolist() == ["inc"]
    assert "execute" not in vars(worker)


def test_names_without_end_become_one_task(cluster, tmp_path, monkeypatch):
    local, client = cluster
    monkeypatch.setattr(marks, "MOST_NAMES", len(marks._regions) + 1)  # noqa: SLF001 - what other tests named
    worker = next(iter(local.workers.values()))
    mark_tasks(worker)

    with tprof.record(tmp_path / "a.tprof", energy="none", counters="none", attribute_native=False) as recording:
        for name in ("first", "second", "third"):
            client.submit(inc, 1, key=name, workers=[worker.address]).result()
    mark_no_more(worker)

    assert recording.profile().tasks["task"].tolist() == ["first", marks.OTHER, marks.OTHER]


def test_a_key_with_many_needs_keeps_them_all(cluster, tmp_path):
    local, client = cluster
    for worker in local.workers.values():
        mark_tasks(worker)

    with tprof.record(tmp_path / "a.tprof", energy="none", counters="none", attribute_native=False) as recording:
        assert client.submit(total, client.map(inc, range(250), pure=False)).result() == 250 * 251 // 2
    for worker in local.workers.values():
        mark_no_more(worker)

    assert len(recording.profile().dependences) == 250


@pytest.mark.thorough
def test_tasks_in_the_processes_of_an_executor_are_named_there(tmp_path):
    with tprof.record(tmp_path / "a.tprof", energy="none", counters="none", attribute_native=False) as recording:
        executor = {"pool": ProcessPoolExecutor(1, get_context("spawn"))}
        options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
        with distributed.LocalCluster(executor=executor, **options) as local, distributed.Client(local):
            worker = next(iter(local.workers.values()))
            mark_tasks(worker)
            with dask.annotate(executor="pool"):
                assert dask.delayed(inc)(1).compute(optimize_graph=False) == 2
            mark_no_more(worker)

    tasks = recording.profile().tasks
    assert tasks["task"].tolist() == ["inc"]
    assert tasks["pid"].nunique() == 1
