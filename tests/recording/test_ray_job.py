"""A job of Ray is recorded node by node, by each host's own sensor, and its parts come home."""

import os
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from support.hosts import HAS_NAMESPACES, fake_hosts
from support.ray_nodes import DEADLINE_S, nodes

import tprof

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not HAS_NAMESPACES, reason="hosts need network namespaces: run as root, with ip and unshare"),
]
WATTS = {"near": 40.0, "far": 90.0, "bare": None}
DRIVER = """
import os, sys, time
import ray
import tprof
import tprof.ray

def say(what):
    print(">", what, flush=True)

def burn(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass

@ray.remote(max_retries=2, retry_exceptions=True)
def work(seconds, fails_until=None):
    burn(seconds)
    if fails_until is not None and not os.path.exists(fails_until):
        open(fails_until, "w").close()
        raise ValueError("once")
    return os.uname().nodename

@ray.remote(max_restarts=0)
class Counter:
    def __init__(self):
        self.count = 0
    def add(self, seconds):
        burn(seconds)
        self.count += 1
        return self.count
    def die(self):
        burn(0.2)
        os._exit(1)

@ray.remote
class Waiting:
    async def wait(self):
        return 1

@tprof.task
def drive():
    on = lambda node, **options: {"resources": {node: 1}, **options}
    say(ray.get([work.options(**on(name)).remote(0.3) for name in ("near", "far", "bare") for _ in range(2)]))
    say(ray.get(work.options(**on("far")).remote(0.1, sys.argv[2])))
    counter = Counter.options(**on("far", name="counter")).remote()
    say(ray.get([counter.add.remote(0.1) for _ in range(3)]))
    try:
        ray.get(counter.die.remote())
    except ray.exceptions.RayActorError:
        say("died")
    killed = Counter.options(**on("near")).remote()
    say(ray.get(killed.add.remote(0.1)))
    running = killed.add.remote(60)
    time.sleep(0.5)
    ray.kill(killed)
    waiting = Waiting.options(**on("near")).remote()
    say(ray.get([waiting.wait.remote() for _ in range(4)]))

environment = tprof.ray.runtime_env(sys.argv[1])
ray.init(runtime_env=environment, configure_logging=False, log_to_driver=False)
drive()
say("driven")
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return what the driver printed, the job, and the directory of the far node; the bare one dies before the end."""
    pytest.importorskip("ray", reason="ray is not installed: scripts/setup .venv test lint libraries")
    place = tmp_path_factory.mktemp("job")
    short = Path(tempfile.mkdtemp(prefix="r", dir=tmp_path_factory.getbasetemp().parent))  # for names of sockets
    (place / "out").mkdir()
    with (
        fake_hosts(place, WATTS) as hosts,
        nodes(hosts, "near", place=short, hidden={"far": place / "out"}) as environment,
    ):
        driver = hosts["near"].python(
            DRIVER, "out/x.tprof", str(short / "once"), cwd=place, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        output = []
        for line in driver.stdout:
            if line.startswith("> "):  # Ray prints too
                output.append(line.strip()[2:])
            if line == "> driven\n":
                kill_all(hosts["bare"])
                break
        _, errors = driver.communicate("\n", timeout=DEADLINE_S)
        assert driver.returncode == 0, errors
    assert len(re.findall(r"RuntimeWarning: nodes of Ray are gone, and were not collected: bare \(", errors)) == 1
    return output, tprof.load(place / "out" / "x.tprof"), short / "far"


def kill_all(host):
    """Let a host die."""
    space = host.prefix[host.prefix.index("exec") + 1]
    found = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=True).stdout.split()
    for pid in map(int, found):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def profile(recorded):
    return recorded[1].profile(model="cputime")


def test_the_program_runs_as_it_does_by_itself(recorded):
    hosts = [name for name in ("near", "far", "bare") for _ in range(2)]

    assert recorded[0] == [str(hosts), "far", "[1, 2, 3]", "died", "1", "[1, 1, 1, 1]", "driven"]


def test_functions_and_methods_are_tasks_and_each_attempt_is_an_instance(profile):
    instances = profile.summary()["instances"].to_dict()

    assert instances == {
        "drive": 1,
        "work": 8,  # one of which was a retry
        "Counter.__init__": 2,
        "Counter.add": 5,  # one of which was killed
        "Counter.die": 1,
        "Waiting.__init__": 1,
        "Waiting.wait": 4,
    }
    assert profile.tasks["failed"].sum() == 1


def test_an_actor_that_is_killed_in_a_call_keeps_its_instances_until_then(profile):
    killed = profile.tasks[(profile.tasks["task"] == "Counter.add") & (profile.tasks["host"] == "near")]

    assert len(killed) == 2
    assert killed["duration_s"].max() > 0.3
    assert killed["label_worker"].nunique() == 1


@pytest.mark.parametrize("name", ["near", "far"])
def test_each_host_has_the_joules_of_its_own_sensor(profile, name):
    host = profile.hosts.loc[name]

    assert host["quality"] == "measured"
    assert host["energy_j"] == pytest.approx(WATTS[name] * host["duration_s"], rel=0.02)


def test_a_part_on_another_disk_came_home_and_left_nothing_there(recorded):
    near, far = (next(host for host in recorded[1].hosts if host.name == name) for name in ("near", "far"))

    assert far.missing is None
    assert far.load().complete
    assert near.load().notes == far.load().notes == ()
    assert far.offset.by == "pings"
    assert abs(far.offset.offset_ns - near.offset.offset_ns) < 50_000_000 + far.offset.uncertainty_ns
    assert list(recorded[2].glob("tprof-*/hosts/*")) == []


def test_a_host_that_died_is_named_and_what_it_recorded_is_there(profile):
    bare = profile.hosts.loc["bare"]

    assert bare["quality"] == "estimated"
    assert bare["instances"] == 2
    assert "is gone" in bare["missing"]
    assert any(text.startswith("bare: node ") for text in profile.info["warnings"])


def test_tables_by_actor_and_worker_sum_to_all_tasks(profile):
    by_actor, by_worker = profile.by("actor"), profile.by("host", "worker")

    assert set(by_actor.index) == {"(none)", "counter", "Counter", "Waiting"}
    assert by_actor["energy_j"].sum() == pytest.approx(by_worker["energy_j"].sum())
    assert by_actor.loc["(none)", "quality"] == "mixed"
    assert by_worker.loc[("near", "driver"), "instances"] == 1
