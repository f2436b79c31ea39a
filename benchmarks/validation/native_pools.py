"""Whom native threads are credited to, tried on real libraries: against clocks that the tasks read themselves.

Each case is a program of its own, run with pools that spin as they do by default and with pools that sleep at once. A
task reads the clocks of all native threads as it begins and as it ends. The difference is what its library's threads
used while it ran: the truth where a library has one user. In a case with two users of one pool nobody knows it.

Tasks that call for a moment only are `AROUND_CALLS`: between their calls threads may spin for longer than they work. So
they read the clocks around each call, with nothing between a call and a reading.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import tprof
from tprof.errors import TprofError
from tprof.trace import load_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Row = dict[str, Any]

SECONDS = 4.0
LONGEST_S = 120
THREADS = "2"
LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_NUM_THREADS")
PASSIVE = {"OPENBLAS_THREAD_TIMEOUT": "20", "OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
LAYER = {"NUMBA_THREADING_LAYER": "omp"}
GONE = "gone"
"""In the place of a thread: those that came and went while a task ran."""
CREATES = ("boost",)
"""Tasks that start short-lived threads."""
AROUND_CALLS = ("multiply_short",)
OWN_POOL = ("tensor_multiply", "train", "load_and_train")
"""Tasks whose calling thread has a pool of its own, which it keeps; what else they begin is theirs, too."""
PACKAGES = {"sklearn": "scikit-learn", "polars": "polars", "torch": "torch", "numba": "numba"}
"""How modules that cases need are installed."""
LIBRARIES = {
    "multiply": "openblas",
    "multiply_too": "openblas",
    "multiply_short": "openblas",
    "transform": "pocketfft",
    "boost": "libgomp",
    "loop": "libgomp",
    "group": "polars",
    "tensor_multiply": "libgomp",
    "train": "libgomp",
    "load_and_train": "libgomp",
}
"""Each task's library, by a part of its file name; of other tasks no library has threads."""


@dataclass(frozen=True)
class Case:
    """A program: what each of its threads calls in turn, with pauses.

    Attributes
    ----------
    name : of the case
    threads : names of tasks
    needs : a package that may be missing
    pause_s : mean pause after these calls
    """

    name: str
    threads: tuple[tuple[str, ...], ...]
    needs: str | None = None
    pause_s: float = 0.03

    @property
    def is_known(self) -> bool:
        """Whether no two threads call one pool, so that each task's CPU time is known."""
        used = [
            {task if task in OWN_POOL else LIBRARIES[task] for task in tasks if task in LIBRARIES}
            for tasks in self.threads
        ]
        return sum(map(len, used)) == len(set().union(*used))


CASES = (
    Case("one caller at a time", (("multiply", "scan", "transform", "scan"),)),
    Case("BLAS beside Python", (("multiply",), ("scan",))),
    Case("rare BLAS calls beside Python", (("multiply",), ("scan",)), pause_s=0.2),
    Case("short BLAS calls beside Python", (("multiply_short",), ("scan",))),
    Case("BLAS beside FFT", (("multiply",), ("transform",))),
    Case("gradient boosting beside BLAS", (("boost", "scan"), ("multiply",)), "sklearn"),
    Case("gradient boosting beside polars", (("boost", "scan"), ("group", "sort")), "polars"),
    Case("BLAS beside polars", (("multiply",), ("group",)), "polars"),
    Case("numba's prange beside BLAS", (("loop", "scan"), ("multiply",)), "numba"),
    Case("two BLAS callers", (("multiply",), ("multiply_too",))),
    Case("PyTorch, one caller", (("tensor_multiply", "scan", "train", "scan"),), "torch"),
    Case("PyTorch training beside Python", (("train",), ("scan",)), "torch"),
    Case("two PyTorch callers", (("tensor_multiply",), ("train",)), "torch"),
    Case("PyTorch with a worker that loads", (("load_and_train", "scan"),), "torch"),
)


def skipped() -> list[Row]:
    """Return the cases that cannot run here, each with the reason."""
    return [
        {"case": case.name, "reason": f"it needs {PACKAGES[case.needs]} (pip install {PACKAGES[case.needs]})"}
        for case in CASES
        if case.needs is not None and find_spec(case.needs) is None
    ]


def measure(*, seconds: float = SECONDS, progress: Callable[[str, int, int], None]) -> list[Row]:
    """Run all cases whose packages are there; returns a row for each task of each run.

    Raises
    ------
    TprofError
        If a program fails.
    """
    cases = [case for case in CASES if case.needs is None or find_spec(case.needs) is not None]
    rows: list[Row] = []
    for number, case in enumerate(cases):
        for passive in (True, False):
            progress(case.name, 2 * number + (not passive), 2 * len(cases))
            rows += run_case(case, passive=passive, seconds=seconds)
    return rows


