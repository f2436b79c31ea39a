"""What `tprof run` says of its `--task` patterns, and what `--list-tasks` shows."""

import json
import os
import subprocess
import sys

import pytest
from support.command_line import tprof
from support.programs import TPROF

DEADLINE_S = 120
PROGRAM = """
import sys

def load(n):
    return n

def blur(n):
    def once(x):
        return x
    return once(n)

class Filter:
    def apply(self):
        return 1

load(1)
print("ran", sys.argv[1:])
"""


def run(folder, *options, source=PROGRAM, program=("prog.py",)):
    # Users' programs import from their own folder; only this suite forbids that to its children.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    (folder / "prog.py").write_text(source)
    words = [TPROF, "run", "--energy", "estimate", "-o", "t.tprof", "--overwrite", *options, *program]
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


QUIET = ["--no-summary"]
NEAR = {
    "__main__:lode": "; did you mean __main__:load?",
    "prog.py:Filter.aply": "; did you mean prog.py:Filter.apply?",
    "jsn:dumps": "; did you mean json:dumps?",
    "nowhere_at_all:f": ": take the name of the module as it is imported",
    "re:compile": ": all of module:function must match compile; the module re is [r]e",
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Run the program with patterns that met functions and patterns that met none."""
    patterns = ["__main__:*", "__main__:load", "prog.py:Filter.*", *NEAR]
    return run(tmp_path_factory.mktemp("done"), *(word for pattern in patterns for word in ("--task", pattern)))


def test_functions_that_were_never_called_are_counted(done):
    assert "tprof: --task __main__:* matched 4 functions, 1 was called\n" in done.stderr
    assert "tprof: --task prog.py:Filter.* matched 1 function, none was called\n" in done.stderr
    assert "--task __main__:load" not in done.stderr


def test_a_function_that_only_a_child_process_called_was_called(tmp_path):
    source = (
        "import multiprocessing as mp\nimport helper\nif __name__ == '__main__':\n"
        "    process = mp.get_context('spawn').Process(target=helper.work)\n    process.start(); process.join()\n"
    )
    (tmp_path / "helper.py").write_text("def work():\n    import late\n    late.deep()\ndef unused(): pass\n")
    (tmp_path / "late.py").write_text("def deep(): pass\n")

    done = run(tmp_path, "--task", "helper:*", "--task", "late:deep", "--require-tasks", source=source)

    assert "--task helper:* matched 2 functions, 1 was called" in done.stderr
    assert "--task late:deep" not in done.stderr
    assert done.returncode == 0


def test_near_misses_of_patterns_that_met_no_function_are_named(done):
    assert done.returncode == 0
    for pattern, near in NEAR.items():
        assert f"tprof: --task {pattern} met no function{near}" in done.stderr
        if "No task ran" in done.stderr:
            assert done.stderr.index("met no function") < done.stderr.index("No task ran"), "the reason stands first"


@pytest.mark.parametrize(
    ("end", "patterns", "status", "summary"),
    [
        ("", ["__main__:load"], 0, QUIET),
        ("", ["__main__:load", "__main__:gone"], 1, QUIET),
        ("sys.exit(0)", ["__main__:gone"], 1, []),
        ("sys.exit(5)", ["__main__:gone"], 5, QUIET),
        ("", ["__main__:blur"], 0, QUIET),
        *(
            pytest.param(*words, marks=pytest.mark.thorough)
            for words in [
                ("", ["__main__:load"], 0, []),
                ("", ["__main__:load", "__main__:gone"], 1, []),
                ("sys.exit(0)", ["__main__:gone"], 1, QUIET),
                ("sys.exit(5)", ["__main__:gone"], 5, []),
                ("", ["__main__:blur"], 0, []),
            ]
        ),
    ],
)
def test_required_tasks_make_a_successful_program_fail(tmp_path, end, patterns, status, summary):
    words = [word for pattern in patterns for word in ("--task", pattern)]
    source = PROGRAM + "import atexit\natexit.register(print, 'at exit')\n" + end

    done = run(tmp_path, "--require-tasks", *words, *summary, source=source)

    assert (done.returncode, done.stdout) == (status, "ran []\nat exit\n")
    assert ("--task __main__:gone met no function" in done.stderr) == ("__main__:gone" in patterns)


def test_a_forked_child_keeps_its_own_status_where_tasks_are_required(tmp_path):
    source = "import os, sys\nif os.fork() == 0: sys.exit(0)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))\n"

    done = run(tmp_path, "--require-tasks", "--task", "__main__:gone", "--no-summary", source=source)

    assert (done.returncode, done.stdout) == (1, "0\n")


def test_requiring_without_a_task_is_refused(tmp_path):
    done = tprof("run", "--require-tasks", "prog.py", cwd=tmp_path)

    assert done.returncode == 2
    assert "--require-tasks needs a --task" in done.stderr


def test_the_tasks_of_a_script_are_listed_and_nothing_is_run(tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM)
    file = tmp_path / "prog.py"

    done = tprof("run", "--list-tasks", "prog.py", cwd=tmp_path)
    chosen = tprof(
        "run", "--list-tasks", "prog.py", "--task", "__main__:once", "--task", "prog.py:Filter.*", cwd=tmp_path
    )

    assert done.stdout == (
        f"__main__:load  {file}:4\n__main__:blur  {file}:7\n"
        f"__main__:blur.<locals>.once  {file}:8\n__main__:Filter.apply  {file}:13\n"
    )
    assert chosen.stdout.splitlines() == done.stdout.splitlines()[2:]


def test_the_tasks_of_a_package_are_listed_without_importing_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("import nothing_there\ndef here(): pass\n")
    (package / "part.py").write_text("class A:\n    def f(self): pass\nx = lambda: 1\n")

    whole = tprof("run", "--list-tasks", "pack", cwd=tmp_path)
    part = tprof("run", "--list-tasks", "pack.part", cwd=tmp_path)
    chosen = tprof("run", "--list-tasks", "pack.*", "--task", "pack.*", cwd=tmp_path)

    assert whole.stdout == f"pack:here  {package}/__init__.py:2\npack.part:A.f  {package}/part.py:2\n"
    assert chosen.stdout == whole.stdout
    assert part.stdout == f"pack.part:A.f  {package}/part.py:2\n"
    assert list(package.glob("__pycache__/*")) == []


@pytest.mark.parametrize("where", ["nope", "nope.py", "json.nope"])
def test_where_there_is_nothing_to_list_is_said(tmp_path, where):
    done = tprof("run", "--list-tasks", where, cwd=tmp_path)

    assert done.returncode == 2
    assert f"cannot list the tasks of {where}: " in done.stderr


def test_where_no_function_matched_the_reason_stands_first_and_the_program_is_a_task(tmp_path):
    source = (
        PROGRAM
        + "import threading\nthread = threading.Thread(target=sum, args=([1],), name='adder-1')\nthread.start()\n"
    )
    reason = "--task __main__:lode met no function; did you mean __main__:load?"

    done = run(tmp_path, "--task", "__main__:lode", "--report", "report.html", source=source)
    printed = tprof("summary", "t.tprof", cwd=tmp_path).stdout
    plain = json.loads(tprof("summary", "t.tprof", "--json", cwd=tmp_path).stdout)

    assert done.stdout == "ran []\n"
    assert done.stderr.startswith(reason)
    assert done.stderr.count("met no function") == 1
    assert printed.startswith(reason)
    assert plain["answer"]["reasons"] == [reason]
    assert {row["task"] for row in plain["tasks"]} == {"prog.py", "thread adder"}
    assert reason in (tmp_path / "report.html").read_text("utf-8")


def test_where_a_function_matched_the_program_is_no_task_and_nothing_stands_before_the_answer(tmp_path):
    run(tmp_path, "--task", "__main__:load", "--task", "__main__:lode")

    plain = json.loads(tprof("summary", "t.tprof", "--json", cwd=tmp_path).stdout)

    assert [row["task"] for row in plain["tasks"]] == ["load"]
    assert plain["answer"]["reasons"] == []
