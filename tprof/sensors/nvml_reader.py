"""Reads open NVIDIA GPUs: each GPU's count around its updates, and which processes used it.

The count moves every 20 to 100 ms, by GPU and driver, at regular times, and a call costs 20 µs to some ms (3 ms on an
H200 with driver 580). So the times of updates are learnt at first, and a GPU is then polled just before and just after
the next one only.
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
"""Time between polls: around an expected update, and where a GPU does not answer."""
LEARNING_S, LEARNING_EVERY_S = 1.0, 10.0
"""As long as the time between updates is not known, polls are close in so much of each such time."""
SLOW_SHARE = 0.05
"""Part of the time that polling may spend in calls otherwise where updates are not known."""
USUAL_S = 0.01
LATEST = 1.5
"""Close polling ends at this part of the time between updates."""
SLACK, LEAST_SLACK_S = 0.02, 0.001
"""Part of the time between updates by which one may come earlier or later: 1 ms of 100 was seen on an H200."""
AHEAD = 0.25
"""Part of that time by which a call may come before the update is expected and still show it."""
LEAST_ERROR = 0.001
"""Of the time between updates, so that it can follow a clock that drifts."""


class Updates:
    """When to poll a value that updates at regular times which are not known at first.

    Of an update only a window is known: from the begin of the last call that did not show it to the end of the first
    that did. Where it meets the window in which the update was expected, both narrow it. The time between updates is
    that of a series of them over their number.
    """

    def __init__(self) -> None:
        """Begin without any update."""
        self.gap_s: float | None = None
        self.changed = False
        self._value: float | None = None
        self._begun_s: float | None = None
        self._least_s = LONGEST_S
        self._unchanged_s = 0.0
        self._window: tuple[float, float] | None = None
        self._series, self._count, self._error_s = (0.0, 0.0), 0, 0.0

    def next_s(self, now_s: float, took_s: float, value: float) -> float:
        """Return when to poll next, after a poll at `now_s` that took so long and gave this value."""
        if self._begun_s is None:
            self._begun_s = now_s
        self._least_s = min(self._least_s, took_s)
        self.changed = self._value is not None and value != self._value
        if self.changed:
            self._see(self._unchanged_s, now_s)
        self._value, self._unchanged_s = value, now_s - took_s
        close_s, slow_s = max(SHORTEST_S, took_s), min(max(USUAL_S, took_s / SLOW_SHARE), LONGEST_S)
        if self.gap_s is None or self._window is None:
            is_learning = (now_s - self._begun_s) % LEARNING_EVERY_S < LEARNING_S
            return now_s + (close_s if is_learning else slow_s)
        if now_s >= self._window[1] + LATEST * self.gap_s:
            return now_s + slow_s
        return max(self._window[0] + self.gap_s - self._slack_s(1) - took_s, now_s + close_s)

    def _slack_s(self, steps: int) -> float:
        return max(SLACK * (self.gap_s or 0.0), LEAST_SLACK_S) + self._error_s * steps

    def _see(self, early_s: float, late_s: float) -> None:
        """Take an update that came between these times."""
        seen, before = (early_s, late_s), self._window
        is_narrow = late_s - early_s <= max(4 * self._least_s + SHORTEST_S, USUAL_S)
        if self.gap_s is None or before is None:
            self._window = seen if is_narrow else None
            if self.gap_s is None and is_narrow and before is not None:
                self.gap_s, self._error_s = _middle(seen) - _middle(before), late_s - early_s
                self._series, self._count = before, 0
                self._count_in(1, seen)
            return
        steps = max(int((late_s - _middle(before)) / self.gap_s + AHEAD), 1)
        slack_s = self._slack_s(steps)
        due = before[0] + steps * self.gap_s - slack_s, before[1] + steps * self.gap_s + slack_s
        met = max(early_s, due[0]), min(late_s, due[1])
        if met[0] < met[1]:
            self._window = met
            self._count_in(steps, met)
        else:  # it came at another time than the series lets expect
            self._window = self._series = seen
            self._count = 0

    def _count_in(self, steps: int, window: tuple[float, float]) -> None:
        """Go on with a series; it sets the time between updates once it knows it better than the one before."""
        self._count += steps
        widths_s = window[1] - window[0] + self._series[1] - self._series[0]
        if widths_s / 2 / self._count <= self._error_s:
            self.gap_s = (_middle(window) - _middle(self._series)) / self._count
            self._error_s = max(widths_s / 2 / self._count, LEAST_ERROR * self.gap_s)


def _middle(window: tuple[float, float]) -> float:
    return (window[0] + window[1]) / 2


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

    def asks_for_users(self, now_s: float) -> bool:
        """Return whether it is time to ask who used it: right after an update, since the answer may take some ms."""
        late_s = now_s - self.users_due_s
        return late_s >= 0 and (self._updates.changed or late_s >= PERIOD_S)

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
        begin_s = time.monotonic()  # from which `period_s` counts
        for gpu in self._gpus:
            now_s = time.monotonic()
            if gpu.due_s > now_s and gpu.is_counted:  # power is read each time, so that its integral has its ends
                continue
            try:
                found.append(gpu.read())
            except self._nvml.NVMLError as error:
                failed.append((gpu, error))
                continue
            if gpu.asks_for_users(now_s) and (users := gpu.users()) is not None:
                found.append(users)
        if failed and all(gpu.is_away for gpu in self._gpus):
            raise SensorError(f"cannot read {failed[0][0].domain.name}: {explain(failed[0][1])[0]}")
        self.period_s = max(min(gpu.due_s for gpu in self._gpus) - begin_s, SHORTEST_S)
        return found + [Reading(gpu.domain.name, None) for gpu, _ in failed]

    def close(self) -> None:
        """Close NVML."""
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError as error:
            raise SensorError(f"cannot close NVML: {explain(error)[0]}") from error
