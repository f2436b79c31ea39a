"""A program that another one replaces in its process leaves a complete recording of what it did until then."""

import os
import subprocess
import sys

import pytest
from support.programs import TPROF
from support.recorded import instances

import tprof

SOURCE = """
import os, sys

def f():
    return sum(range(1000))

if __name__ == "__main__":
    f()
    print("first", flush=True)
    {last}
    f()
    print("not replaced")
"""
SAYS = "takes this program's place (os.exec) and is not recorded\n"


def run(tmp_path, last, *options):
    (tmp_path / "prog.py").write_text(SOURCE.format(last=last))
    words = ["run", "--energy", "estimate", "--task", "__main__:f", "-o", "t.tprof", *options, "prog.py"]
    return subprocess.run([TPROF, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("call", "options"),
    [
        ("os.execv(sys.executable, [sys.executable, '-c', SECOND])", ()),
        ("os.execlp('env', 'env', sys.executable, '-c', SECOND)", ("--no-summary",)),
        ("os.execve(path=sys.executable, argv=[sys.executable, '-c', SECOND], env=os.environ)", ("--no-summary",)),
    ],
)
def test_a_replaced_program_is_recorded_to_its_end_and_the_user_is_told(tmp_path, call, options):
    done = run(tmp_path, call.replace("SECOND", repr("print('second'); raise SystemExit(3)")), *options)

    assert (done.returncode, done.stdout) == (3, "first\nsecond\n")
    assert done.stderr.count(SAYS) == 1
    assert options or done.stderr.index(SAYS) < done.stderr.index("Accounts (estimated)")
    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.complete
    assert instances(trace) == {"f": 1}


def test_a_program_that_cannot_be_executed_replaces_nothing(tmp_path):
    last = """
    for words in (("no-such-program", ["x"]), ("/etc/passwd", ["x"]), (sys.executable, [])):
        try:
            os.execv(*words)
        except (OSError, ValueError) as error:
            print(type(error).__name__)
    for environment in ({"a": "\\0"}, {"a=b": "c"}, {"a": 1}, 0):
        try:
            os.execve(sys.executable, [sys.executable, "-c", ""], environment)
        except (TypeError, ValueError):
            print("no")
    """
    done = run(tmp_path, last, "--no-summary")

    assert (done.returncode, done.stdout) == (
        0,
        "first\nFileNotFoundError\nPermissionError\nValueError\nno\nno\nno\nno\nnot replaced\n",
    )
    assert SAYS not in done.stderr
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"f": 2}


def test_a_forked_child_that_is_replaced_ends_nothing(tmp_path):
    last = """
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", ""])
    os.wait()
    """
    done = run(tmp_path, last, "--no-summary")

    assert (done.returncode, done.stdout) == (0, "first\nnot replaced\n")
    assert SAYS not in done.stderr
    assert instances(tprof.load(tmp_path / "t.tprof")) == {"f": 2}


def test_a_recording_in_a_program_ends_before_the_program_is_replaced(tmp_path):
    source = f"""
import os, sys, tprof
with tprof.record({str(tmp_path / "t.tprof")!r}, energy="estimate"):
    with tprof.region("f"):
        pass
    os.execv(sys.executable, [sys.executable, "-c", "print('second')"])
"""
    (tmp_path / "prog.py").write_text(source)

    done = subprocess.run(
        [sys.executable, "prog.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert (done.returncode, done.stdout) == (0, "second\n")
    assert f"RuntimeWarning: this process replaces itself by {sys.executable}: the recording" in done.stderr
    assert tprof.load(tmp_path / "t.tprof").complete


def test_after_a_recording_the_functions_are_as_before(tmp_path):
    before = os.execv, os.execve, set(os.supports_fd)

    with tprof.record(tmp_path / "t.tprof", energy="estimate"):
        assert os.execv is not before[0]
        assert os.execve in os.supports_fd

    assert (os.execv, os.execve, os.supports_fd) == before
