"""The laboratory, where it cannot be made: it says why, and ends with the status that CI takes for a skip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LABORATORY = Path(__file__).parent / "lab/laboratory.py"
FAILING = "#!/bin/sh\necho 'E: Unable to locate package' >&2\nexit 100\n"


def run(folder, path, *start):
    environment = os.environ | {"TPROF_LAB": str(folder / "cache"), "PATH": path}
    environment.pop("PYTHONSAFEPATH", None)  # a program beside its modules
    command = [*start, sys.executable, str(LABORATORY)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="without root it says that first")
def test_without_apt_it_says_so(tmp_path):
    done = run(tmp_path, str(tmp_path))

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("the laboratory is made of Debian packages, and this machine has no apt-get\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="without root it says that first")
def test_what_cannot_be_installed_is_named_with_its_error(tmp_path):
    for name in ("apt-get", "apt-cache"):
        (tmp_path / name).write_text(FAILING)
        (tmp_path / name).chmod(0o755)

    done = run(tmp_path, f"{tmp_path}:{os.environ['PATH']}")

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("no laboratory here: apt-")
    assert done.stderr.endswith("failed: E: Unable to locate package\n")
