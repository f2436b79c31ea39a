"""Processes that analyse the hosts of a job: results in order, and a clear end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tprof.analysis.profile.parallel_maps import AHEAD, Processes

from tprof.errors import TprofError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG_S = 120
PROGRAM = """
import time
from tprof.analysis.profile.parallel_maps import Processes

if __name__ == "__main__":
    for _ in Processes(2)(time.sleep, [0.01] * 1_000_000):
        print("begun", flush=True)
"""


def test_results_come_in_order_and_never_pile_up() -> None:
    """Only so many items are taken ahead of the result that is asked for."""
    taken = []

    def items() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield -number

    results = Processes(2)(abs, items())

    assert next(results) == 0
    assert len(taken) <= 2 * AHEAD + 1
    assert list(results) == list(range(1, 40))


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
