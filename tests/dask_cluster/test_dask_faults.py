"""Workers that are killed, restarted, added and lost, and a scheduler that goes away: what was recorded stays."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from support.pthreads import wait_until

import tprof

pytest.importorskip("dask", reason="dask is not installed: pip install tprof-energy[dask]")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

import tprof.dask  # noqa: E402 - after the skip

pytestmark = pytest.mark.thorough  # each starts processes of workers
NOTHING = {"energy": "none", "counters": "none", "attribute_native": False}
ONE = {"threads_per_worker": 1, "dashboard_address": ":0"}


def inc(x):
    return x + 1


def kill_once(marker):
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "came back"


def pid_after(seconds):
    time.sleep(seconds)
    return os.getpid()


def counts(profile):
    return profile.tasks["task"].astype(str).value_counts().to_dict()


@pytest.fixture
def cluster():
    with distributed.LocalCluster(n_workers=2, processes=True, **ONE) as cluster, distributed.Client(cluster) as client:
        yield cluster, client


def test_a_killed_worker_keeps_what_it_finished_and_records_again_when_it_is_back(cluster, tmp_path):
    client = cluster[1]
    with tprof.dask.record(client, tmp_path / "run.tprof", **NOTHING) as recording:
        client.gather(client.map(inc, range(20)))
        assert client.submit(kill_once, str(tmp_path / "killed")).result() == "came back"
        wait_until(lambda: len(client.scheduler_info()["workers"]) == 2)
        client.gather(client.map(inc, range(20, 40)))

    profile = recording.profile()
    assert [part.missing for part in recording.hosts] == [None]
    assert counts(profile) == {"inc": 40, "kill_once": 2}
    assert profile.tasks["pid"].nunique() >= 2
    assert profile.hosts["processes"].sum() == 4  # two workers, one of them twice, and the client


def test_a_restart_of_all_workers_goes_on_in_the_same_part(cluster, tmp_path):
    client = cluster[1]
    with tprof.dask.record(client, tmp_path / "run.tprof", **NOTHING) as recording:
        before = set(client.run(os.getpid).values())
        client.gather(client.map(inc, range(10)))
        client.restart()
        client.gather(client.map(inc, range(10)))
        assert before.isdisjoint(client.run(os.getpid).values())

    assert len(recording.hosts) == 1
    assert counts(recording.profile()) == {"inc": 20}


def test_workers_that_leave_early_and_come_late_are_recorded_while_they_are_there(cluster, tmp_path):
    local, client = cluster
    with tprof.dask.record(client, tmp_path / "run.tprof", **NOTHING) as recording:
        pids = set(client.run(pid_after, 0).values())
        client.gather(client.map(inc, range(10)))
        local.scale(1)
        wait_until(lambda: len(client.scheduler_info()["workers"]) == 1)
        local.scale(3)
        client.wait_for_workers(3)
        pids |= set(client.run(pid_after, 0).values())
        client.gather(client.map(pid_after, [0.2 + n / 1000 for n in range(9)]))

    tasks = recording.profile().tasks
    assert len(recording.hosts) == 1
    assert set(tasks["pid"]) <= pids
    assert tasks[tasks["task"] == "pid_after"]["pid"].nunique() == 3
    assert len(pids) == 4


def test_a_part_whose_workers_are_all_gone_is_named_as_missing(cluster, tmp_path):
    local, client = cluster
    away = tmp_path / "away"
    recording = tprof.dask.record(client, tmp_path / "run.tprof", local_directory=str(away), **NOTHING)
    recording.__enter__()
    client.gather(client.map(inc, range(10)))
    local.scale(0)
    wait_until(lambda: not client.scheduler_info()["workers"])

    with pytest.warns(RuntimeWarning, match="no worker was left on it at the end"):
        recording.__exit__(None, None, None)

    (part,) = recording.hosts
    assert part.path is None
    assert str(away) in part.missing
    with pytest.raises(tprof.TraceError, match="no worker was left"):
        recording.profile()
    (kept,) = away.glob("*/hosts/[!.]*")
    assert counts(tprof.load(kept).profile()) == {"inc": 10}


def test_what_workers_wrote_into_the_job_is_whole_when_the_scheduler_goes_away(tmp_path):
    local = distributed.LocalCluster(n_workers=1, processes=True, **ONE)
    client = distributed.Client(local)
    recording = tprof.dask.record(client, tmp_path / "run.tprof", **NOTHING)
    recording.__enter__()
    client.gather(client.map(inc, range(10)))
    local.close()

    with pytest.warns(RuntimeWarning, match="does not answer any more"):
        recording.__exit__(None, None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client.close()

    assert counts(tprof.load(tmp_path / "run.tprof").profile()) == {"inc": 10}
    assert recording.hosts


def test_workers_started_by_themselves_record_by_their_environment(tmp_path):
    environment = {**os.environ, "TPROF_DASK": "run.tprof"}
    environment["TPROF_DASK_OPTIONS"] = '{"energy": "none", "counters": "none", "linger_s": 0}'
    with distributed.LocalCluster(n_workers=0, processes=False, protocol="tcp://", **ONE) as local:
        words = [sys.executable, "-m", "distributed.cli.dask_worker", local.scheduler_address]
        words += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--preload", "tprof.dask"]
        worker = subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        with distributed.Client(local) as client:
            client.wait_for_workers(1)
            assert client.gather(client.map(len, [[1], [1, 2]])) == [1, 2]
        worker.terminate()
        worker.communicate(timeout=60)

    (part,) = [path for path in (tmp_path / "run.tprof" / "hosts").iterdir() if path.name[0] != "."]
    wait_until((part / "end.json").exists)
    profile = tprof.load(tmp_path / "run.tprof").profile()
    assert counts(profile) == {"len": 2}
