"""`scripts/size` counts code by folder and names each folder that is over its budget."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CODE = '''"""Not counted."""

NUMBER = 1  # three tokens
"""Nor is this."""
'''
HEADER = "folder,files,tokens\n"


@pytest.fixture
def checkout(tmp_path):
    """Make a repository with one file of Python and one of C, six tokens in all, and a file that does not count."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "size", tmp_path / "scripts")
    folder = tmp_path / "tprof" / "cli" / "csrc"
    folder.mkdir(parents=True)
    (folder.parent / "a.py").write_text(CODE)
    (folder / "a.c").write_text("/* int i; */ int i; // int j;\n")
    (folder / "a.csv").write_text("1,2\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def size(checkout, *words, budget=None):
    if budget is not None:
        (checkout / "scripts" / "size.csv").write_text(HEADER + budget)
    command = [sys.executable, checkout / "scripts" / "size", *words]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def test_a_folder_within_its_budget_is_fine(checkout):
    done = size(checkout, budget="tprof/cli,2,6\n")

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines() if line.startswith("tprof/cli")] == [
        ["tprof/cli", "2", "5", "6", "6"]
    ]


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        (
            "tprof/cli,2,5\n",
            "tprof/cli is over its budget (files 2 of 2, tokens 6 of 5): make it smaller",
        ),
        (
            "tprof/cli,1,9\n",
            "tprof/cli is over its budget (files 2 of 1, tokens 6 of 9): make it smaller",
        ),
        ("", "tprof/cli has no budget: add a line to scripts/size.csv"),
        ("tprof/cli,2,6\ntprof/old,1,1\n", "tprof/old is gone: delete its line in scripts/size.csv"),
    ],
)
def test_it_fails_and_says_which_folder(checkout, budget, sentence):
    done = size(checkout, budget=budget)

    assert done.returncode == 1
    assert done.stderr.startswith(sentence)


def test_update_writes_budgets_that_are_met(checkout):
    done = size(checkout, "--update")

    assert (done.returncode, done.stderr) == (0, "")
    assert (checkout / "scripts" / "size.csv").read_text() == HEADER + "tprof/cli,2,250\n"
