"""Shared set-up: tests run on the installed wheel, never on the checkout."""

import fcntl
import functools
import gc
import importlib
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.properties import THOROUGH
from support.sensor_conformance import BENCH

BROWSER = "support.browser"
_ROOT = Path(__file__).resolve().parent.parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != _ROOT]
os.environ["PYTHONSAFEPATH"] = "1"
# pytest imports readline, which sets it without telling os.environ: commands would fit what they print into 80 cells.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")
# A suite started in the background, or by nohup, hands an ignored signal on to its children, to whom tests send it.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)
# How long it takes to draw examples is up to how busy the machine is.
QUIET = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
# The quick suite says the same of the same code each time; new examples are a search, which `--thorough` makes.
settings.register_profile("quick", derandomize=True, **QUIET)
settings.register_profile("thorough", derandomize=False, **QUIET)
settings.load_profile("quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give all files that open pages to one test process: a browser and its first page cost more than ten pages."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - without the plugin nobody calls this

    class OneBrowser(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return BROWSER if _opens_pages(config.rootpath / file) else file

    return OneBrowser(config, log)


@functools.cache
def _opens_pages(file):
    return f"from {BROWSER} import" in file.read_text("utf-8")


def pytest_addoption(parser):
    """Add --thorough: every example of the properties, and the tests marked thorough; --bench: see docs/sensors.md."""
    parser.addoption("--thorough", action="store_true", help="also run the deep and the slow tests")
    parser.addoption("--bench", metavar="MODULE:CLASS", help="a bench of another package's sensor")


def pytest_configure(config):
    """Tell the modules of tests, which draw up their properties when they are imported."""
    gc.disable()  # until all are loaded, of which nothing is garbage
    if "PYTEST_XDIST_WORKER" in os.environ:
        _load_blas_with_one_thread()
    if config.getoption("--thorough"):
        os.environ[THOROUGH] = "1"
        settings.load_profile("thorough")
    if config.getoption("--bench"):
        os.environ[BENCH] = config.getoption("--bench")


def _load_blas_with_one_thread():
    """Load what computes while it may have one thread: beside other test processes, threads that wait for work take it.

    Children that tests start have their own number.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")
        importlib.import_module("numpy.linalg")
        importlib.import_module("scipy.linalg")  # has a library of its own


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Let one test process rewrite a file's assertions: in a fresh checkout each would take seconds for all files."""
    if not isinstance(collector, pytest.Module) or "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    if list(collector.path.parent.glob(f"__pycache__/{collector.path.stem}.*-pytest-*.pyc")):
        return (yield)
    with collector.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the others wait, and find what the first one wrote
        return (yield)


def pytest_collection_modifyitems(config, items):
    """Leave the tests marked thorough to --thorough."""
    if not config.getoption("--thorough"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_collection_finish():
    """Take all modules out of the collector's sight: tests that collect garbage would have it search them each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter, config):
    """Tell how long real programs took by themselves, and inside a recording, on however loaded a machine."""
    told = [
        value
        for report in terminalreporter.stats.get("passed", [])
        for name, value in report.user_properties
        if name == "durations" and config.getoption("--thorough")
    ]
    if told:
        terminalreporter.section("real programs: plain, recorded, ratio")
    for name, plain_s, recorded_s in sorted(told):
        terminalreporter.line(f"{plain_s:8.2f} s {recorded_s:8.2f} s {recorded_s / plain_s:6.2f}  {name}")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep what programs keep out of the user's cache folder, for children too; what they make takes seconds."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # of all test processes
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        yield
