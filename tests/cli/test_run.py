"""`tprof run` leaves the program as it is, and its tasks and exit status in order."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import programs
from support.programs import TPROF
from support.properties import examples

from tprof import load
from tprof.cli.app import make_app
from tprof.cli.run_start import Launch, prepare, read_launch
from tprof.errors import UsageError

DEADLINE_S = 120
DEFINE = "import sys\ndef f(n):\n    return sum(range(n))\n"


def tprof(folder, *words):
    # Users' programs import from their own folder; only this suite forbids that to its children.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        [TPROF, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def run(folder, source, *options, arguments=(), summary=False):
    (folder / "prog.py").write_text(source)
    options = [*options, *([] if summary else ["--no-summary"])]
    return tprof(folder, "run", "--energy", "estimate", *options, "prog.py", *arguments)


def tasks(folder, session="prog.tprof"):
    return load(folder / session).profile().summary()["instances"].to_dict()


@pytest.fixture(scope="module")
def summed_up(tmp_path_factory):
    """Run a program with options of many kinds and a summary; returns its folder and what was said."""
    folder = tmp_path_factory.mktemp("summed_up")
    options = [word for name in ("__main__:f", "__main__:g", "json:dumbs") for word in ("--task", name)]
    options += ["--watts", "10,5", "--report", "here.html"]
    source = DEFINE + "print(f(10), sys.argv)\n"
    return folder, run(folder, source, *options, arguments=["--x", "1"], summary=True)


def test_standard_output_is_the_programs_own(summed_up):
    _, done = summed_up

    assert done.stdout == "45 ['prog.py', '--x', '1']\n"
    assert done.returncode == 0


def test_an_interrupt_ends_the_recording_whole_and_the_process_by_the_signal(tmp_path):
    done = run(tmp_path, DEFINE + "import os, signal\nf(9)\nos.kill(os.getpid(), signal.SIGINT)\n", "--task", "prog:f")

    assert done.returncode == -signal.SIGINT
    assert json.loads((tmp_path / "prog.tprof" / "end.json").read_text())["stopped"] == "interrupted"
    assert tasks(tmp_path) == {"f": 1}


def test_functions_of_imported_modules_become_tasks_by_wildcard(tmp_path):
    (tmp_path / "helper.py").write_text("class A:\n    @classmethod\n    def m(cls): return 1\ndef g(): return 2\n")
    run(tmp_path, "import helper\nhelper.A.m()\nhelper.g()\n", "--task", "hel*:A.*")

    assert tasks(tmp_path) == {"A.m": 1}


def test_spawned_children_make_the_same_tasks(tmp_path):
    source = DEFINE + (
        "import multiprocessing as mp\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(f, [10, 10]))\n"
        "        pool.close(); pool.join()\n"
    )
    done = run(tmp_path, source, "--task", "__main__:f")

    assert done.stdout == "[45, 45]\n", done.stderr
    assert tasks(tmp_path) == {"f": 2}


def test_a_pattern_without_colon_is_a_usage_error(tmp_path):
    done = run(tmp_path, DEFINE, "--task", "blur")

    assert done.returncode == 2
    assert "--task must be MODULE:FUNCTION" in done.stderr
    assert not (tmp_path / "prog.tprof").exists()


def test_a_pattern_that_meets_no_function_is_named(summed_up):
    _, done = summed_up

    assert done.returncode == 0
    assert "--task __main__:g met no function" in done.stderr
    assert "--task json:dumbs met no function" in done.stderr
    assert "__main__:f met" not in done.stderr


@pytest.mark.parametrize("words", [("nope.py",), ("-m", "nope"), (".",)])
def test_a_program_that_is_not_there_leaves_nothing_behind(tmp_path, words):
    done = tprof(tmp_path, "run", *words)

    assert done.returncode == 2
    assert done.stderr.startswith("tprof: cannot run ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_working_folder_that_was_removed_is_named(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(UsageError, match="the working folder was removed: change to one that exists"):
        prepare(Launch(("-c", "pass"), output=os.fspath(tmp_path / "t.tprof")))


def test_a_module_runs_as_python_would_run_it(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import part\nprint(__name__, __package__, sys.argv[1:], part.double(4))\n"
    )
    (package / "part.py").write_text("def double(x):\n    return 2 * x\n")

    options = ["-o", "t.tprof", "--energy", "estimate", "--no-summary", "--task", "pack.part:*"]
    done = tprof(tmp_path, "run", *options, "-m", "pack", "--x")

    assert done.stdout == "__main__ pack ['--x'] 8\n", done.stderr
    assert tasks(tmp_path, "t.tprof") == {"double": 1}


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_process_pools_of_an_unchanged_program_make_the_same_tasks(tmp_path, method):
    source = DEFINE + (
        "import multiprocessing as mp\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "if __name__ == '__main__':\n"
        f"    with ProcessPoolExecutor(2, mp_context=mp.get_context({method!r})) as pool:\n"
        "        print(sum(pool.map(f, [10] * 20)))\n"
    )
    done = run(tmp_path, source, "--task", "__main__:f")

    assert done.stdout == "900\n", done.stderr
    assert tasks(tmp_path) == {"f": 20}


def test_a_report_can_be_written_at_once(summed_up):
    folder, done = summed_up

    assert "report: here.html" in done.stderr
    assert (folder / "here.html").read_text().startswith("<!doctype html>")


def test_given_watts_stand_beside_the_figures(summed_up):
    _, done = summed_up

    assert "estimated from 10.0 W idle and 5.0 W a busy core, as given" in " ".join(done.stderr.split())


def test_best_effort_runs_the_program_unprofiled(tmp_path):
    (tmp_path / "taken.tprof").mkdir()
    refused = run(tmp_path, "print(1)\n", "-o", "taken.tprof")
    done = run(tmp_path, "print(1)\n", "-o", "taken.tprof", "--best-effort")

    assert refused.returncode != 0
    assert refused.stdout == ""
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "unprofiled" in done.stderr
    assert os.listdir(tmp_path / "taken.tprof") == []  # noqa: PTH208 - names only


STARTS = {
    "an unknown failure": (["-c", "BEGIN"], "cannot record: RuntimeError: no way"),
    "an option that does not fit": (["--keep", "nothing", "-c", "PROGRAM"], "--keep"),
    "a report's folder that is not there": (["--report", "nowhere/x.html", "-c", "PROGRAM"], "nowhere"),
    "a program on the standard input": (["--energy", "nothing", "-"], "energy"),
}


@pytest.mark.parametrize("case", STARTS)
def test_best_effort_runs_the_program_whatever_keeps_tprof_from_starting(case, tmp_path):
    words, why = STARTS[case]
    source = "import sys; print(sys.argv[1:]); sys.exit(3)"
    fails = "import tprof.session.recording as r; from tprof.cli import main\n"
    if "BEGIN" in words:
        fails += "def enter(self): raise RuntimeError('no way')\nr.Recording.__enter__ = enter\n"
    words = [source if word in ("BEGIN", "PROGRAM") else word for word in words]

    done = subprocess.run(
        [sys.executable, "-c", f"{fails}main()", "run", "--best-effort", *words, "--x"],
        cwd=tmp_path, input=source, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (3, "['--x']\n")
    assert why in done.stderr
    assert done.stderr.endswith("; the program runs unprofiled\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("table", ["[tool.tprof\n", "[tool.tprof]\nbogus = 1\n", "[tool.tprof.run]\nenergy = 3\n"])
@pytest.mark.parametrize("option", [("--energy", "estimate"), ("--energy=estimate",)])
def test_best_effort_runs_the_program_beside_a_configuration_that_cannot_be_read(table, option, tmp_path):
    (tmp_path / "pyproject.toml").write_text(table)

    refused = run(tmp_path, "print(1)\n", *option)
    done = run(tmp_path, "print(1)\n", *option, "--best-effort")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "pyproject.toml" in done.stderr
    assert done.stderr.endswith("; the program runs unprofiled\n")


def test_best_effort_records_without_a_view_where_there_is_no_terminal(tmp_path):
    done = run(tmp_path, "print(1)\n", "-o", "x.tprof", "--live", "--best-effort")

    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "--live needs a terminal" in done.stderr
    assert (tmp_path / "x.tprof" / "end.json").exists()


def test_a_program_that_is_not_there_is_said_once_with_best_effort_too(tmp_path):
    done = tprof(tmp_path, "run", "--best-effort", "nope.py")

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot run nope.py: no such file or directory" in done.stderr


OVER = """
import threading
import time
import tprof

