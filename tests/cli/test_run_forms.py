"""Whatever Python runs, a folder, an archive or a text, `tprof run` runs with the same names, frames and words."""

import os
import py_compile
import subprocess
import sys
import threading
import zipapp
from pathlib import Path

import pytest
from support.programs import TPROF
from test_run import DEADLINE_S, run, tasks, tprof

FACTS = (
    "import sys\n"
    "def f(): return 1\n"
    "f()\n"
    "spec = __spec__ and __spec__.name\n"
    "print(sys.orig_argv[1:])\n"
    "print(__file__, sys.argv, sys.path[0], spec, __package__, type(__loader__).__name__, flush=True)\n"
)


def make_folder(folder):
    (folder / "app").mkdir()
    (folder / "app" / "__main__.py").write_text(FACTS)
    return "app"


def make_archive(folder):
    zipapp.create_archive(folder / make_folder(folder), folder / "app.pyz")
    return "app.pyz"


def make_compiled(folder):
    (folder / "prog.py").write_text(FACTS)
    py_compile.compile(folder / "prog.py", folder / "prog.pyc")
    return "prog.pyc"


def make_script(folder):
    (folder / "prog.py").write_text(FACTS)
    (folder / "deep").mkdir()
    return "deep/.././prog.py"


@pytest.mark.parametrize("make", [make_folder, make_archive, make_compiled, make_script])
def test_whatever_python_runs_is_run_with_the_same_names(tmp_path, make):
    name = make(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    plain = subprocess.run(
        [sys.executable, name, "x"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=DEADLINE_S,
        check=True,
    )  # fmt: skip

    done = tprof(tmp_path, "run", "--energy", "estimate", "--no-summary", "-o", "prog.tprof", name, "x")

    assert done.returncode == 0
    compiled = make is make_compiled  # of which the loader differs
    assert done.stdout.split()[: -1 if compiled else None] == plain.stdout.split()[: -1 if compiled else None]
    assert tasks(tmp_path) == {Path(name).name: 1}


def test_a_folder_without_a_program_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()

    done = tprof(tmp_path, "run", "empty")

    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot run empty: there is no __main__ in it; name a script, or use -m for a package" in done.stderr


STACK = """\
import inspect, logging, sys, traceback
def depth(n=1):
    try:
        return depth(n + 1)
    except RecursionError:
        return n
class Deep:
    def __getattr__(self, name):
        return getattr(self, name)
print(len(inspect.stack()), len(traceback.extract_stack()), depth(), sys._getframe().f_back)
logging.warning("here", stack_info=True)
sys.setrecursionlimit(500)
print(depth())
try:
    Deep().x
except RecursionError as error:
    print(error)
def fails():
    traceback.print_stack(file=sys.stdout)
    raise ValueError("boom")
import atexit
atexit.register(lambda: print(len(traceback.extract_stack())))
fails()
"""


@pytest.mark.parametrize("options", [(), ("--task", "__main__:nothing")], ids=["no names", "names"])
def test_no_frame_of_ours_stands_below_the_program(tmp_path, options):
    done = run(tmp_path, STACK, *options)

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    plain = subprocess.run(
        [sys.executable, "prog.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=DEADLINE_S,
        check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (plain.stdout, plain.returncode)
    assert plain.stderr in done.stderr


TEXT = """\
import dataclasses, linecache, sys
@dataclasses.dataclass
class Point:
    x: int
    def double(self):
        return 2 * self.x
def shout():
    print("here")
def fails():
    raise ValueError
shout()
print(Point(21).double(), sys.argv, sys.orig_argv[1:])
print(repr(sys.path[0]), sorted(globals()), globals().get("__file__"), flush=True)
print(getattr(__loader__, "__name__", ""), list(linecache.cache))
print(sys.stdin.read())
fails()
"""


def run_text(folder, words, kind):
    """Run the text as `-c`, from standard input, or from a pipe that is named as a shell does it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    arguments, given = {
        "-c": (["-c", TEXT, "a", "-b"], "input"),
        "-": (["-", "a", "-b"], TEXT),
        "pipe": (["fifo", "a"], "input"),
    }[kind]
    if kind == "pipe":
        os.mkfifo(folder / "fifo")
        text = TEXT.replace("\nfails()", "")  # of which a traceback, plain or not, would read the pipe again
        threading.Thread(target=(folder / "fifo").write_text, args=(text,), daemon=True).start()
    done = subprocess.run(
        [*words, *arguments], cwd=folder, env=environment, input=given, capture_output=True, text=True,
        timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    if kind == "pipe":
        (folder / "fifo").unlink()
    return done


NAMES = ("--task", "__main__:*")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("-c", NAMES),
        ("-", ()),
        ("pipe", NAMES),
        *(pytest.param(*one, marks=pytest.mark.thorough) for one in [("-c", ()), ("-", NAMES), ("pipe", ())]),
    ],
    ids=str,
)
def test_a_text_is_run_as_python_runs_it(tmp_path, kind, options):
    plain = run_text(tmp_path, [sys.executable], kind)

    done = run_text(tmp_path, [TPROF, "run", "--energy", "estimate", "--no-summary", "-o", "s.tprof", *options], kind)

    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    name = "fifo" if kind == "pipe" else f"python {kind}"
    assert tasks(tmp_path, "s.tprof").keys() >= ({"shout", "Point.double"} if options else {name})


def test_an_option_out_of_range_is_named_as_it_is_typed(tmp_path):
    done = subprocess.run(
        [TPROF, "run", "--idle", "-3", "-c", "pass"], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S,
        check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (2, "tprof: --idle must be from 0 to 60 seconds, got -3.0\n")