def run_case(case: Case, *, passive: bool, seconds: float) -> list[Row]:
    """Run one case in a process of its own and compare. Raises TprofError."""
    with tempfile.TemporaryDirectory(prefix="tprof-native-") as folder:
        environment = {name: value for name, value in os.environ.items() if name not in PASSIVE}
        environment |= dict.fromkeys(LIMITS, THREADS) | LAYER | (PASSIVE if passive else {})
        command = [sys.executable, "-W", "ignore", "-m", __name__, case.name, folder, "--seconds", str(seconds)]
        done = subprocess.run(  # noqa: S603 - this interpreter and this module
            command, env=environment, capture_output=True, text=True, timeout=LONGEST_S + seconds, check=False
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            message = f"the program of the case {case.name!r} failed: {lines[-1] if lines else done.returncode}"
            raise TprofError(message)
        truth = json.loads((Path(folder) / "truth.json").read_text())
        return list(_compare(case, Path(folder) / "case.tprof", truth, passive=passive))


def _compare(case: Case, path: Path, truth: dict[str, Any], *, passive: bool) -> Iterator[Row]:
    trace = load_session(path)
    profile = trace.profile("cputime")
    native, summary = profile.info["native"], profile.summary()
    library = {str(one.tid): one.library.rsplit("/", 1)[-1] for one in trace.native_threads}
    parts = ("tasks_j", "spin_j", "unidentified_j", "outside_j")
    whole_j = sum(native[name] for name in parts) if native is not None else 0.0
    for task in dict.fromkeys(task for tasks in case.threads for task in tasks):
        part, own = LIBRARIES.get(task), {*truth["pools"].get(task, ()), *([GONE] if task in CREATES else [])}
        true_s = sum(
            seconds
            for tid, seconds in truth["used_s"].get(task, {}).items()
            if tid in own or (part is not None and task not in OWN_POOL and part in library.get(tid, ""))
        )
        found = native is not None and task in summary.index
        row: Row = {str(name): value for name, value in summary.loc[task].items()} if found else {}
        yield {
            "case": case.name,
            "passive": passive,
            "task": task,
            "used_s": true_s if case.is_known else None,
            "credited_s": row.get("native_cpu_s", 0.0),
            "credited_j": row.get("native_j", 0.0),
            "at_most_j": row.get("native_high_j", 0.0),
            "spin_j": row.get("spin_j", 0.0),
            "unidentified_share": native["unidentified_j"] / whole_j if native is not None and whole_j > 0 else 0.0,
            "spinning_share": native["spin_j"] / whole_j if native is not None and whole_j > 0 else 0.0,
            "native_cpu_s": native["cpu_s"] if native is not None else 0.0,
        }


class _Clocks:
    """Reads the clocks of native threads as tasks begin and end."""

    def __init__(self) -> None:
        self.used_s: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.pools: dict[str, set[str]] = {}
        self._turn = threading.Lock()

    def begin_pools(self, works: dict[str, Callable[[], object]]) -> None:
        """Do some works for the first time on this thread, and note which native threads that begins."""
        with self._turn:
            for name, work in works.items():
                self.around(name, work)
            begun: set[str] = set().union(*(self.pools[name] for name in works))
            self.pools |= {name: set(begun) for name in works}

    def around_calls(self, name: str, calls: Iterable[Callable[[], object]]) -> None:
        """Make some calls of C, and count what each native thread used in them.

        Functions of C that C calls in turn: so no other thread gets the interpreter's lock between them, if the calls
        themselves keep it.
        """
        own = {thread.native_id for thread in threading.enumerate()}
        tids = [tid for tid in self._read() if tid not in own]
        clocks = [partial(time.clock_gettime_ns, _clock_of(tid)) for tid in tids]
        used_s = self.used_s[name]
        for call in calls:
            steps: list[Callable[[], Any]] = [*clocks, call, *clocks]
            read = list(map(cast("Callable[[Any], Any]", operator.call), steps))
            for tid, before_ns, after_ns in zip(tids, read[: len(tids)], read[-len(tids) :], strict=True):
                used_s[str(tid)] += (after_ns - before_ns) * 1e-9

    def around(self, name: str, work: Callable[[], object]) -> None:
        """Do some work, and count what each native thread used meanwhile, and those that came and went."""
        if name in AROUND_CALLS:
            work()
            return
        own = {thread.native_id for thread in threading.enumerate()}
        began_ns, before = time.process_time_ns(), self._read()
        work()
        after, ended_ns = self._read(), time.process_time_ns()
        if name in OWN_POOL:
            # tprof's own thread is another after each fork.
            begun = {str(tid) for tid in after if tid not in before and not self._name_of(tid).startswith("tprof")}
            self.pools.setdefault(name, set()).update(begun)
        used_s = {tid: (after_ns - before.get(tid, 0)) * 1e-9 for tid, after_ns in after.items()}
        for tid, one_s in used_s.items():
            if tid not in own or str(tid) in self.pools.get(name, ()):
                self.used_s[name][str(tid)] += one_s
        self.used_s[name][GONE] += max((ended_ns - began_ns) * 1e-9 - sum(used_s.values()), 0.0)

    @staticmethod
    def _name_of(tid: int) -> str:
        try:
            return Path(f"/proc/self/task/{tid}/comm").read_text()
        except OSError:  # it has ended
            return ""

    @staticmethod
    def _read() -> dict[int, int]:
        found = {}
        for name in os.listdir("/proc/self/task"):  # noqa: PTH208 - inside what is measured
            try:
                found[int(name)] = time.clock_gettime_ns(_clock_of(int(name)))
            except OSError:  # it has ended
                continue
        return found


def _clock_of(tid: int) -> int:
    """Return the kernel's number of the CPU clock of a thread."""
    return (~tid << 3) | 6


def _torch_works() -> dict[str, Callable[[], object]]:
    import torch  # noqa: PLC0415 - for cases that need it
    from torch.utils.data import DataLoader, TensorDataset  # noqa: PLC0415 - as above

    matrix, inputs = torch.rand(700, 700), torch.rand(4096, 256)

    def trainer() -> Callable[[Iterable[Any]], None]:
        model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def fit(batches: Iterable[Any]) -> None:
            for (batch,) in batches:
                optimizer.zero_grad()
                model(batch).pow(2).mean().backward()
                optimizer.step()

        return fit

    train, train_loaded = trainer(), trainer()
    loaders: defaultdict[Any, Any] = defaultdict(
        lambda: DataLoader(TensorDataset(inputs), batch_size=1024, num_workers=1, persistent_workers=True)
    )
    return {
        "tensor_multiply": lambda: matrix @ matrix,
        "train": lambda: train([(inputs,)] * 3),
        "load_and_train": lambda: train_loaded(loaders[threading.get_ident()]),
    }


def _works(clocks: _Clocks) -> dict[str, Callable[[], object]]:
    random = np.random.default_rng(0)
    large, signal = random.random((700, 700)), random.random(1 << 20)
    small = np.asfortranarray(random.random((160, 160)))
    product = np.zeros_like(small)

    def multiply_short() -> None:
        from scipy.linalg.blas import dgemm  # noqa: PLC0415 - for a case that needs it

        # In this order and place nothing is copied or allocated beside the call.
        clocks.around_calls("multiply_short", [partial(dgemm, 1.0, small, small, c=product, overwrite_c=1)] * 5)

    def transform() -> None:
        import scipy.fft  # noqa: PLC0415 - for cases that need it

        scipy.fft.fft(signal, workers=2)
        scipy.fft.fft2(large, workers=2)

    def boost() -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 - as above

        HistGradientBoostingRegressor(max_iter=15).fit(table, table.sum(axis=1))

    def group() -> None:
        import polars as pl  # noqa: PLC0415 - as above

        frame = pl.DataFrame({"key": keys, "value": values})
        frame.group_by("key").agg(pl.col("value").sum(), pl.col("value").std().alias("spread"))

    def loop() -> None:
        prange(signal)

    prange = _compiled_loop() if find_spec("numba") is not None else np.sum
    table = random.random((8000, 10))
    keys, values = random.integers(0, 1000, 1_000_000), random.random(1_000_000)
    return {
        "multiply": lambda: large @ large,
        "multiply_too": lambda: large @ large,
        "multiply_short": multiply_short,
        "scan": lambda: sum(number * number for number in range(200_000)),
        "transform": transform,
        "boost": boost,
        "loop": loop,
        "group": group,
        "sort": lambda: np.sort(signal),
    }


def _compiled_loop() -> Callable[[object], object]:
    import numba  # noqa: PLC0415 - for a case that needs it

    def loop(values: Any) -> float:
        total = 0.0
        for place in numba.prange(values.size):
            total += np.sin(values[place])
        return total

    return cast("Callable[[object], object]", numba.njit(parallel=True)(loop))


def run(case: Case, folder: Path, seconds: float) -> None:
    """Record one case; leaves the trace and what the tasks read in the folder."""
    clocks = _Clocks()
    works = _works(clocks)
    if case.needs == "torch":
        works |= _torch_works()
    tasks = {name: tprof.task(name=name)(works[name]) for names in case.threads for name in names}
    for task in tasks.values():
        task()
    clocks.used_s.clear()
    time.sleep(0.3)

    def call(names: tuple[str, ...], seed: int) -> None:
        all_there.wait()
        clocks.begin_pools({name: tasks[name] for name in names if name in OWN_POOL})
        all_there.wait()
        random, end_s = np.random.default_rng(seed), time.monotonic() + seconds
        while time.monotonic() < end_s:
            for name in names:
                clocks.around(name, tasks[name])
            time.sleep(case.pause_s * 2 * random.random())

    all_there = threading.Barrier(len(case.threads))
    with tprof.record(folder / "case.tprof", energy="estimate", counters="none"):
        threads = [threading.Thread(target=call, args=one) for one in zip(case.threads, range(99), strict=False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(0.2)
    (folder / "truth.json").write_text(
        json.dumps({"used_s": clocks.used_s, "pools": {name: sorted(tids) for name, tids in clocks.pools.items()}})
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("case")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    run(next(case for case in CASES if case.name == given.case), given.folder, given.seconds)
