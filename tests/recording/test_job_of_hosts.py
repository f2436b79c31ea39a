"""A job on several hosts, each with its own sensor of known watts, and one host without a sensor."""

import subprocess
from concurrent.futures import ProcessPoolExecutor

import pytest
from support.hosts import HAS_NAMESPACES, fake_hosts
from support.pthreads import wait_until

import tprof
from tprof.trace.running import is_running

WATTS = {"node-a": 20.0, "node-b": 60.0, "node-c": None}
LATE_S = 0.5
PROGRAM = """
import socket, sys, time
from pathlib import Path
import tprof
from tprof.session import hosts

def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

@tprof.task
def short():
    busy(0.05)

@tprof.task
def long():
    busy(0.1)

part = hosts.ensure(Path(sys.argv[1]), hosts.RecordingOptions(linger_s=0, counters="none"))
hosts.join(part, {"rank": sys.argv[2], "name": socket.gethostname()})
for _ in range(3):
    short()
    long()
hosts.leave()
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    place = tmp_path_factory.mktemp("job_of_hosts")
    with fake_hosts(place, WATTS) as found:
        started = [
            host.python(PROGRAM, str(place / "job.tprof"), str(rank), stderr=subprocess.PIPE)
            for rank, host in enumerate(found.values())
        ]
        errors = [process.communicate(timeout=120)[1] for process in started]
        assert errors == ["", "", ""]
        wait_until(lambda: not any(is_running(place / "job.tprof/hosts" / name) for name in WATTS))
    return place / "job.tprof"


@pytest.fixture(scope="module")
def profile(job):
    return tprof.load(job).profile()


@pytest.mark.parametrize("name", [name for name, watts in WATTS.items() if watts])
def test_the_joules_of_each_host_are_those_that_its_sensor_counted(profile, name):
    host = profile.hosts.loc[name]

    assert host["quality"] == "measured"
    # A busy machine reads the sensor late, at the end too.
    assert WATTS[name] * (host["duration_s"] - LATE_S) < host["energy_j"] < WATTS[name] * host["duration_s"] * 1.02
    accounts = profile.accounts.loc[name]
    assert accounts[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum(axis=1).sum() == pytest.approx(host["energy_j"])


@pytest.mark.parametrize("name", [name for name, watts in WATTS.items() if watts])
def test_tasks_share_their_hosts_joules_by_their_time(profile, name):
    by_task = profile.by_host().xs(name, level="host")["energy_j"]

    assert by_task["long"] / by_task.sum() == pytest.approx(2 / 3, rel=0.1)
    assert by_task.sum() == pytest.approx(profile.hosts.loc[name, "tasks_j"])


def test_each_host_has_one_part_with_its_own_labels(profile):
    tasks = profile.tasks

    assert set(zip(tasks["host"], tasks["label_rank"], strict=True)) == {
        (name, str(rank)) for rank, name in enumerate(WATTS)
    }
    if HAS_NAMESPACES:
        assert (tasks["label_name"].astype(str) == tasks["host"].astype(str)).all()


def test_a_host_without_a_sensor_is_estimated_and_never_added_to_measured_ones_unlabelled(profile):
    summary = profile.summary()

    assert profile.hosts["quality"].to_dict() == {"node-a": "measured", "node-b": "measured", "node-c": "estimated"}
    assert set(profile.measured_by_quality) == {"measured", "estimated"}
    assert set(summary["quality"]) == {"mixed"}
    assert (summary["measured_j"] + summary["estimated_j"]).to_numpy() == pytest.approx(summary["energy_j"].to_numpy())
    assert any("estimated and measured" in text for text in profile.info["warnings"])


def test_instances_of_all_hosts_stand_on_one_clock(profile):
    tasks = profile.tasks

    assert tasks["start_s"].min() >= 0
    assert (tasks["start_s"] + tasks["duration_s"]).max() <= profile.info["duration_s"] + 1e-6


def test_a_profile_without_instances_has_the_same_summary(job, profile):
    light = tprof.load(job).profile(tables=False)

    assert not light.instances.has_table
    assert light.summary().equals(profile.summary())


def test_parts_can_be_analysed_by_a_pool_of_processes(job, profile):
    with ProcessPoolExecutor(2) as pool:
        pooled = tprof.load(job).profile(map=pool.map)

    assert pooled.summary().equals(profile.summary())
    assert pooled.tasks.equals(profile.tasks)
