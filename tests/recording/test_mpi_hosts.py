"""A real job of MPI over several hosts, each with a sensor of known watts: one part for each host, labels of ranks."""

import json
import subprocess

import pytest
from support import command_line, hydra
from support.hosts import HAS_NAMESPACES, fake_hosts
from support.programs import TPROF

import tprof

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not HAS_NAMESPACES, reason="hosts need network namespaces: run as root, with ip and unshare"),
]
DEADLINE_S = 240
WATTS = {"node1": 30.0, "node2": 50.0, "node3": None}
RANKS = {"node1": 2, "node2": 1, "node3": 1}
PROGRAM = """
import array, os, sys, time
from mpi4py import MPI
import tprof

world = MPI.COMM_WORLD

@tprof.task
def work(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

for _ in range(3):
    work(0.05 if world.rank else 0.2)
    total = array.array("d", [0])
    world.Allreduce([array.array("d", [1]), MPI.DOUBLE], [total, MPI.DOUBLE])
assert total[0] == world.size
if sys.argv[1:]:
    if world.rank == int(sys.argv[1]):
        os.kill(os.getpid(), 9)
    world.Barrier()
sys.stdout.write("%d %s\\n" % (world.rank, MPI.Get_processor_name()))
"""
OPTIONS = ["run", "--mpi", "--counters", "none", "--no-native-threads", "--no-summary"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    place = tmp_path_factory.mktemp("hosts")
    with fake_hosts(place, WATTS) as made:
        yield place, made


def launch(hosts, folder, *words):
    (folder / "prog.py").write_text(PROGRAM)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    job = hydra.launch(hosts[1], hosts[0], RANKS, TPROF, *OPTIONS, "-o", "job.tprof", *words, cwd=folder, **pipes)
    output, errors = job.communicate(timeout=DEADLINE_S)
    return output, errors, job.returncode


@pytest.fixture(scope="module")
def recorded(hosts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    output, errors, status = launch(hosts, folder, "prog.py")
    assert status == 0, errors
    return output, folder / "job.tprof"


@pytest.fixture(scope="module")
def profile(recorded):
    return tprof.load(recorded[1]).profile(model="cputime")


def test_the_ranks_of_each_host_are_one_part(recorded, profile):
    ranks = profile.tasks.groupby("host", observed=True)["label_rank"].unique()

    assert {host: set(found) for host, found in ranks.items()} == {
        "node1": {"0", "1"}, "node2": {"2"}, "node3": {"3"},
    }  # fmt: skip
    assert sorted(recorded[0].splitlines()) == ["0 node1", "1 node1", "2 node2", "3 node3"]
    assert profile.summary()["instances"][["work", "MPI_Allreduce", "MPI_Init_thread"]].tolist() == [12, 12, 4]
    assert profile.info["missing"] == {}


@pytest.mark.parametrize("name", [name for name, watts in WATTS.items() if watts])
def test_each_host_has_the_joules_of_its_sensor(profile, name):
    host = profile.hosts.loc[name]

    assert host["energy_j"] == pytest.approx(WATTS[name] * host["duration_s"], rel=0.02)
    by_rank = profile.by("host", "rank").loc[name]
    assert by_rank["energy_j"].sum() == pytest.approx(host["tasks_j"])


def test_who_waits_for_a_slow_rank_does_so_in_mpi(profile):
    by_rank = profile.by("rank")
    own_s = profile.tasks[profile.tasks["task"] == "work"].groupby("label_rank", observed=True)["cpu_s"].sum()

    assert list(by_rank.index) == list("0123")
    assert own_s["0"] == pytest.approx(0.6, rel=0.1)
    assert own_s["3"] == pytest.approx(0.15, rel=0.1)
    assert (by_rank["mpi_s"] > 0).all()
    assert by_rank["quality"].to_dict() == {rank: "estimated" if rank == "3" else "measured" for rank in "0123"}


def test_the_table_by_rank_is_printed(recorded):
    plain, printed = (
        command_line.tprof("summary", "--model", "cputime", "--by", *words, "job.tprof", cwd=recorded[1].parent).stdout
        for words in (["host,rank", "--json"], ["rank"])
    )

    rows = json.loads(plain)["by"]
    assert [(row["host"], row["rank"]) for row in rows] == [
        ("node1", "0"), ("node1", "1"), ("node2", "2"), ("node3", "3"),
    ]  # fmt: skip
    assert printed.splitlines()[0] == "Tasks by rank (mixed, by cputime)"
    assert "in MPI" in printed.splitlines()[1]


def test_a_rank_that_is_killed_ends_the_job_and_all_parts_keep_what_ran(hosts, tmp_path):
    _, _, status = launch(hosts, tmp_path, "prog.py", "2")

    assert status != 0
    trace = tprof.load(tmp_path / "job.tprof")
    table = trace.profile(model="cputime")
    assert table.summary()["instances"]["work"] == 12
    assert set(table.hosts.index) == set(WATTS)
