"""A process that has collected tests: each run of some of them is a fork, which loads nothing more."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest
from forked import OPTIONS, ROOT, allow_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

NOTES = "begun"
LEAST_CPU_S, MOST_TIMES = 10.0, 8.0
"""A test may use this much more CPU time, and so many times what it does without a mutant."""


class Begun:
    """A plugin of pytest that notes which tests began, and ends one that takes much longer than without a mutant."""

    def __init__(self, scratch: Path, seconds: Mapping[str, float]) -> None:
        self._notes = (scratch / NOTES).open("w", buffering=1, encoding="utf-8")
        self._seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._notes.write(f"{nodeid}\n")
        allow_cpu(LEAST_CPU_S + MOST_TIMES * self._seconds.get(nodeid, 0.0))


def begun_in(scratch: Path) -> list[str]:
    """Return the tests that began in a run, in order."""
    return (scratch / NOTES).read_text("utf-8").splitlines()


class Collected:
    """The tests of an area; a plugin of pytest."""

    def __init__(self, work: Callable[[Collected], None]) -> None:
        """Call `work` once the tests are collected, instead of running them."""
        self._work = work
        self._session: pytest.Session | None = None
        self._items: dict[str, pytest.Item] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take the place of pytest's loop."""
        self._session = session
        self._items = {item.nodeid: item for item in session.items}
        gc.freeze()
        self._work(self)
        return True

    @property
    def by_file(self) -> dict[str, list[str]]:
        """The tests of each file."""
        found: dict[str, list[str]] = {}
        for test in self._items:
            found.setdefault(file_of(test), []).append(test)
        return found

    def run(self, tests: Sequence[str], scratch: Path, plugin: object, *, all_of_them: bool = False) -> int:
        """Run tests up to the first that fails, or all, in a fork of this process; return pytest's status.

        Parameters
        ----------
        tests : their ids
        scratch : a folder of this run's own
        plugin : of pytest, for this run
        """
        session = self._session
        assert session is not None
        factory = session.config._tmp_path_factory  # noqa: SLF001 - each run needs a folder of its own
        factory._basetemp, factory._given_basetemp = None, scratch / "t"  # noqa: SLF001
        session.config.pluginmanager.register(plugin)
        for item, after in self._pairs(tests):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.testsfailed and not all_of_them:
                return int(pytest.ExitCode.TESTS_FAILED)
        return int(pytest.ExitCode.OK)

    def _pairs(self, tests: Sequence[str]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
        items = [self._items[test] for test in tests if test in self._items]
        return zip(items, [*items[1:], None], strict=True)


def file_of(test: str) -> str:
    """Return the file of a test's id."""
    return test.partition("::")[0]


def collect(files: Sequence[str], scratch: Path, work: Callable[[Collected], None]) -> int:
    """Collect the tests of some files and work with them; returns pytest's status."""
    return int(pytest.main([*OPTIONS, f"--basetemp={scratch}/t", f"--rootdir={ROOT}", *files], [Collected(work)]))
