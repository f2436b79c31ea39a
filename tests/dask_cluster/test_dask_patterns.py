"""`tprof run --task` adds the functions that match to the tasks of dask."""

import subprocess

import pytest
from support.programs import TPROF

import tprof

pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

DEADLINE_S = 120
PROGRAM = """
from dask.distributed import Client, LocalCluster


def fit(x):
    return sum(range(1000)) + x


def helper(x):
    return x


def outer(x):
    return helper(x)


if __name__ == "__main__":
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": PROCESSES, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        print(client.submit(outer, client.submit(fit, 1)).result())
"""


@pytest.mark.thorough  # a program of several processes starts
@pytest.mark.parametrize("processes", [True, False])
def test_patterns_add_to_the_tasks_of_dask_and_mark_nothing_twice(tmp_path, processes):
    (tmp_path / "prog.py").write_text(PROGRAM.replace("PROCESSES", str(processes)))
    patterns = ("--task", "__main__:fit", "--task", "__main__:helper")
    words = [TPROF, "run", "--energy", "estimate", "--no-summary", *patterns, "-o", "prog.tprof", "prog.py"]

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    assert (done.returncode, done.stdout) == (0, "499501\n")
    tasks = tprof.load(tmp_path / "prog.tprof").profile().tasks
    assert sorted(tasks["task"]) == ["fit", "helper", "outer"]
    assert tasks.set_index("task")["key"].notna().to_dict() == {"fit": True, "outer": True, "helper": False}
