"""Tests as tasks: what pytest does with `--energy`.

The process that starts pytest records. With pytest-xdist its workers join that recording, so one sensor is read once.
Joules are attributed when all tests have ended: only then are the joules of all tasks known. So a test that took
too much is reported failed at the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tprof import _core
from tprof.errors import TprofError
from tprof.session.process_state import SESSION, this_process
from tprof.session.recording import record
from tprof.task import region

from .pytest_benchmark import BLOCKS, fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .tests_of_run import Outcome

MARK = "energy"
THREADS = "threads of tests"
_START = "_bootstrap_inner"
"""The function of a `threading` thread below all frames that its exceptions show."""


def plugin_for(config: pytest.Config) -> object:
    """Return what records in this process: in a worker of pytest-xdist only tests, otherwise the run."""
    return EnergyWorker() if hasattr(config, "workerinput") else EnergyRun(config)


class EnergyWorker:
    """Makes the tests of a process tasks."""

    def __init__(self) -> None:
        """Let threads that tests start be tasks too; those of a worker join the recording as tprof is imported."""
        start = getattr(threading.Thread, _START, None)
        if start is not None:
            number = this_process.tasks.define(THREADS, file=None, line=None, code=None)
            setattr(threading.Thread, _START, _core.ThreadTask(start, lambda _: number))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Run the test as a task of its name; what its fixtures set up and tear down is not in it."""
        mark = item.get_closest_marker(MARK)
        limit = None if mark is None else limit_of(mark, item.nodeid)
        if limit is not None:
            item.user_properties.append(("energy_max_j", limit))
        with region(item.nodeid):
            return (yield)


def limit_of(mark: pytest.Mark, test: str) -> float | None:
    """Return the joules that a test may take. Raises pytest.UsageError if they are no positive number."""
    limit = mark.kwargs.get("max_j", mark.args[0] if mark.args else None)
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < float("inf"):
        raise pytest.UsageError(
            f"{test}: @pytest.mark.energy(max_j=…) takes a positive number of joules, got {limit!r}"
        )
    return float(limit)


class EnergyRun(EnergyWorker):
    """Records the run, and says at its end what each test took."""

    def __init__(self, config: pytest.Config) -> None:
        """Read the options. Raises pytest.UsageError."""
        super().__init__()
        from .tests_of_run import Request  # noqa: PLC0415 - reads with NumPy, which a worker does without

        if SESSION in os.environ:
            raise pytest.UsageError("--energy records by itself: run pytest without tprof run")
        try:
            self._request = Request.of(config)
        except TprofError as error:
            raise pytest.UsageError(str(error)) from error
        kept = config.getoption("energy_session")
        self._folder = None if kept else tempfile.mkdtemp(prefix="tprof-pytest-")
        self._path = Path(kept) if kept else Path(str(self._folder)) / "tests.tprof"
        self._recording: Any = None
        self._reports: dict[str, pytest.TestReport] = {}
        self._outcome: Outcome | None = None
        self._problem: str | None = None

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist starts its workers, which then join
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Begin to record."""
        try:
            recording = record(self._path, energy=session.config.getoption("energy_sensor"))
            self._recording = recording.__enter__()
        except TprofError as error:
            raise pytest.UsageError(f"--energy: {error}") from error
        session.config.stash[BLOCKS] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the tests and their limits, those of workers too."""
        if report.when == "call":
            self._reports[report.nodeid] = report

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # before those that write results, wrappers too
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Attribute the joules, and report tests that took too much as failed."""
        if self._recording is not None:
            self._finish(session)
        return (yield)

    def _finish(self, session: pytest.Session) -> None:
        try:
            self._recording.__exit__(None, None, None)
            profile = self._recording.profile()
            fill(session.config, profile)
            self._outcome = self._request.outcome(profile, self._reports)
        except TprofError as error:
            self._problem = str(error)
            _fail(session)
        for failure in self._outcome.failures if self._outcome else ():
            _report_failure(session, self._reports[failure.test], failure.text)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        if self._problem is not None:
            terminalreporter.section("energy of tests")
            terminalreporter.write_line(f"tprof: {self._problem}", red=True)
        if self._outcome is not None:
            terminalreporter.section(f"energy of tests ({self._outcome.quality})")
            for line in self._outcome.lines:
                terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """Remove the recording unless it was to be kept."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _report_failure(session: pytest.Session, passed: pytest.TestReport, text: str) -> None:
    """Report a test that passed as failed, in its place."""
    terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        category = terminal.stats.get(passed.outcome, [])
        category[:] = [one for one in category if one is not passed]
    report = pytest.TestReport(
        nodeid=passed.nodeid,
        location=passed.location,
        keywords=passed.keywords,
        outcome="failed",
        longrepr=text,
        when="call",
        sections=passed.sections,
        duration=passed.duration,
        user_properties=passed.user_properties,
    )
    session.config.hook.pytest_runtest_logreport(report=report)
    _fail(session)


def _fail(session: pytest.Session) -> None:
    session.testsfailed += 1
    if session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
