"""Runs kernels at once, each on a processor of its own and under a task of its name."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tprof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.benchmarks.kernels import Kernel


@dataclass(frozen=True)
class Part:
    """What one processor runs, and what the task is called."""

    task: str
    kernel: Kernel
    cpu: int


def run_together(parts: Sequence[Part], seconds: float) -> None:
    """Run them: all begin together, each with a working set of its own that it has touched itself."""
    together = threading.Barrier(len(parts))
    failed: list[BaseException] = []

    def work(part: Part) -> None:
        try:
            os.sched_setaffinity(0, {part.cpu})
            kernel = part.kernel.prepare()
            together.wait()
            with tprof.region(part.task):
                kernel(seconds)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            together.abort()
            failed.append(error)

    threads = [threading.Thread(target=work, args=(part,), name=f"kernel-{part.cpu}") for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = next((error for error in failed if not isinstance(error, threading.BrokenBarrierError)), None)
    if first is not None:
        raise first
