"""What happens to the guest's machine while it is recorded: processors, sleep and modules that come and go."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CPUS = Path("/sys/devices/system/cpu")
KERNEL = Path(os.environ.get("TPROF_LAB", "/")) / "kernel"


def hotplug(work: Callable[[], None], processors: list[int]) -> None:
    """Work with all processors, without these, and with all again."""
    work()
    for online in ("0", "1"):
        for processor in processors:
            (CPUS / f"cpu{processor}/online").write_text(online)
        work()


def suspend(work: Callable[[], None], times: int) -> None:
    """Suspend to idle between two rounds of work, so many times, for some seconds each."""
    work()
    for _ in range(times):
        Path("/sys/power/state").write_text("freeze")
        print(f"asleep {asleep_s()} s", flush=True)
    work()


def asleep_s() -> float:
    """Return how long the machine was suspended since its start."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def unload(work: Callable[[], None], modules: list[str], seconds: float) -> None:
    """Take modules from the kernel between two rounds of work, and load them again after some time."""
    work()
    taken = [module for module in modules if not subprocess.run(["rmmod", module], check=False).returncode]
    time.sleep(seconds)
    work()
    for module in reversed(taken):
        subprocess.run(["modprobe", "-d", KERNEL, module], check=True)
    work()


EVENTS = {"hotplug": hotplug, "suspend": suspend, "unload": unload}
