"""Reads open NVIDIA GPUs: each GPU's count around its updates, and which processes used it.

The count moves every 20 to 100 ms, by GPU and driver, and a call costs 20 µs to some ms. So the usual time between
updates is learnt, and a GPU is polled closely only around the next one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .contract import Quantity, Reading, Users
from .nvml_library import NO_FUNCTION, NO_PERMISSION, NOT_FOUND, NOT_SUPPORTED, explain, power_w

if TYPE_CHECKING:
    from types import ModuleType

    from .contract import Domain

SHORTEST_S, LONGEST_S = 0.002, 0.1
"""Time between polls: around an expected update, and where updates are not known."""
EARLIEST, LATEST = 0.85, 1.5
"""Close polling begins and ends at these parts of the usual time between updates."""
CLOSE_SHARE = 0.05
"""Part of the time that close polling may spend in calls of NVML, which take 20 µs to some ms."""
USUAL_S = 0.01
KEPT = 15 / 16


class Updates:
    """When to poll a value that updates at regular times which are not known at first."""

    def __init__(self) -> None:
        """Begin without any update."""
        self.gap_s: float | None = None
        self._value: float | None = None
        self._changed_s: float | None = None
        self._polled_s: float | None = None
        self._is_exact = False

    def next_s(self, now_s: float, took_s: float, value: float) -> float:
        """Return when to poll next, after a poll at `now_s` that took so long and gave this value."""
        close_s = min(max(SHORTEST_S, took_s / CLOSE_SHARE), LONGEST_S)
        window_s = None if self._polled_s is None else now_s - self._polled_s
        changed = self._value is not None and value != self._value
        self._value, self._polled_s = value, now_s
        if changed and window_s is not None:
            is_exact = window_s <= max(2 * close_s, USUAL_S + close_s)
            if is_exact and self._is_exact and self._changed_s is not None:
                self._learn(now_s - self._changed_s)
            self._changed_s, self._is_exact = now_s, is_exact
            return now_s + max(close_s, EARLIEST * self.gap_s if self.gap_s is not None else 0.0)
        if self.gap_s is not None and self._changed_s is not None and now_s - self._changed_s < LATEST * self.gap_s:
            return now_s + close_s
        return now_s + max(close_s, USUAL_S)

    def _learn(self, gap_s: float) -> None:
        """A gap that is far longer than usual had updates in it that were not seen, or none came."""
        if self.gap_s is None or gap_s < self.gap_s / LATEST:
            self.gap_s = gap_s
        elif gap_s < LATEST * self.gap_s:
            self.gap_s = KEPT * self.gap_s + (1 - KEPT) * gap_s


USERS_S = 0.5
"""Time between questions who uses the GPU; the driver's own sample period is 1/6 to 1 s."""


class _OpenGpu:
    """A GPU that is read: its handle, and when it is due."""

    def __init__(self, nvml: ModuleType, domain: Domain) -> None:
        self.nvml, self.domain = nvml, domain
        self.uuid = dict(domain.details)["uuid"]
        self.is_counted = domain.accuracy.shows is Quantity.ENERGY
        self.due_s = self.users_due_s = 0.0
        self._handle: Any = None
        self._updates = Updates()
        self.is_away = False
        self._has_utilisation = True
        self._seen_us = 0
        self._asked_ns: int | None = None

    def read(self) -> Reading:
        """Read its count or power. Raises NVMLError."""
        try:
            begin_s = time.monotonic()
            if self._handle is None:
                self._handle = self.nvml.nvmlDeviceGetHandleByUUID(self.uuid)
            if self.is_counted:
                value = self.nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
            else:
                value = power_w(self.nvml, self._handle)
        except self.nvml.NVMLError:
            self._handle, self.is_away, self._updates = None, True, Updates()
            self.due_s = time.monotonic() + LONGEST_S
            raise
        t_ns = time.monotonic_ns()
        self.due_s = self._updates.next_s(t_ns * 1e-9, t_ns * 1e-9 - begin_s, value)
        reopened, self.is_away = self.is_away, False
        return Reading(self.domain.name, value, t_ns, reopened)

    def users(self) -> Users | None:
        """Return which processes used it since the last call; None if the driver does not say."""
        self.users_due_s = time.monotonic() + USERS_S
        try:
            processes = self._processes()
        except self.nvml.NVMLError:
            return None
        now_ns = time.monotonic_ns()
        since_ns, self._asked_ns = self._asked_ns, now_ns
        return None if since_ns is None else Users(self.domain.name, since_ns, now_ns, processes)

    def _processes(self) -> tuple[tuple[int, float | None], ...]:
        running = {int(one.pid) for one in self.nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
        used = self._used() if self._has_utilisation else None
        if used is None:
            return tuple((pid, None) for pid in sorted(running))
        return tuple((pid, used.get(pid, 0.0)) for pid in sorted(running | used.keys()))

    def _used(self) -> dict[int, float] | None:
        """Return the utilisation of each process that used it; None if the driver does not sample it."""
        try:
            samples = self.nvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us)
        except self.nvml.NVMLError as error:
            if error.value == NOT_FOUND:  # nobody
                return {}
            if error.value not in {NOT_SUPPORTED, NO_FUNCTION, NO_PERMISSION}:
                raise
            self._has_utilisation = False
            return None
        self._seen_us = max([self._seen_us, *(int(one.timeStamp) for one in samples)])
        used: dict[int, float] = {}
        for one in samples:
            used[int(one.pid)] = max(used.get(int(one.pid), 0.0), min(int(one.smUtil) / 100, 1.0))
        return {pid: part for pid, part in used.items() if pid}


class NvmlReader:
    """The open GPUs."""

    period_s = SHORTEST_S

    def __init__(self, nvml: ModuleType, domains: tuple[Domain, ...]) -> None:
        """Open NVML. Raises SensorError."""
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise SensorError(f"cannot read NVIDIA GPUs: {explain(error)[0]}") from error
        self._nvml = nvml
        self._gpus = [_OpenGpu(nvml, domain) for domain in domains]

    def read(self) -> list[Reading | Users]:
        """Read the GPUs that are due. Raises SensorError if none can be read."""
        found: list[Reading | Users] = []
        failed: list[tuple[_OpenGpu, Any]] = []
        for gpu in self._gpus:
            now_s = time.monotonic()
            if gpu.due_s > now_s and gpu.is_counted:  # power is read each time, so that its integral has its ends
                continue
            try:
                found.append(gpu.read())
            except self._nvml.NVMLError as error:
                failed.append((gpu, error))
                continue
            if gpu.users_due_s <= now_s and (users := gpu.users()) is not None:
                found.append(users)
        if failed and all(gpu.is_away for gpu in self._gpus):
            raise SensorError(f"cannot read {failed[0][0].domain.name}: {explain(failed[0][1])[0]}")
        self.period_s = max(min(gpu.due_s for gpu in self._gpus) - time.monotonic(), SHORTEST_S)
        return found + [Reading(gpu.domain.name, None) for gpu, _ in failed]

    def close(self) -> None:
        """Close NVML."""
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            raise SensorError(f"cannot close NVML: {explain(error)[0]}") from error
