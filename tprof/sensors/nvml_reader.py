"""Reads open NVIDIA GPUs: each GPU's count around its updates, and which processes used it.

The count moves every 20 to 100 ms, by GPU and driver, and a call costs 20 µs to some ms. So the usual time between
updates is learnt, and a GPU is polled closely only around the next one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .contract import Quantity, Reading
from .nvml_library import explain, power_w
from .nvml_users import PERIOD_S, ProcessUse

if TYPE_CHECKING:
    from types import ModuleType

    from .contract import Domain, Users

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
        self._use = ProcessUse(nvml, domain.name)

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
        """Return which processes used it since the last answer; None if the driver does not say."""
        self.users_due_s = time.monotonic() + PERIOD_S
        try:
            return self._use.ask(self._handle)
        except self.nvml.NVMLError:
            return None


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
