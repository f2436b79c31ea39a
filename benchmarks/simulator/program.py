"""A program for the simulated machine: its tasks take as long as their law gives for the frequency that is set.

``python -m benchmarks.simulator.program --tasks sort,merge --instances 8 --seconds 0.02 --workers 2``
"""

from __future__ import annotations

import argparse
import ctypes
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from tprof.benchmarks.kernels._stress import pipeline

import tprof
from benchmarks.published import HIGHEST_HZ
from tprof.errors import SensorError, UsageError
from tprof.frequency import find_policies
from tprof.frequency.cpufreq import CPUFREQ, number_hz
from tprof.sensors.choose import SYSROOT, sysroot
from tprof.sensors.powercap import SIMULATED

from .simulated_machine import FIRST, RESPONSES, TaskLaw

if TYPE_CHECKING:
    from collections.abc import Callable

_current_cpu = ctypes.CDLL(None).sched_getcpu
SLICE_S = 0.002
"""A task reads the frequency, and reports, as often as this."""


class MachineConnection(Protocol):
    """What a task reads from the machine that it runs on, and reports to it."""

    def frequency_hz(self) -> int:
        """Return the present frequency of the core that this thread is on."""

    def report(self, task: str, hz: int, cpu_ns: int) -> None:
        """Report a slice: its task, its frequency and its CPU time."""


class Machine:
    """The machine, as a program's process sees it."""

    def __init__(self) -> None:
        """Find it. Raises UsageError."""
        try:
            address = (sysroot() / SIMULATED).read_text(encoding="ascii").strip()
        except OSError as error:
            raise UsageError(
                f"there is no simulated machine below {sysroot()}: start this program on one, which sets {SYSROOT}"
            ) from error
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.connect(f"\0{address}")
        self._policy_of = {
            cpu: f"{CPUFREQ}/{policy.folder.name}" for policy in find_policies(sysroot()) for cpu in policy.cpus
        }
        self._hz: dict[str, int] = {}

    def frequency_hz(self) -> int:
        """Return the present frequency of the core that this thread is on."""
        policy = self._policy_of.get(_current_cpu(), FIRST)
        # The file is empty while another process writes it; the last value counts then.
        with suppress(SensorError):
            self._hz[policy] = number_hz(sysroot() / policy / "scaling_max_freq")
        return self._hz.get(policy, HIGHEST_HZ)

    def report(self, task: str, hz: int, cpu_ns: int) -> None:
        """Report a slice: its task, its frequency and its CPU time."""
        self._socket.send(f"{task} {hz} {cpu_ns}".encode())


def body(
    machine: MachineConnection,
    law: TaskLaw,
    seconds: float,
    *,
    work_for: Callable[[float], object] = pipeline,
    cpu_ns: Callable[[], int] = time.thread_time_ns,
) -> Callable[[], None]:
    """Return the task: `seconds` of CPU time at the highest frequency.

    `work_for` is given the seconds of a slice, `cpu_ns` returns the thread's CPU time.
    """

    def work() -> None:
        left_ns = seconds * 1e9
        while left_ns > 0:
            hz = machine.frequency_hz()
            begin_ns = cpu_ns()
            work_for(min(SLICE_S, left_ns * 1e-9 * law.time(hz)))
            took_ns = cpu_ns() - begin_ns
            left_ns -= took_ns / law.time(hz)
            machine.report(law.task, hz, took_ns)

    return tprof.task(name=law.task)(work)


def main() -> None:
    """Run the tasks."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.partition("\n")[0])
    parser.add_argument("--tasks", default="sort,merge", help="of the paper's figure 11: " + ", ".join(RESPONSES))
    parser.add_argument("--instances", type=int, default=8, help="of each task")
    parser.add_argument("--seconds", type=float, default=0.02, help="of an instance, at the highest frequency")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("TPROF_WORKERS", "1")))
    asked = parser.parse_args()
    machine = Machine()
    tasks = [body(machine, RESPONSES[name], asked.seconds) for name in asked.tasks.split(",")]
    with ThreadPoolExecutor(asked.workers) as pool:
        for future in [pool.submit(task) for task in tasks for _ in range(asked.instances)]:
            future.result()


if __name__ == "__main__":
    main()
