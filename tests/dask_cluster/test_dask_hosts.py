"""A cluster on several hosts, each with its own sensor of known watts, and one host without a sensor."""

import os
import subprocess
import sys
import time

import pytest
from support.hosts import HAS_NAMESPACES, fake_hosts, gateway

import tprof

pytest.importorskip("dask", reason="dask is not installed: pip install tprof-energy[dask]")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

import tprof.dask  # noqa: E402 - after the skip

pytestmark = [
    pytest.mark.thorough,  # three workers start
    pytest.mark.skipif(not HAS_NAMESPACES, reason="network namespaces need root, ip and unshare"),
]
WATTS = {"node-a": 20.0, "node-b": 60.0, "node-c": None}
STILL = "".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0\n" for cpu in ("", *range(os.cpu_count() or 1)))
"""What else runs on this machine does not run on these hosts: all that their sensors count is their worker's."""
MEASURED = [name for name, watts in WATTS.items() if watts]


# Of `__main__`, so that they are sent whole: the workers do not have the modules of these tests.
TASKS = {"__name__": "__main__"}
exec(  # noqa: S102 - see above
    """
import time

def busy(seconds):
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass

def short(_):
    busy(0.05)

def long(_):
    busy(0.15)

def grow(values):
    busy(0.1)
    return values * 2
""",
    TASKS,
)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Return the client of a cluster with a worker on each host."""
    place = tmp_path_factory.mktemp("hosts")
    with fake_hosts(place, WATTS) as hosts:
        for host in hosts.values():
            host.tree.write("proc/stat", STILL)
        address = gateway(hosts["node-a"])
        options = {"n_workers": 0, "processes": False, "protocol": "tcp://", "dashboard_address": ":0", "host": address}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            # Real time: where other processes take the processor from a task, its joules are not known to be its own.
            words = ["chrt", "-f", "5", sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
            words += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--name"]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place}
            workers = [host.start(*words, name, **quiet) for name, host in hosts.items()]
            client.wait_for_workers(len(WATTS), timeout=120)
            yield client
        for worker in workers:
            worker.kill()
            worker.wait()


def run_on(client, names):
    """Run some tasks on each of these hosts at the same time."""
    workers = {known["name"]: address for address, known in client.scheduler_info()["workers"].items()}
    futures = []
    for name in names:
        for task in ("short", "long"):
            futures += client.map(TASKS[task], range(4), workers=[workers[name]], pure=False)
    distributed.wait(futures, timeout=60)
    client.gather(futures)


@pytest.fixture(scope="module")
def recorded(client, tmp_path_factory):
    """Record two hosts, one after the other: their workers have a processor each, also on a machine with one."""
    place = tmp_path_factory.mktemp("recorded")
    options = {"local_directory": str(place / "away"), "counters": "none", "attribute_native": False}
    with tprof.dask.record(client, place / "run.tprof", **options) as recording:
        for name in WATTS:
            run_on(client, [name])
    return recording


@pytest.fixture(scope="module")
def profile(recorded):
    return recorded.profile()


def test_each_host_has_a_part_that_came_home(recorded, client):
    assert {part.name for part in recorded.hosts} == set(WATTS)
    assert all(part.missing is None and part.offset.by == "pings" for part in recorded.hosts)
    assert len(client.scheduler_info()["workers"]) == 3


@pytest.mark.parametrize("name", MEASURED)
def test_the_joules_of_each_host_are_those_of_its_sensor(profile, name):
    host = profile.hosts.loc[name]

    assert host["quality"] == "measured"
    assert host["energy_j"] == pytest.approx(WATTS[name] * host["duration_s"], rel=0.02)


@pytest.mark.parametrize("name", MEASURED)
def test_tasks_share_the_joules_of_their_host_by_their_time(profile, name):
    tasks = profile.tasks[profile.tasks["host"] == name]
    energy_j = tasks.groupby("task", observed=True)["energy_j"].sum()

    assert tasks["task"].astype(str).value_counts().to_dict() == {"short": 4, "long": 4}
    assert energy_j["long"] / energy_j.sum() == pytest.approx(0.75, rel=0.02)
    assert energy_j.sum() == pytest.approx(WATTS[name] * tasks["duration_s"].sum(), rel=0.05)


def test_a_host_without_a_sensor_is_estimated(profile):
    assert profile.hosts["quality"].to_dict() == {"node-a": "measured", "node-b": "measured", "node-c": "estimated"}
    assert set(profile.measured_by_quality) == {"measured", "estimated"}


def test_a_host_that_cannot_be_recorded_works_on_and_is_named(client, tmp_path):
    options = {"energy": "powercap", "counters": "none", "attribute_native": False}
    recording = tprof.dask.record(client, tmp_path / "run.tprof", **options)

    with pytest.warns(RuntimeWarning, match="node-c: .*powercap") as warned, recording:
        run_on(client, WATTS)

    assert warned[0].filename == __file__
    profile = recording.profile()
    assert set(profile.tasks["host"]) == set(MEASURED)
    assert "was not recorded" in profile.hosts.loc["node-c", "missing"]


def test_the_critical_path_goes_over_hosts_as_the_data_do(client, tmp_path):
    """Megabytes go from host to host and back; a shorter task runs beside."""
    options = {"local_directory": str(tmp_path / "away"), "counters": "none", "attribute_native": False}
    workers = {known["name"]: address for address, known in client.scheduler_info()["workers"].items()}
    way = ["node-a", "node-b", "node-a"]
    with tprof.dask.record(client, tmp_path / "run.tprof", **options) as recording:
        beside = client.submit(TASKS["short"], 0, workers=[workers["node-c"]], pure=False)
        values = b"x" * 10**6
        for name in way:
            values = client.submit(TASKS["grow"], values, workers=[workers[name]], pure=False)
        assert len(values.result()) == 8 * 10**6
        beside.result()

    profile = recording.profile()
    path = profile.critical_path()

    energy_j = profile.tasks[profile.tasks["task"] == "grow"].sort_values("start_s")["energy_j"]
    assert path.chain["host"].tolist() == way
    assert path.chain["task"].tolist() == ["grow"] * 3
    assert path.chain["energy_j"].tolist() == pytest.approx(energy_j.tolist())
    assert path.host_changes == 2
    assert path.contradicting == 0
    assert path.parts["transfer_s"] > 0
    assert sum(path.parts.values()) == pytest.approx(path.makespan_s)


def test_the_clocks_of_hosts_are_compared_within_their_uncertainty(recorded):
    """All clocks of these hosts are this machine's."""
    ahead_ns = time.time_ns() - time.monotonic_ns()

    for part in recorded.hosts:
        assert abs(part.offset.offset_ns - ahead_ns) < part.offset.uncertainty_ns + 50_000_000
