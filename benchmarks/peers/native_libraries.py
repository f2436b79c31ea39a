"""Libraries of tasks for C++ on the runtime's graphs, by a program that is compiled where they are found.

Their tasks are functions of C++ that do nothing. What stands beside them is a call of Python from a graph that the
runtime finds by itself, so a ratio says what Python and declared data cost together, not which scheduler is better.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence
    from pathlib import Path

    Step = tuple[Sequence[Hashable], Hashable | None]

DEADLINE_S = 600.0
COMPILER = "c++"


@dataclass(frozen=True)
class NativeLibrary:
    """A library for C++.

    Attributes
    ----------
    name : what tables call it.
    header : what its users include.
    flags : of the compiler, after the source.
    package : how to get it.
    """

    name: str
    header: str
    flags: tuple[str, ...]
    package: str

    def compile(self, directory: Path) -> Path | None:
        """Return the program on this library, or None where the library or a compiler of C++ is missing.

        Raises
        ------
        UsageError
            If the library is there and the program cannot be compiled with it.
        """
        compiler = shutil.which(os.environ.get("CXX", COMPILER))
        if compiler is None or not self._is_found_by(compiler):
            return None
        program = directory / f"native_graph_{self.name}"
        with resources.as_file(resources.files(__package__) / "native_graph.cpp") as source:
            made = _call(compiler, "-std=c++20", "-O2", "-o", str(program), str(source), *self.flags, "-pthread")
        if made.returncode:
            reason = made.stderr.strip().splitlines() or ["the compiler says nothing"]
            raise UsageError(f"{compiler} cannot compile the benchmark with {self.name}: {reason[0]}")
        return program

    def _is_found_by(self, compiler: str) -> bool:
        """CPLUS_INCLUDE_PATH leads a compiler to headers elsewhere."""
        source = f"#include <{self.header}>\n"
        return _call(compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-", given=source).returncode == 0


LIBRARIES = (
    NativeLibrary("oneTBB", "tbb/flow_graph.h", ("-DWITH_TBB", "-ltbb"), "Debian's libtbb-dev"),
    NativeLibrary("Taskflow", "taskflow/taskflow.hpp", ("-DWITH_TASKFLOW",), "its headers, by CPLUS_INCLUDE_PATH"),
)


def predecessors(steps: Iterable[Step]) -> list[list[int]]:
    """Return what each task waits for, as the runtime finds it.

    Parameters
    ----------
    steps
        What each task reads, and the one datum that it updates (None: nothing).

    Returns
    -------
    list
        For each task the last tasks that wrote what it touches, and those that have read since what it updates; each
        once, in the order of spawning.
    """
    writer: dict[Hashable, int] = {}
    readers: dict[Hashable, list[int]] = {}
    found = []
    for number, (read, updated) in enumerate(steps):
        touched = [datum for datum in (*read, updated) if datum is not None]
        needed = {writer[datum] for datum in touched if datum in writer}
        found.append(sorted(needed.union(readers.get(updated, ()))))
        for datum in read:
            readers.setdefault(datum, []).append(number)
        if updated is not None:
            writer[updated] = number
            readers[updated] = []
    return found


def write_graph(path: Path, found: Sequence[Sequence[int]]) -> None:
    """Write the predecessors of each task for the program."""
    ends = np.cumsum([0, *map(len, found)])
    flat = [number for needed in found for number in needed]
    np.concatenate([[len(found)], ends, flat]).astype(np.uint32).tofile(path)


def run_graph(program: Path, path: Path, workers: int, *, check: bool = False) -> float:
    """Return the seconds in which the program made and ran the graph.

    Parameters
    ----------
    program, path
        By `NativeLibrary.compile` and `write_graph`.
    workers
        Threads of the library.
    check
        Fail if a task began before one of its predecessors ended, or did not run; the tasks are not empty then.

    Raises
    ------
    UsageError
        If it failed.
    """
    ran = _call(str(program), str(path), str(workers), *(["check"] if check else []))
    if ran.returncode:
        raise UsageError(f"{program.name} failed with status {ran.returncode}: {ran.stderr.strip() or 'a wrong order'}")
    return float(ran.stdout)


def _call(*command: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the compiler that the user has chosen, and what it made
        command, input=given, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