@tprof.task(budget_j=1e-6, over_budget="cancel")
def waits():
    time.sleep(0.5)

waits()
"""


def test_a_task_over_its_budget_is_named_and_the_exit_status_stays(tmp_path):
    done = run(tmp_path, OVER)

    assert done.returncode == 0
    assert "\ntprof: an instance of task waits took " in done.stderr


def children(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def test_an_interrupt_of_the_summary_ends_it_and_nothing_else(tmp_path):
    (tmp_path / "prog.py").write_text(DEFINE + "print('runs', flush=True)\n")
    program = programs.begin(tmp_path, [TPROF, "run", "--energy", "estimate", "prog.py"])
    assert program.stdout.readline() == "runs\n"
    deadline_s = time.monotonic() + DEADLINE_S
    while not children(program):
        assert time.monotonic() < deadline_s

    program.send_signal(signal.SIGINT)

    _, said = program.communicate(timeout=DEADLINE_S)
    assert (program.returncode, "Traceback" in said) == (0, False)
    assert (tmp_path / "prog.tprof" / "end.json").exists()


SERVER = """
def answer(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


def ask(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return client.makefile("rb").read()


def test_the_workers_of_a_server_leave_the_summary_to_it(tmp_path):
    pytest.importorskip("gunicorn", reason="gunicorn is not installed: pip install gunicorn")
    (tmp_path / "server.py").write_text(SERVER)
    options = ["run", "--energy", "estimate", "--task", "server:answer", "-m", "gunicorn", "--workers", "2"]
    server = programs.begin(tmp_path, [TPROF, *options, "--bind", "unix:here", "server:answer"])
    try:
        booted = 0
        while booted < 2:
            line = server.stderr.readline()
            assert line, "the server ended"
            booted += "Booting worker" in line

        answers = [ask(str(tmp_path / "here")) for _ in range(3)]
        server.terminate()
        _, said = server.communicate(timeout=DEADLINE_S)
    finally:
        server.kill()

    assert [answer[-2:] for answer in answers] == [b"ok"] * 3
    assert (server.returncode, said.count("next: tprof report")) == (0, 1), said
    assert tasks(tmp_path, "gunicorn.tprof") == {"answer": 3}


def test_a_text_needs_words(tmp_path):
    done = tprof(tmp_path, "run", "-c")

    assert (done.returncode, done.stdout) == (2, "")
    assert "-c needs the text of a program after it" in done.stderr


WORDS = st.sampled_from(
    [
        *("-o", "x", "--output", "--task", "--energy", "none", "--counters", "--watts", "1,2", "--report", "--idle"),
        *("0.5", "--overwrite", "--best-effort", "--no-summary", "--require-tasks", "--list-tasks", "-m", "-c", "-"),
        *("--no-native-threads", "--passive-pools"),
        *("prog.py", "", "--", "--best_effort", "-ox", "--task=x", "-h", "--other"),
    ]
)


@examples(300)
@given(st.lists(WORDS, max_size=8))
def test_options_that_are_read_without_typer_mean_what_typer_reads(words):
    at_once = read_launch(words)

    if at_once is not None:
        context = make_app().commands["run"].make_context("run", list(words))
        named = {name: tuple(value) if isinstance(value, list) else value for name, value in context.params.items()}
        assert named.pop("list_tasks") is None
        assert dataclasses.asdict(at_once) == {**named, "task": named["task"] or (), "program": named["program"]}


def test_usual_options_are_read_without_typer():
    options = ("-o", "x", "--task", "a:b", "--task", "c:d", "--idle", "0.5", "--overwrite", "--report", "x.html")

    assert read_launch([*options, "-m", "mod", "--task", "e"]) == Launch(
        ("-m", "mod", "--task", "e"), output="x", task=("a:b", "c:d"), idle=0.5, overwrite=True, report=Path("x.html")
    )


SHOW_POOLS = """
import os
for name in ("OPENBLAS_THREAD_TIMEOUT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"):
    print(name, os.environ.get(name))
"""


@pytest.mark.parametrize(
    ("given_variables", "shown", "said"),
    [
        (
            {},
            ["20", "passive", "0"],
            "sets OPENBLAS_THREAD_TIMEOUT=20, OMP_WAIT_POLICY=passive, KMP_BLOCKTIME=0 for the program",
        ),
        (
            {"OPENBLAS_THREAD_TIMEOUT": "7"},
            ["7", "passive", "0"],
            "sets OMP_WAIT_POLICY=passive, KMP_BLOCKTIME=0 for the program; OPENBLAS_THREAD_TIMEOUT as you set it",
        ),
        (
            {"OMP_WAIT_POLICY": "active"},
            ["20", "active", "None"],
            "sets OPENBLAS_THREAD_TIMEOUT=20 for the program; OMP_WAIT_POLICY as you set it",
        ),
    ],
)
def test_passive_pools_are_set_and_said_and_what_the_user_set_stays(
    tmp_path, monkeypatch, given_variables, shown, said
):
    for name in ("OPENBLAS_THREAD_TIMEOUT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given_variables.items():
        monkeypatch.setenv(name, value)

    done = run(tmp_path, SHOW_POOLS, "--passive-pools")

    assert [line.split()[1] for line in done.stdout.splitlines()] == shown
    assert done.stderr == f"tprof: --passive-pools {said}\n"


def test_without_the_option_no_variable_of_the_program_changes(tmp_path):
    done = run(tmp_path, "import os\nfor name in os.environ: print(name)\n", "--no-native-threads")

    new = set(done.stdout.split()) - set(os.environ)
    assert not [name for name in new if not name.startswith(("TPROF_", "PYTHON"))]
    assert load(tmp_path / "prog.tprof").native_threads == ()


def test_a_session_that_could_not_have_the_programs_name_is_named_first(tmp_path):
    (tmp_path / "prog.tprof").mkdir()
    done = run(tmp_path, "sum(range(1000))\n", summary=True)

    first = done.stderr.splitlines()[0]
    assert first == "prog.tprof existed already, so this run is in prog-2.tprof (--overwrite replaces it)"
    assert done.stderr.splitlines()[-1] == "next: tprof report prog-2.tprof"


def test_overwriting_without_a_name_replaces_the_session_of_the_programs_name(tmp_path):
    for _ in range(2):
        run(tmp_path, "pass\n", "--overwrite", "--no-native-threads")

    assert [path.name for path in tmp_path.glob("*.tprof")] == ["prog.tprof"]
