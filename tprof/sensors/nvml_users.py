"""Which processes used an NVIDIA GPU, as its driver tells it.

Three sources, the best one first ("NVML API Reference Guide", Device Queries):

- utilisation: each process's part of the last sample period, which is 1/6 to 1 s. Not with MIG.
- accounting: each process's utilisation over its lifetime so far, in whole percent, if root has switched it on
  (`nvidia-smi --accounting-mode=1`). Its use since the last question is a difference, less certain the older it is.
- the list of processes that have the GPU open: how much each used it is then not known.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .contract import Users
from .nvml_library import NO_FUNCTION, NO_PERMISSION, NOT_FOUND, NOT_SUPPORTED

if TYPE_CHECKING:
    from types import ModuleType

    Parts = tuple[tuple[int, float | None], ...]

PERIOD_S = 0.5
"""Time between questions."""
LONGEST_S = 5.0
"""Of the time that an answer by accounting covers."""
STEP = 0.01
"""Of a process's utilisation over its lifetime."""
LEAST_CERTAIN = 0.1
"""Part of the time since the last question by which the use of a process may be off, if it is to be believed."""
ENABLED = 1
NOT_AVAILABLE = 0xFFFFFFFF
UTILISATION, ACCOUNTING, UNKNOWN = "utilisation", "accounting", "not known"
_ABSENT = frozenset({NOT_SUPPORTED, NO_FUNCTION, NO_PERMISSION})


def how_known(nvml: ModuleType, handle: Any) -> str:
    """Return by what the use of single processes is known. Raises NVMLError."""
    try:
        nvml.nvmlDeviceGetProcessUtilization(handle, 0)
    except nvml.NVMLError as error:
        if error.value in _ABSENT:
            return ACCOUNTING if _is_accounting(nvml, handle) else UNKNOWN
        if error.value != NOT_FOUND:  # nobody used it
            raise
    return UTILISATION


def _is_accounting(nvml: ModuleType, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetAccountingMode(handle) == ENABLED)
    except nvml.NVMLError as error:
        if error.value not in _ABSENT:
            raise
        return False


class ProcessUse:
    """Asks again and again which processes used one GPU."""

    def __init__(self, nvml: ModuleType, domain: str) -> None:
        """Begin; nothing is asked yet."""
        self._nvml, self._domain = nvml, domain
        self._how: str | None = None
        self._seen_us = 0
        self._asked_ns: int | None = None
        self._busy_s: dict[int, float] = {}

    def ask(self, handle: Any) -> Users | None:
        """Return the use since the last answer; None: it is not known yet. Raises NVMLError."""
        if self._how is None:
            self._how = how_known(self._nvml, handle)
        now_ns = time.monotonic_ns()
        since_s = 0.0 if self._asked_ns is None else (now_ns - self._asked_ns) * 1e-9
        parts = self._by_accounting(handle, since_s) if self._how == ACCOUNTING else self._at_once(handle)
        if parts is None:
            return None
        since_ns, self._asked_ns = self._asked_ns, now_ns
        return None if since_ns is None else Users(self._domain, since_ns, now_ns, parts)

    def _open(self, handle: Any) -> set[int]:
        return {int(one.pid) for one in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)}

    def _at_once(self, handle: Any) -> Parts:
        running = self._open(handle)
        used = self._utilisation(handle) if self._how == UTILISATION else None
        if used is None:
            return tuple((pid, None) for pid in sorted(running))
        return tuple((pid, used.get(pid, 0.0)) for pid in sorted(running | used.keys()))

    def _utilisation(self, handle: Any) -> dict[int, float] | None:
        """Return the part of each process that used it; None if the driver samples it no more (MIG was switched on)."""
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(handle, self._seen_us)
        except self._nvml.NVMLError as error:
            if error.value == NOT_FOUND:
                return {}
            if error.value not in _ABSENT:
                raise
            self._how = None
            return None
        self._seen_us = max([self._seen_us, *(int(one.timeStamp) for one in samples)])
        used: dict[int, float] = {}
        for one in samples:
            used[int(one.pid)] = max(used.get(int(one.pid), 0.0), min(int(one.smUtil) / 100, 1.0))
        return {pid: part for pid, part in used.items() if pid}

    def _by_accounting(self, handle: Any, since_s: float) -> Parts | None:
        """Return the use of each process; None while it would be too uncertain."""
        there = self._open(handle)
        figures = {pid: self._accounted(handle, pid) for pid in sorted(there | self._busy_s.keys())}
        busy_s = {pid: figure[0] for pid, figure in figures.items() if figure is not None}
        if self._asked_ns is None:
            self._busy_s = busy_s
            return ()
        parts: dict[int, float | None] = {}
        for pid, figure in figures.items():
            certain = figure is not None and figure[1] <= LEAST_CERTAIN * since_s
            used_s = busy_s.get(pid, 0.0) - self._busy_s.get(pid, 0.0)
            parts[pid] = min(max(used_s / since_s, 0.0), 1.0) if certain else None
        if None in parts.values() and since_s < LONGEST_S:
            return None
        self._busy_s = {pid: seconds for pid, seconds in busy_s.items() if pid in there}
        return tuple(parts.items())

    def _accounted(self, handle: Any, pid: int) -> tuple[float, float] | None:
        """Return for how long a process used the GPU in its life, and by how much that may be off; None: not known."""
        try:
            stats = self._nvml.nvmlDeviceGetAccountingStats(handle, pid)
        except self._nvml.NVMLError as error:
            if error.value in _ABSENT | {NOT_FOUND}:
                return None
            raise
        if int(stats.gpuUtilization) == NOT_AVAILABLE:
            return None
        # The driver gives the length of the life, in ms, once it is over; until then only its begin, in µs.
        life_s = time.time() - int(stats.startTime) * 1e-6 if stats.isRunning else int(stats.time) * 1e-3
        life_s = max(life_s, 0.0)
        return int(stats.gpuUtilization) * STEP * life_s, STEP * life_s
