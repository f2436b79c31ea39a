"""A generator or coroutine that is a task shows itself to its program as without one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "transparent.py"


def printed_by(folder, *words):
    environment = os.environ | {"TPROF_ENERGY": "estimate"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return printed_by(tmp_path_factory.mktemp("plain"), str(PROGRAM), "plain")


@pytest.mark.parametrize("way", ["decorated", "recorded"])
def test_what_a_program_sees_of_its_generators_is_the_same_with_tasks(tmp_path, plain, way):
    assert printed_by(tmp_path, str(PROGRAM), way) == plain


def test_what_a_program_sees_of_its_generators_is_the_same_under_a_pattern(tmp_path, plain):
    words = ["run", "--task", "__main__:*", "-o", "x.tprof", str(PROGRAM), "plain"]

    assert printed_by(tmp_path, "-m", "tprof", *words) == plain
