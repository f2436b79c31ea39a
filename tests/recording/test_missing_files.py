"""A session from which files were removed says what is missing, and gives the rest."""

from __future__ import annotations

import shutil
import threading

import pytest
from support import command_line

import tprof


@tprof.task
def work() -> int:
    return sum(range(1000))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return a session of two threads with a task each, and estimated joules."""
    path = tmp_path_factory.mktemp("session") / "t.tprof"
    with tprof.record(path, energy="estimate", counters="none"):
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return path


@pytest.mark.parametrize(
    ("removed", "said"),
    [
        ("threads/00000001.samples", "threads/ lacks 1 of 2 files of samples"),
        ("readings/package-0.readings", "the file of readings of package-0 is missing in readings/"),
        ("tasks/00000000.jsonl", "the table of tasks of process 0 is missing in tasks/"),
        ("threads", "threads/ lacks 2 of 2 files of samples"),
    ],
)
def test_what_is_missing_is_said(recorded, tmp_path, removed, said) -> None:
    """The summary is printed, with a sentence on the file that is gone; the whole session has none."""
    copy = tmp_path / "t.tprof"
    shutil.copytree(recorded, copy)
    assert not tprof.load(copy).notes
    (shutil.rmtree if (copy / removed).is_dir() else (lambda path: path.unlink()))(copy / removed)

    told = command_line.tprof("summary", "t.tprof", cwd=tmp_path)

    assert told.returncode == 0
    assert any(said in note for note in tprof.load(copy).notes)
    assert said in " ".join((told.stdout + told.stderr).split())
