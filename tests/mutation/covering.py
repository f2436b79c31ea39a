"""Which tests reach which lines, found by running each file of tests once; kept until sources or tests change."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import coverage
from changed import module_of
from collected import file_of
from forked import ROOT, Run, Work, run_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pytest
    from collected import Collected

MOST_S = 1800
SOURCES = ("tprof", "analysis", "runtime", "benchmarks", "tests/support", "tests/frozen")
ENDS_S = (1.0, 4.0, 16.0, 64.0)
"""Tests are tried in groups up to these sums of their seconds; in each by file, since a file's tests share fixtures."""


class _Reached:
    """A plugin of pytest that writes which lines each test reached, and how long it took."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._seconds: dict[str, float] = {}
        self._failed: list[str] = []
        self._began_s = 0.0
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=["*/site-packages/tprof/*"])
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)
        self._began_s = _cpu_s()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._seconds[report.nodeid] = _cpu_s() - self._began_s
        if report.failed:
            self._failed.append(report.nodeid)

    def write(self) -> None:
        """Write what was found."""
        self._coverage.stop()
        data = self._coverage.get_data()
        reached = {
            file.rpartition("/site-packages/")[2].removesuffix(".py").removesuffix("/__init__").replace("/", "."): {
                str(line): contexts for line, contexts in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        found = {"seconds": self._seconds, "failed": self._failed, "reached": reached}
        self._place.write_text(json.dumps(found), "utf-8")


@dataclass(frozen=True)
class Covering:
    """Tests by the lines that they reach.

    Attributes
    ----------
    seconds : CPU time of each test that passes
    failed : tests that fail without a mutant
    reached : by module and line, the tests
    """

    seconds: dict[str, float]
    failed: list[str]
    reached: dict[str, dict[int, set[str]]]

    def tests(self, path: str, lines: tuple[int, int] | None, most_s: float, killers: Sequence[str]) -> list[str]:
        """Return the tests for a mutant, the fastest first; nothing if no test reaches it.

        Without `lines` those that reach any line of the file. After them those of the same files follow, which may
        share what one of them made.
        """
        tests = self._reaching(module_of(path), lines)
        files = {file_of(test) for test in tests}
        beside = {test for test in self.seconds if file_of(test) in files} - tests
        ordered = [
            *sorted(tests, key=lambda test: (test not in killers, self.seconds[test])),
            *sorted(beside, key=self.seconds.__getitem__),
        ]
        sums_s = list(accumulate(self.seconds[test] for test in ordered))
        chosen = [at for at, sum_s in enumerate(sums_s) if at == 0 or sum_s < most_s]
        groups = {ordered[at]: sum(sums_s[at] > end_s for end_s in ENDS_S) for at in chosen}
        return sorted(groups, key=lambda test: (groups[test], file_of(test)))

    def _reaching(self, module: str, lines: tuple[int, int] | None) -> set[str]:
        by_line = self.reached.get(module, {})
        within = by_line if lines is None else range(lines[0], lines[1] + 1)
        tests = set().union(*(by_line.get(line, set()) for line in within))
        return {test for test in tests if test in self.seconds}


def _cpu_s() -> float:
    """Return the CPU time of this process and its children that ended: how busy the machine is changes nothing."""
    return sum(os.times()[:4])


def find_covering(collected: Collected, kept: Path, jobs: int) -> Covering:
    """Run each file of tests once, or read what is kept of an earlier run."""
    kept.mkdir(parents=True, exist_ok=True)
    sources = [
        file for folder in SOURCES for ending in ("py", "c", "h") for file in (ROOT / folder).rglob(f"*.{ending}")
    ]
    common = _digest([ROOT / "tests/conftest.py", *sources])
    tests = collected.by_file
    places = {
        file: kept / f"{hashlib.sha256(f'{common} {file}'.encode() + (ROOT / file).read_bytes()).hexdigest()}.json"
        for file in tests
    }

    def done(run: Run, status: int) -> None:
        file = str(run.work.name)
        print(f"{file}: {'read' if places[file].exists() else f'ended with {status}: {run.log}'}", flush=True)

    def works() -> Iterator[Work]:
        for file, place in places.items():
            if not place.exists():
                yield Work(file, lambda scratch, file=file, place=place: reach(file, place, scratch), MOST_S)

    def reach(file: str, place: Path, scratch: Path) -> int:
        plugin = _Reached(place)
        status = collected.run(tests[file], scratch, plugin, all_of_them=True)
        plugin.write()
        return status

    run_all(works(), jobs, kept, done)
    return _joined([place for place in places.values() if place.exists()])


def _digest(files: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(file.read_bytes())
    return found.hexdigest()


def _joined(places: Sequence[Path]) -> Covering:
    seconds: dict[str, float] = {}
    failed: list[str] = []
    reached: dict[str, dict[int, set[str]]] = defaultdict(dict)
    for place in places:
        found = json.loads(place.read_text("utf-8"))
        failed += found["failed"]
        seconds |= {test: spent for test, spent in found["seconds"].items() if test not in found["failed"]}
        for module, lines in found["reached"].items():
            for line, contexts in lines.items():
                reached[module].setdefault(int(line), set()).update(contexts)
    return Covering(seconds, failed, reached)
