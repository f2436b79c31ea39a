"""A machine and tasks for tests of budgets: a sensor that advances by 50 W, and load by CPU time."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import tprof

from . import fake_trees
from .fake_sensor import FakeSensor, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

MODULUS = fake_trees.RANGE_UJ + 1
LONGEST_STEP_S = 0.02
"""Of the fake sensor: where it got no processor for longer it does not jump."""
WATTS = 50.0
IDLE_W = 0.01
"""At which a count moves, as that of a sensor must, and no budget is exceeded, however long a test gets ready."""


class Machine(NamedTuple):
    """A machine with a sensor."""

    tree: fake_trees.Tree
    sensor: FakeSensor

    def draws(self, watts: float) -> None:
        """Let it draw so much from now on."""
        self.sensor.order(self.tree.energy_of("intel-rapl:0"), watts=watts)


@contextmanager
def machine(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Have a sensor, and nobody else who is seen to run."""
    tree = fake_trees.laptop(place / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    tree.write("proc/stat", "\n".join(f"cpu{cpu} 0 0 0 0 0 0 0 0 0 0" for cpu in range(64)))
    sensor = FakeSensor(watts=WATTS, modulus=MODULUS, longest_step_s=LONGEST_STEP_S)
    with sensor.drives(tree.energy_of("intel-rapl:0")):
        yield Machine(tree, sensor)


def add_policy(tree: fake_trees.Tree) -> Path:
    """Let the frequency be set from 1 to 3 GHz; returns the file that says how high."""
    folder = "sys/devices/system/cpu/cpufreq/policy0"
    files = {
        "affected_cpus": "0 1", "scaling_driver": "acpi-cpufreq", "scaling_governor": "schedutil",
        "cpuinfo_min_freq": 1000000, "cpuinfo_max_freq": 3000000,
        "scaling_min_freq": 1000000, "scaling_max_freq": 3000000,
    }  # fmt: skip
    for name, value in files.items():
        tree.write(f"{folder}/{name}", str(value))
    return tree.root / folder / "scaling_max_freq"


def record(place: Path, energy: str = "powercap") -> tprof.Recording:
    """Record this process."""
    return tprof.record(place / "t.tprof", energy=energy, counters="none", idle_s=0)


@tprof.task
def spin(cpu_s: float) -> None:
    """Use CPU time."""
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


@tprof.task
def spin_until(done: Callable[[], object]) -> None:
    """Run as long as it is not done."""
    wait_for(done, "the end of the task")


def spin_over(budget: tprof.budgets.Budget) -> None:
    """Run tasks until the budget says that it is exceeded."""

    def is_exceeded() -> bool:
        spin(0.005)
        return budget.exceeded

    wait_for(is_exceeded, "the budget to be exceeded")


def spin_here_over(budget: tprof.budgets.Budget) -> None:
    """Use CPU time on this thread, in no task of its own, until the budget says that it is exceeded."""

    def is_exceeded() -> bool:
        spin.__wrapped__(0.005)
        return budget.exceeded

    wait_for(is_exceeded, "the budget to be exceeded")
