"""`tprof.dask.record` on a cluster in this process: one part for each host, home or left there."""

import asyncio
import os
import time

import pytest

import tprof

pytest.importorskip("dask", reason="dask is not installed: pip install tprof-energy[dask]")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

import tprof.dask  # noqa: E402 - after the skip

OPTIONS = {"energy": "estimate", "watts": (1, 4), "counters": "none", "attribute_native": False}
NOTHING = {"energy": "none", "counters": "none", "attribute_native": False}


def inc(x):
    return x + 1


def divide(x):
    return x / 0


def work(seconds):
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass
    return os.getpid()


@tprof.task
def of_the_driver():
    return work(0.01)


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def recorded(client, tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "run.tprof"
    with tprof.dask.record(client, path, **OPTIONS) as recording:
        client.gather(client.map(work, [0.02, 0.0201, 0.0202, 0.0203]))
        of_the_driver()
    return recording


def test_workers_of_one_host_and_the_client_share_one_part(recorded):
    assert len(recorded.hosts) == 1
    assert recorded.hosts[0].missing is None
    assert tprof.load(recorded.path).engine == "dask"
    names = [path.name for path in (recorded.path / "hosts").iterdir()]
    assert [name for name in names if name[0] != "."] == [recorded.hosts[0].name]


def test_tasks_have_their_hosts_their_workers_and_their_keys(recorded, client):
    tasks = recorded.profile().tasks

    assert tasks["task"].astype(str).value_counts().to_dict() == {"work": 4, "of_the_driver": 1}
    assert set(tasks["host"]) == {recorded.hosts[0].name}
    assert set(tasks["label_worker"].iloc[0].split(", ")) == {*client.scheduler_info()["workers"], "client"}
    assert tasks[tasks["task"] == "work"]["key"].str.startswith("work-").all()


def test_joules_of_the_accounts_sum_to_those_measured(recorded):
    profile = recorded.profile()
    accounts = profile.accounts
    parts = accounts[["tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]].sum(axis=1)

    assert parts.to_numpy() == pytest.approx(accounts["measured_j"].to_numpy())
    assert profile.summary()["energy_j"].sum() == pytest.approx(accounts["tasks_j"].sum())


def test_the_clock_of_a_host_is_compared_by_pings(recorded):
    offset = recorded.hosts[0].offset

    assert offset.by == "pings"
    assert abs(offset.offset_ns - (time.time_ns() - time.monotonic_ns())) < offset.uncertainty_ns + 50_000_000


def test_the_cluster_is_as_before_when_the_recording_has_ended(recorded, client):
    def plugins(dask_worker):
        return [*dask_worker.plugins], "execute" in vars(dask_worker)

    assert recorded.hosts
    assert all("tprof" not in names and not marked for names, marked in client.run(plugins).values())
    assert "TPROF_SESSION" not in os.environ


def test_parts_come_home_from_where_workers_keep_them(client, tmp_path):
    away = tmp_path / "away"
    with tprof.dask.record(client, tmp_path / "run.tprof", local_directory=str(away), **NOTHING) as recording:
        client.gather(client.map(inc, range(5), pure=False))

    assert recording.profile().tasks["task"].tolist() == ["inc"] * 5
    assert recording.hosts[0].path == tmp_path / "run.tprof" / "hosts" / recording.hosts[0].name
    assert list(away.iterdir()) == []


def test_parts_that_stay_are_analysed_where_they_are(client, tmp_path):
    options = {"local_directory": str(tmp_path / "away"), "keep_on_hosts": True, **NOTHING}
    with tprof.dask.record(client, tmp_path / "run.tprof", **options) as recording:
        client.gather(client.map(inc, range(5), pure=False))

    assert recording.profile().tasks["task"].tolist() == ["inc"] * 5
    assert recording.hosts[0].path is None
    assert str(tmp_path / "away") in recording.hosts[0].missing
    with pytest.raises(tprof.TraceError, match="it stayed on its host"):
        tprof.load(tmp_path / "run.tprof").profile()


def test_an_exception_in_the_block_ends_the_recording(client, tmp_path):
    recording = tprof.dask.record(client, tmp_path / "run.tprof", **NOTHING)

    with pytest.raises(ZeroDivisionError), recording:
        client.submit(divide, client.submit(inc, 1, pure=False)).result()

    assert recording.profile().tasks["task"].tolist() == ["inc", "divide"]


def test_an_asynchronous_client_records_by_async_with(tmp_path):
    async def run():
        options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
        async with (
            distributed.LocalCluster(asynchronous=True, **options) as cluster,
            distributed.Client(cluster, asynchronous=True) as client,
            tprof.dask.record(client, tmp_path / "run.tprof", **NOTHING) as recording,
        ):
            assert await client.submit(inc, 1) == 2
        return recording

    assert asyncio.run(run()).profile().tasks["task"].tolist() == ["inc"]


def test_a_second_recording_is_refused_with_a_sentence(client, tmp_path):
    with (
        tprof.record(tmp_path / "first.tprof", **NOTHING),
        pytest.raises(tprof.UsageError, match="already runs in this process"),
        tprof.dask.record(client, tmp_path / "second.tprof", **NOTHING),
    ):
        pass


def test_a_path_that_is_taken_is_replaced_only_if_that_is_asked_for(client, tmp_path):
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "run.tprof"
    for _ in range(2):
        with tprof.dask.record(client, path, overwrite=True, **NOTHING):
            pass

    with pytest.raises(tprof.UsageError, match="overwrite=True"), tprof.dask.record(client, path, **NOTHING):
        pass
    with (
        pytest.raises(tprof.UsageError, match="not only a job of yours"),
        tprof.dask.record(client, tmp_path, overwrite=True, **NOTHING),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_no_open_client_is_refused_and_makes_nothing(client, tmp_path):
    closed = distributed.Client(client.scheduler.address)
    closed.close()

    for other, why in ((client.cluster, r"takes a distributed\.Client"), ("tcp://x:1", "takes"), (closed, "closed")):
        with pytest.raises(tprof.UsageError, match=why):
            tprof.dask.record(other, tmp_path / "job.tprof", **NOTHING)
    assert not (tmp_path / "job.tprof").exists()


def test_async_with_is_for_asynchronous_clients_only(client, tmp_path):
    async def record():
        async with tprof.dask.record(client, tmp_path / "job.tprof", **NOTHING):
            pass

    with pytest.raises(tprof.UsageError, match="without async"):
        asyncio.run(record())


def test_an_option_that_there_is_not_is_refused(client, tmp_path):
    with pytest.raises(tprof.UsageError, match="no option 'energie'"):
        tprof.dask.record(client, tmp_path / "run.tprof", energie="auto")


def test_a_cluster_none_of_whose_hosts_can_be_recorded_is_an_error_and_works_on(client, tmp_path):
    recording = tprof.dask.record(client, tmp_path / "run.tprof", energy="powercap", counters="none")

    with pytest.raises(tprof.SensorError, match="no host of the cluster can be recorded"), recording:
        pass
    assert client.submit(inc, 1, pure=False).result() == 2
