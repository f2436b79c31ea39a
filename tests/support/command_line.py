"""`tprof` run in the tests' own process, with what it would have printed and its exit status."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.__main__ import main as bench_main
from tprof.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def tprof(*arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``tprof ARGUMENTS`` in a folder, with these variables beside the present ones, not as a terminal."""
    return _run(main, ["tprof", *map(str, arguments)], cwd, env or {})


def bench(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``scripts/bench ARGUMENTS`` in a folder, likewise."""
    return _run(bench_main, ["bench", *map(str, arguments)], cwd, {})


def _run(
    command: Callable[[], None], words: list[str], cwd: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, env),
        _as_users_have_it(),
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = _status_of(command)
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _as_users_have_it():
    """Let programs import from their own folder; only this suite forbids that to its children."""
    safe_path = os.environ.pop("PYTHONSAFEPATH", None)
    try:
        yield
    finally:
        if safe_path is not None:
            os.environ["PYTHONSAFEPATH"] = safe_path


def _status_of(command) -> int:
    """Return the exit status that the interpreter would give, its message printed as it would be."""
    try:
        command()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    return 0
