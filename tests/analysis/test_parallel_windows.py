"""Windows of a recording that threads or processes share: the same bytes, whoever shares them, and a clear end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from support import nested_runs, traces
from tprof.analysis.export import format_named
from tprof.analysis.profile.parallel_maps import AHEAD, Processes, Threads, ended

import tprof
from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

LONG_S = 120
PROGRAM = """
import time
from tprof.analysis.profile.parallel_maps import Processes

if __name__ == "__main__":
    for _ in Processes(2)(time.sleep, [0.01] * 1_000_000):
        print("begun", flush=True)
"""


def written(trace: tprof.Trace, folder: Path, map: Callable[..., Iterable[Any]] | None) -> dict[str, bytes]:  # noqa: A002
    """Return the summary and the exported files of a recording that is read window by window."""
    profile = trace.profile("ipc", tables=False, window_samples=40, map=map)
    format_named("csv").write(profile, folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return files | {"summary": profile.summary().to_json(double_precision=15).encode()}


@pytest.mark.parametrize("kind", [Threads, Processes])
def test_any_number_of_threads_or_processes_gives_the_same_bytes(tmp_path, kind) -> None:
    """Summary and exported files are those of the built-in map, whoever shares the windows."""
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(3), domains=4))

    alone = written(trace, tmp_path / "alone", map)

    for count in (1, 2, 3):
        assert written(trace, tmp_path / str(count), kind(count)) == alone


def test_a_client_of_dask_gives_the_same_bytes(tmp_path) -> None:
    """An engine's map stands in for the built-in one."""
    distributed = pytest.importorskip("distributed")
    trace = tprof.load(nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(4), domains=2))
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
        shared = written(trace, tmp_path / "shared", lambda call, items: client.gather(client.map(call, items)))

    assert shared == written(trace, tmp_path / "alone", map)


def test_an_instance_that_begins_again_after_its_end_is_one_with_processes_too(tmp_path) -> None:
    """Whatever window it begins again in."""
    t_ns = np.arange(5) * traces.SECOND_NS
    thread = {"t_ns": t_ns, "instance": [1, 0, 2, 1, 0], "task": [0, -1, 1, 0, -1], "kind": [1, 2, 1, 1, 2]}
    session = traces.write(tmp_path / "x.tprof", threads=[thread])
    trace = tprof.load(session)

    profile = trace.profile(window_samples=1, map=Processes(2))

    pd.testing.assert_frame_equal(profile.tasks, trace.profile().tasks)
    assert profile.info == trace.profile().info


@pytest.mark.parametrize("kind", [Threads, Processes])
def test_results_come_in_order_and_never_pile_up(kind) -> None:
    """Only so many items are taken ahead of the result that is asked for."""
    taken = []

    def items() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield -number

    results = kind(2)(abs, items())

    assert next(results) == 0
    assert len(taken) <= 2 * AHEAD + 1
    assert list(results) == list(range(1, 40))


def test_an_error_of_what_takes_results_ends_the_threads_that_compute_them() -> None:
    """Not only once somebody drops the error, which holds all that was going on."""
    with pytest.raises(ZeroDivisionError) as error, ended(Threads(2)(abs, range(100))) as results:
        assert next(iter(results)) / 0

    assert error.tb is not None
    assert not [one for one in threading.enumerate() if one.name.startswith("tprof-window")]


def test_a_process_that_is_killed_is_one_sentence() -> None:
    """The error says what happened and what to try."""
    with pytest.raises(TprofError, match="was killed, perhaps since memory ran out: try again with fewer"):
        list(Processes(2)(signal.raise_signal, [signal.SIGKILL] * 3))


@pytest.mark.parametrize("whom", ["all", "the first"])
def test_all_processes_end_with_the_one_that_started_them(tmp_path, whom) -> None:
    """An interrupt from the keyboard, which all of them get, or a kill of the first leaves nothing behind."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path, process_group=0
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"

        if whom == "all":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.kill()
        process.communicate(timeout=LONG_S)

    deadline_s = time.monotonic() + LONG_S
    while is_there(process.pid) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not is_there(process.pid)


def is_there(group: int) -> bool:
    """Return whether a group has any process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
