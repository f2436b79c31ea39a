"""What pytest loads where tprof is installed: options and a marker. Without an option it imports nothing of tprof.

It stands beside the package, not in it: a run of tests must not fail because another tprof is found first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ASKING = ("energy", "energy_baseline", "energy_session")
"""Options with which tests are recorded."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("energy", "energy of tests (tprof)")
    group.addoption("--energy", action="store_true", help="record each test as a task and print its joules at the end")
    group.addoption(
        "--energy-session", metavar="DIR", help="keep the recording there, for tprof report; implies --energy"
    )
    group.addoption(
        "--energy-baseline", metavar="FILE", help="fail if a test takes more than in this file; implies --energy"
    )
    group.addoption(
        "--energy-update", action="store_true", help="add this run to the file of --energy-baseline; makes it at first"
    )
    group.addoption(
        "--energy-max-increase", action="append", metavar="[TEST=]5%", help="over the baseline; by default 5%%"
    )
    group.addoption("--energy-any-machine", action="store_true", help="compare with a baseline of another machine")
    group.addoption("--energy-sensor", default="auto", metavar="NAME", help="as --energy of tprof run; default: auto")
    group.addoption("--energy-top", type=int, default=20, metavar="N", help="tests in the table; default: 20")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; record if that was asked for."""
    config.addinivalue_line("markers", "energy(max_j): with --energy the test fails if it takes more joules")
    if any(config.getoption(name) for name in ASKING) and not config.option.collectonly:
        try:
            from tprof.testing.pytest_energy import plugin_for  # noqa: PLC0415 - only if it was asked for
        except ImportError as error:
            raise pytest.UsageError(f"--energy needs tprof: {error}") from error
        config.pluginmanager.register(plugin_for(config), "tprof-energy")
    elif config.option.energy_update:
        raise pytest.UsageError("--energy-update needs --energy-baseline FILE")


@pytest.fixture
def benchmark_energy(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Run a function by pytest-benchmark's `benchmark`, and put the joules of a call into its extra_info."""
    from tprof.testing.pytest_benchmark import benchmarked  # noqa: PLC0415 - only for tests that ask for it

    return benchmarked(request)
