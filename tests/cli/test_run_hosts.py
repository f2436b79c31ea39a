"""`tprof run` started by a launcher on several hosts: one job, a part for each host, one summary."""

import os
import subprocess

import pytest
from support.hosts import fake_hosts
from support.programs import TPROF

import tprof
from tprof.session.launcher import Launched

PROGRAM = """
import os, sys, time
import tprof

@tprof.task
def work():
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass

work()
print("rank", os.environ["OMPI_COMM_WORLD_RANK"])
sys.exit(int(os.environ["OMPI_COMM_WORLD_RANK"] == os.environ.get("FAILS")))
"""

POOL = """
import multiprocessing, sys
import tprof

@tprof.task
def square(number):
    return number

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(sum(pool.map(square, range(8))))
"""


def launch(hosts, folder, namespace, *words):
    """Start two ranks on each host as Open MPI does; returns what each printed, by rank."""
    (folder / "prog.py").write_text(PROGRAM)
    processes = []
    for number, host in enumerate(hosts.values()):
        for local in range(2):
            variables = {
                "OMPI_COMM_WORLD_RANK": str(2 * number + local),
                "OMPI_COMM_WORLD_SIZE": str(2 * len(hosts)),
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                "PMIX_NAMESPACE": namespace,
            }
            command = [TPROF, "run", "--counters", "none", *words, "prog.py"]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            processes.append(host.start(*command, cwd=folder, env=variables, **pipes))
    return [(*process.communicate(timeout=120), process.returncode) for process in processes]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with fake_hosts(tmp_path_factory.mktemp("hosts"), {"node1": 30.0, "node2": 50.0}) as made:
        yield made


@pytest.fixture(scope="module")
def launched(hosts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("launched")
    return folder, launch(hosts, folder, "prte-1@1")


def test_each_host_records_its_ranks_into_its_part_of_one_job(launched):
    folder, _ = launched
    # A fit may warn of what else runs here.
    profile = tprof.load(folder / "prog-prte-1_1.tprof").profile(model="cputime")

    assert sorted(zip(profile.tasks["host"], profile.tasks["label_rank"], strict=True)) == [
        ("node1", "0"), ("node1", "1"), ("node2", "2"), ("node2", "3"),
    ]  # fmt: skip
    assert profile.info["warnings"] == [] or all("CPU time" in text for text in profile.info["warnings"])
    for name, watts in (("node1", 30.0), ("node2", 50.0)):
        assert profile.hosts.loc[name, "power_w"] == pytest.approx(watts, rel=0.02)


def test_the_first_rank_alone_sums_up_its_host_and_names_the_job(launched):
    _, printed = launched

    assert [out for out, _, _ in printed] == [f"rank {rank}\n" for rank in range(4)]
    assert [err for _, err, _ in printed[1:]] == ["", "", ""]
    assert "tprof: host node1 of prog-prte-1_1.tprof" in printed[0][1]
    assert "all hosts: tprof summary prog-prte-1_1.tprof" in printed[0][1]
    assert [status for _, _, status in printed] == [0, 0, 0, 0]


def test_every_part_has_ended_when_the_launcher_has(launched):
    folder, _ = launched

    for part in tprof.load(folder / "prog-prte-1_1.tprof").hosts:
        assert part.load().complete


def test_a_job_of_another_launch_is_not_joined(hosts, launched):
    folder, _ = launched
    printed = launch({"node1": hosts["node1"]}, folder, "prte-2@1", "-o", "prog-prte-1_1.tprof", "--hosts")

    assert [status for _, _, status in printed] == [2, 2]
    assert "with the recordings of another run" in printed[0][1]
    assert printed[1][1] == ""  # once for all ranks


@pytest.mark.parametrize(
    ("variables", "speaks"),
    [
        ({}, True),
        ({"PMI_RANK": "0", "MPI_LOCALNRANKS": "2", "PMI_SIZE": "2"}, True),
        ({"PMI_RANK": "1", "MPI_LOCALNRANKS": "2", "PMI_SIZE": "2"}, False),
        ({"PMI_RANK": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2", "PMI_SIZE": "4"}, True),  # of its host
        ({"PMI_RANK": "3", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_SIZE": "4"}, False),
        ({"PMI_RANK": "3", "MPI_LOCALNRANKS": "2", "PMI_SIZE": "4"}, True),  # nothing says which of its host it is
        (
            {"PMIX_RANK": "2", "PMIX_NAMESPACE": "a", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_SIZE": "4"},
            False,
        ),
    ],
)
def test_one_rank_prints_what_all_would_print(variables, speaks):
    assert Launched.here(variables).speaks == speaks


@pytest.mark.parametrize("option", [["--overwrite"], ["--report", "page.html"]])
def test_what_needs_all_hosts_is_refused_before_the_program_runs(tmp_path, option):
    (tmp_path / "prog.py").write_text("print('ran')")
    done = subprocess.run(
        [TPROF, "run", "--hosts", *option, "prog.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert option[0] in done.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_program_with_a_pool_ends_though_the_helpers_of_the_pool_outlive_its_code(tmp_path, method):
    (tmp_path / "prog.py").write_text(POOL)
    words = [TPROF, "run", "--hosts", "--energy", "estimate", "--counters", "none", "-o", "job", "prog.py", method]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (0, "28\n")
    (part,) = tprof.load(tmp_path / "job").hosts
    assert part.load().complete
    assert not [text for text in part.load().notes if "still ran" in text]
    assert list(part.load().profile().tasks["task"]) == ["square"] * 8


@pytest.mark.thorough
def test_a_failed_first_rank_waits_for_nobody(hosts, tmp_path):
    os.environ["FAILS"] = "0"
    try:
        printed = launch(hosts, tmp_path, "prte-3@1")
    finally:
        del os.environ["FAILS"]

    assert [status for _, _, status in printed] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("variables", "rank", "local_size", "spans_hosts", "name"),
    [
        ({}, None, None, False, None),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
         1, 2, False, None),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
          "PMIX_NAMESPACE": "prte@1"}, 1, 2, True, "prte@1"),
        ({"PMI_RANK": "0", "PMI_SIZE": "8", "MPI_LOCALNRANKS": "4"}, 0, 4, True, None),
        ({"PALS_RANKID": "3", "PMI_SIZE": "24", "PALS_LOCAL_SIZE": "12", "PALS_APID": "a-b"}, 3, 12, True, "a-b"),
        ({"SLURM_PROCID": "4", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "77", "SLURM_STEP_NUM_NODES": "3",
          "SLURM_NODEID": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"}, 4, 1, True, "slurm-77.0"),
        ({"SLURM_PROCID": "0", "SLURM_JOB_ID": "77", "SLURM_NNODES": "3"}, 0, None, False, None),
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_NNODES": "many", "SLURM_STEP_TASKS_PER_NODE": "2(x"},
         0, None, False, None),
    ],
)  # fmt: skip
def test_launchers_tell_of_ranks_and_hosts(variables, rank, local_size, spans_hosts, name):
    """Slurm's script of a job is no step, and runs on one of the job's nodes."""
    found = Launched.here(variables)

    assert (found.rank, found.local_size, found.spans_hosts, found.launch) == (rank, local_size, spans_hosts, name)
