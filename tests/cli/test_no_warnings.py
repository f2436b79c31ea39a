"""The main commands make Python warn of nothing: no file left open, nothing that a later Python forbids."""

import os
import subprocess
import sys

import pytest
from support import programs

STRICT = [sys.executable, "-X", "dev", "-W", "error"]
PROGRAM = """
import threading

def work(n):
    return sum(i * i for i in range(n))

def parallel():
    threads = [threading.Thread(target=work, args=(20_000,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for _ in range(1_500):
    work(10)
parallel()
"""
ALL_AFTER_ANOTHER = """
import gc, sys
from tprof.cli import main

for line in sys.argv[1:]:
    sys.argv = ["tprof", *line.split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (line, end.code)
    gc.collect()
"""
COMMANDS = [
    "summary a.tprof",
    "summary a.tprof --json",
    "report a.tprof -o a.html",
    "compare a.tprof b.tprof",
    "compare a.tprof b.tprof -o compare.html",
    "top a.tprof --once",
    "export a.tprof csv -o tables",
    "export a.tprof otlp -o a.jsonl",
    "compress a.tprof",
    "summary a.tprof",
    "top a.tprof --once --json",
    "check a.tprof --save base.json",
    "check a.tprof --baseline base.json",
    "merge a.tprof -o job.tprof",
    "config",
]


def strictly(folder, *words):
    """Run Python where each warning is an error, and show what it says of those in finalizers."""
    done = subprocess.run(
        [*STRICT, *words],
        capture_output=True,
        text=True,
        timeout=programs.DEADLINE_S,
        check=False,
        cwd=folder,
        env=os.environ | {"TPROF_CONFIG": "none"},
    )
    assert done.returncode == 0, done.stderr
    for sign in ("Warning", "Exception ignored", "Traceback"):
        assert sign not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("strict")
    programs.write(place, PROGRAM)
    for name in "ab":
        words = ["run", "-o", f"{name}.tprof", "--task", "program:*", "--energy", "estimate", "--stacks", "program.py"]
        strictly(place, "-m", "tprof", *words)
    return place


def test_no_command_that_looks_at_a_session_warns(folder):
    strictly(folder, "-c", ALL_AFTER_ANOTHER, *COMMANDS)

    assert (folder / "a.html").exists()
    assert list((folder / "a.tprof" / "threads").glob("*.packed"))


def test_no_recording_by_calls_warns(folder):
    source = (
        "import tprof\nwith tprof.record('c.tprof', energy='estimate'):\n    with tprof.region('x'):\n        pass\n"
    )

    strictly(folder, "-c", source + "print(tprof.load('c.tprof').profile().summary())")


def test_a_file_that_is_left_open_would_be_noticed(tmp_path):
    with pytest.raises(AssertionError, match="ResourceWarning"):
        strictly(tmp_path, "-c", "open('/dev/null')")
