"""Where nothing names tasks, the program itself, its threads and its processes are the tasks."""

import subprocess
import sys

import pytest
from test_run import run, tasks

from tprof import load
from tprof.launch.default_tasks import kind_of
from tprof.launch.descendants import name_of_child

BURN = """\
import time
def burn(s):
    end = time.thread_time() + s
    while time.thread_time() < end:
        pass
"""


def test_the_program_and_its_threads_are_tasks_by_their_names(tmp_path):
    source = BURN + (
        "import threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "threads = [threading.Thread(target=burn, args=(0.05,)) for _ in range(2)]\n"
        "threads.append(threading.Thread(target=burn, args=(0.05,), name='loader-3'))\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "with ThreadPoolExecutor(1) as pool: pool.submit(burn, 0.05).result()\n"
        "burn(0.1)\n"
    )

    done = run(tmp_path, source, summary=True)

    assert tasks(tmp_path) == {"prog.py": 1, "thread burn": 2, "thread loader": 1, "thread ThreadPoolExecutor": 1}
    assert "tprof run --task '__main__:*' prog.py" in done.stderr
    table = load(tmp_path / "prog.tprof").profile().tasks
    assert set(table.loc[table["task"] == "thread loader", "thread"]) == {"loader-3"}
    cpu_s = table.groupby("task", observed=True)["cpu_s"].sum()
    assert cpu_s["prog.py"] >= 0.1
    assert cpu_s["thread burn"] >= 0.1
    assert cpu_s["thread ThreadPoolExecutor"] >= 0.05


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("fork", "prog.py (forked)"),
        ("spawn", "prog.py (spawned)"),
        ("forkserver", "multiprocessing.forkserver (forked)"),
    ],
)
def test_child_processes_are_tasks(tmp_path, method, name):
    source = BURN + (
        "import multiprocessing as mp\n"
        "if __name__ == '__main__':\n"
        f"    child = mp.get_context('{method}').Process(target=burn, args=(0.1,))\n"
        "    child.start(); child.join()\n"
    )

    run(tmp_path, source)

    table = load(tmp_path / "prog.tprof").profile().tasks
    # The CPU time of a process that ends by os._exit is known up to a look before its end.
    assert table.loc[table["task"] == name, "cpu_s"].sum() >= 0.05


def test_python_programs_that_it_starts_are_called_by_their_script_or_module(tmp_path):
    (tmp_path / "other.py").write_text("print('other')\n")
    source = (
        "import subprocess, sys\n"
        "for words in (['other.py'], ['-X', 'utf8', '-m', 'json.tool', '--help'], ['-c', 'pass']):\n"
        "    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)\n"
    )

    run(tmp_path, source)

    assert set(tasks(tmp_path)) == {"prog.py", "other.py", "json.tool", "python -c"}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["-m", "joblib.externals.loky.backend.popen_loky_posix", "--pipe", "3"], "prog.py (joblib worker)"),
        (["-m", "loky.backend.popen_loky_posix"], "prog.py (loky worker)"),
        (["-c", "from multiprocessing.resource_tracker import main;main(5)"], "multiprocessing.resource_tracker"),
        (["-c", "from joblib.externals.loky.backend.resource_tracker import main; main(4, False)"],
         "loky.backend.resource_tracker"),
        (["-c", "import loky"], "python -c"),
    ],
)  # fmt: skip
def test_helpers_of_process_pools_are_called_by_what_they_are(words, name):
    assert name_of_child(["/usr/bin/python3", "-X", "utf8", *words], "prog.py") == name


def test_a_program_without_functions_is_not_advised_to_name_its_own(tmp_path):
    done = run(tmp_path, "import json, numpy as np\nfrom os import path\nsum(range(100_000))\n", summary=True)

    ways = "tprof run --stacks prog.py, or tprof run --task 'numpy.*' prog.py\n"
    assert f"To see the functions of libraries that it calls: {ways}" in done.stderr
    assert "__main__:*" not in done.stderr


def test_after_sampled_stacks_the_packages_that_took_energy_are_named(tmp_path):
    source = "import psutil, time\nfrom rich.text import Text\nend = time.thread_time() + 1\n"
    source += "while time.thread_time() < end: Text('a b').divide([1])\n"

    done = run(tmp_path, source, "--stacks", summary=True)

    assert "that it calls: the report, or tprof run --task 'rich.*' prog.py\n" in done.stderr


def test_a_program_without_functions_and_libraries_is_advised_to_sample_stacks_only(tmp_path):
    done = run(tmp_path, "sum(range(100_000))\n", summary=True)

    assert "To see the functions of libraries that it calls: tprof run --stacks prog.py\n" in done.stderr


def test_tasks_of_the_programs_own_take_their_place(tmp_path):
    source = BURN + (
        "import threading, tprof\n"
        "early = threading.Thread(target=burn, args=(0.05,)); early.start()\n"
        "work = tprof.task(burn)\n"
        "thread = threading.Thread(target=work, args=(0.05,)); thread.start(); thread.join()\n"
        "work(0.05); early.join()\n"
    )

    done = run(tmp_path, source, summary=True)

    assert tasks(tmp_path) == {"burn": 2}
    assert "Tasks (estimated, by cputime)" in done.stderr
    assert "whole program" not in done.stderr


def test_what_threads_print_of_their_stacks_is_the_programs_own(tmp_path):
    source = (
        "import sys, threading, traceback\n"
        "def show():\n"
        "    traceback.print_stack(file=sys.stdout)\n"
        "    1 / 0\n"
        "threading.excepthook = lambda args: traceback.print_tb(args.exc_traceback, file=sys.stdout)\n"
        "thread = threading.Thread(target=show); thread.start(); thread.join()\n"
    )

    done = run(tmp_path, source)

    plain = subprocess.run([sys.executable, "prog.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "_bootstrap_inner" in plain.stdout
    assert done.stdout == plain.stdout


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Thread-12 (burn)", "burn"), ("Thread-3", "Thread"), ("ThreadPoolExecutor-0_11", "ThreadPoolExecutor"),
        ("loader", "loader"), ("12", "1"), ("worker #7", "worker #"), ("", ""),
    ],
)  # fmt: skip
def test_a_threads_kind_is_its_name_without_what_counts_it(name, kind):
    assert kind_of(name) == kind


SLEEPS_S = 1.0
ENDS = {
    "idle workers of a pool": (
        "import multiprocessing as mp, time\n"
        "with mp.get_context('fork').Pool(2) as pool: pool.map(abs, [1, 2]); time.sleep({s})\n"
    ),
    "killed": "import os, signal, time\ntime.sleep({s}); os.kill(os.getpid(), signal.SIGKILL)\n",
    "terminated": "import os, signal, time\ntime.sleep({s}); os.kill(os.getpid(), signal.SIGTERM)\n",
    "os._exit beside a thread": (
        "import os, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); time.sleep({s}); os._exit(0)\n"
    ),
    "another program in its place": "import os, time\ntime.sleep({s}); os.execv('/bin/true', ['true'])\n",
}


@pytest.mark.parametrize("end", ENDS)
def test_what_sleeps_until_its_process_ends_without_a_word_took_no_cpu_time_for_that(tmp_path, end):
    run(tmp_path, ENDS[end].format(s=SLEEPS_S), "--no-summary")

    profile = load(tmp_path / "prog.tprof").profile()

    assert len(profile.tasks) > 0
    assert (profile.tasks["cpu_s"] < SLEEPS_S / 2).all()
    guessed = any("a guess" in warning for warning in profile.info["warnings"])
    assert guessed == (end == "os._exit beside a thread")
