"""Runs work in forked copies of this process, in which what takes long to load is loaded already."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).resolve().parents[2]
LOADED = (
    "numpy", "numpy.testing", "pandas", "scipy.linalg", "scipy.optimize", "scipy.stats", "scipy.sparse", "psutil",
    "sklearn.linear_model", "plotly.graph_objects", "rich.table", "typer", "threadpoolctl", "hypothesis.strategies",
    "hypothesis.extra.numpy", "pyarrow", "pytest_timeout", "xdist.plugin", "coverage", "sqlite3",
)  # fmt: skip
MOST_BYTES = 6 << 30
MOST_CPU_S = 3600
PROFILE = "mutation"
BROKEN = 99
"""Exit status of work that did not come to its end."""
OPTIONS = [
    "-q",
    "-s",
    "-n0",
    "-pno:cacheprovider",
    f"--hypothesis-profile={PROFILE}",
    "--hypothesis-seed=0",
    "--tb=line",
    "--disable-warnings",
    "--timeout=0",
]


@dataclass(frozen=True)
class Work:
    """What a forked process does.

    Attributes
    ----------
    name : what it is called by
    body : called there with a temporary folder, returns the exit status
    wall_s : how long it may take
    """

    name: object
    body: Callable[[Path], int]
    wall_s: float


@dataclass
class Run:
    """Work under way.

    Attributes
    ----------
    work : what is done
    process : its id, and that of its group
    log : what it writes
    scratch : its temporary folder
    """

    work: Work
    process: int
    log: Path
    scratch: Path
    began_s: float = field(default_factory=time.monotonic)

    def status(self) -> int | None:
        """Return the exit status, a negative signal if it was killed, None while it runs."""
        found, status = os.waitpid(self.process, os.WNOHANG)
        if found == 0:
            if time.monotonic() - self.began_s < self.work.wall_s:
                return None
            os.killpg(self.process, signal.SIGKILL)
            _, status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(status)

    def leave(self) -> None:
        """End what it left behind, and remove its folder."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)
        shutil.rmtree(self.scratch, ignore_errors=True)


def load() -> None:
    """Load what is the same in all runs."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1", "TPROF_CONFIG": "none"}
    for name in LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    hypothesis.settings.register_profile(
        PROFILE,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )


def allow_cpu(seconds: float) -> None:
    """Have the kernel end this process when it has used so much more CPU time."""
    used_s = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (min(int(used_s + seconds) + 1, MOST_CPU_S), MOST_CPU_S))


def run_all(works: Iterable[Work], jobs: int, logs: Path, done: Callable[[Run, int], Work | None]) -> None:
    """Do works, so many at once; `done` gets each run with its status, and returns what is to be done after it."""
    waiting, running = iter(works), list[Run]()
    follow: list[Work] = []
    places = [logs / f"run-{number}.log" for number in range(jobs)]
    try:
        while True:
            while len(running) < jobs and (work := follow.pop() if follow else next(waiting, None)):
                free = next(place for place in places if all(run.log != place for run in running))
                running.append(_start(work, free))
            if not running:
                return
            for run in list(running):
                status = run.status()
                if status is None:
                    continue
                running.remove(run)
                after = done(run, status)
                run.leave()
                if after is not None:
                    follow.append(after)
            time.sleep(0.01)
    finally:
        for run in running:
            run.leave()


def _start(work: Work, log: Path) -> Run:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - mkdtemp makes a folder of its own
    scratch = Path(tempfile.mkdtemp(prefix="tprof-mutate-", dir=place))
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _do(work, log, scratch)
    with contextlib.suppress(OSError):
        os.setpgid(process, process)
    return Run(work, process, log, scratch)


def _do(work: Work, log: Path, scratch: Path) -> None:
    status = BROKEN
    try:
        os.setpgid(0, 0)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(ROOT)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        status = work.body(scratch)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - shown, and the status is not one of pytest's
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
