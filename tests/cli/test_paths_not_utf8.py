"""A folder whose name the encoding of file names cannot express: every command works in it as in any other."""

import json
import os
import subprocess
import sys

import pytest
from support.programs import TPROF

from tprof import load

DEADLINE_S = 120
ASCII = {"LC_ALL": "C", "LANG": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
FOLDERS = {
    "a byte that is not UTF-8": (os.fsdecode(b"d\xff"), {"LC_ALL": "C.UTF-8"}),
    "a locale of ASCII": (os.fsdecode("dé".encode()), ASCII),
}
MODULE = "def f(n): return sum(range(n))\n"
PROGRAM = """
import subprocess, sys
from mod import f
for _ in range(30): f(20_000)
subprocess.run([sys.executable, "-c", "from mod import f; f(20_000)"], check=True)
print("done")
"""
READ = """
import json, os, sys
from tprof.cli import main
folder, statuses = os.getcwd(), {}
for line in json.loads(sys.argv[1]):
    sys.argv = ["tprof", *(word.replace("FOLDER", folder) for word in line)]
    try: main()
    except SystemExit as end: statuses[" ".join(line)] = end.code
print(json.dumps({name: status for name, status in statuses.items() if status}), file=sys.stderr)
"""
LINES = (
    "summary job", "report job -o FOLDER/job.html", "report y.tprof", "compare FOLDER/x.tprof y.tprof -o c.html",
    "check x.tprof --save FOLDER/b.json", "check y.tprof --baseline FOLDER/b.json --max-increase 100000%",
    "export FOLDER/x.tprof csv -o FOLDER/csv", "export x.tprof parquet",
    "top --once FOLDER/x.tprof", "merge x.tprof y.tprof -o FOLDER/m.tprof", "summary FOLDER/x.tprof",
)  # fmt: skip


@pytest.mark.parametrize("case", FOLDERS)
def test_commands_work_there_as_anywhere(case, tmp_path):
    name, variables = FOLDERS[case]
    folder = tmp_path / name
    folder.mkdir()
    (folder / "mod.py").write_text(MODULE, encoding="utf-8")
    (folder / "prog.py").write_text(PROGRAM, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"} | variables

    def run(*words):
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=DEADLINE_S, check=False)

    options = ["run", "--energy", "estimate", "--task", "mod:*"]
    runs = [
        run(TPROF, *options, "--stacks", "--report", "x.html", "-o", folder / "x.tprof", "prog.py"),
        run(TPROF, *options, "--no-summary", "--keep", "summary", "-o", f"k{name}.tprof", "prog.py"),
        run(TPROF, *options, "--no-summary", "--hosts", "-o", "job", "prog.py"),
        run(TPROF, *options, "--no-summary", "-o", "y.tprof", folder / "prog.py"),
    ]

    assert [(one.returncode, one.stdout) for one in runs] == [(0, b"done\n")] * 4
    assert b"report: x.html" in runs[0].stderr
    assert [one.stderr for one in runs[1:]] == [b""] * 3
    read = run(sys.executable, "-c", READ, json.dumps([line.split() for line in LINES]))
    assert (read.returncode, json.loads(read.stderr.splitlines()[-1])) == (0, {}), read.stderr
    profile = load(folder / "y.tprof").profile()
    assert profile.summary()["instances"].to_dict() == {"f": 31}
